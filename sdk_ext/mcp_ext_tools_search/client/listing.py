"""Pages of `tools/list` that lose only the tools with invalid definitions.

The SDK refuses such a page as a whole, so one invalid definition would hide every tool of a server.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp_types import ListToolsResult, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_ext_tools_search.client._sdk import MODERN_ONLY, Target, absorb, raw_request, session_of
from mcp_ext_tools_search.types import cache_hints, first_problem

logger = logging.getLogger(__name__)

_METHOD: Final = "tools/list"


@dataclass(frozen=True, slots=True)
class ListedPage:
    """The usable part of one page."""

    result: ListToolsResult  # with the tools that may be called
    left_out: int = 0  # definitions left out because the connection's protocol revision forbids them


async def list_page(client: Target, cursor: str | None) -> ListedPage:
    """Request the page at `cursor`, or the first page for `None`, and make its tools callable.

    Raises:
        ValidationError: The page itself, not just a definition, violates the protocol.
        MCPError: The server refused or is gone.
    """
    session = session_of(client)
    version = session.protocol_version or ""
    page = await raw_request(client, _METHOD, {} if cursor is None else {"cursor": cursor}, seconds=None)
    if version not in MODERN_PROTOCOL_VERSIONS:
        page = {name: value for name, value in page.items() if name not in MODERN_ONLY}
    else:  # the revision requires these members, and the SDK would refuse a page without them
        ttl_ms, scope = cache_hints(page)
        page = {"resultType": "complete"} | page | {"ttlMs": ttl_ms, "cacheScope": scope}
    listed: object = page.get("tools")
    entries = cast("list[Any]", listed) if isinstance(listed, list) else []
    try:
        result = _valid(page, version)
    except ValidationError:  # only then one by one, which takes much longer
        if not isinstance(listed, list):
            raise
        result = _valid(page | {"tools": []}, version)
        for entry in entries:
            try:
                result.tools += _valid(page | {"tools": [entry]}, version).tools
            except ValidationError as error:
                place = first_problem(error)[0].removeprefix("tools.0.")
                logger.info("a tool is left out: its definition is invalid at %r", place)
    result.tools = absorb(session, result.tools)
    return ListedPage(result, len(entries) - len(result.tools))


def _valid(page: dict[str, Any], version: str) -> ListToolsResult:
    methods.validate_server_result(_METHOD, version, page)
    return ListToolsResult.model_validate(page, by_name=False)
