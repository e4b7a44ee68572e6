"""Whether a server's tools are indexed here, or stay there because they are many and it can search them itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mcp import Client
from mcp_ext_tools_search.client import server_settings
from mcp_types import Tool

from tools_search_server.upstreams.remote import Remote
from tools_search_server.upstreams.remote_bounds import NotAnswered
from tools_search_server.upstreams.upstream_listing import Allowance, TooMany, read_tools

__all__ = ["read_catalog"]

logger = logging.getLogger(__name__)


async def read_catalog(
    client: Client, server: str, allowance: Allowance, *, index_at_most: int | None, page_seconds: float
) -> tuple[Mapping[str, Tool], Remote | None]:
    """Return the tools of a server by name, or none of them and the way to search them where they are.

    Args:
        client: The connection.
        server: The server's name.
        allowance: How much of its lists is read.
        index_at_most: How many tools of a server that can be searched are indexed; `None` for all.
        page_seconds: How long the server may take for one page of its list.

    Raises:
        MCPError: The server refused to list, or took too long for a page.
        ListingTooLargeError: It lists more than is read.
    """
    settings = server_settings(client)
    if settings is not None and index_at_most is not None:
        if settings.catalog_size is None or settings.catalog_size <= index_at_most:
            try:
                return await read_tools(client, server, allowance, page_seconds=page_seconds, most=index_at_most), None
            except TooMany:
                pass
        remote = Remote(client, server, settings)
        try:
            await remote.search(server)
        except NotAnswered as failure:
            logger.warning("%s is indexed, since it cannot be searched: %s", server, failure, extra={"server": server})
        else:
            return {}, remote
    return await read_tools(client, server, allowance, page_seconds=page_seconds), None
