"""The tools of one upstream server: all pages of its listing, within bounds, without what is no tool."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, cast

from mcp import Client
from mcp_ext_tools_search.client.raw import raw_request
from mcp_types import Tool
from pydantic import ValidationError

from tools_search_server.upstream_session import absorb_tools

__all__ = ["read_tools"]

logger = logging.getLogger(__name__)

_MAX_PAGES: Final = 1000
_MAX_TOOLS: Final = 50_000


async def read_tools(client: Client, server: str, *, page_seconds: float) -> dict[str, Tool]:
    """Return the tools of a server by name, in its order.

    What a server sends may be anything: a definition that is no tool and the second of two with one name are left out
    and reported, and a listing that does not end is cut.

    Raises:
        MCPError: The server refused to list, or took longer than `page_seconds` for one page.
    """
    if client.server_capabilities.tools is None:
        return {}
    tools = _usable(await _entries(client, server, page_seconds), server)
    kept = {tool.name: tool for tool in absorb_tools(client, list(tools.values()))}
    for name in tools.keys() - kept.keys():
        logger.warning("%s: tool %r is left out: its x-mcp-header is invalid", server, name, extra={"server": server})
    return kept


async def _entries(client: Client, server: str, page_seconds: float) -> list[Any]:
    entries: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MAX_PAGES):
        params = {} if cursor is None else {"cursor": cursor}
        page = await raw_request(client, "tools/list", params, seconds=page_seconds)
        listed = page.get("tools")
        entries += cast("list[Any]", listed) if isinstance(listed, list) else []
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return entries
        if cursor in seen or len(entries) > _MAX_TOOLS:
            break
        seen.add(cursor)
    used = entries[:_MAX_TOOLS]
    logger.warning(
        "%s: its list of tools does not end; the first %d are used", server, len(used), extra={"server": server}
    )
    return used


def _usable(entries: Sequence[Any], server: str) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for entry in entries:
        try:
            tool = Tool.model_validate(entry, by_name=False)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            logger.warning("%s: a tool is left out: it is invalid at %r", server, place, extra={"server": server})
            continue
        if tool.name in tools:
            logger.warning("%s: the second tool named %r is left out", server, tool.name, extra={"server": server})
            continue
        tools[tool.name] = tool
    return tools
