"""Every page of a search, and every tool of every page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from mcp_types import Tool

from mcp_ext_tools_search.client.advertisement import Target
from mcp_ext_tools_search.client.errors import InvalidSearchResult
from mcp_ext_tools_search.client.search import search_tools
from mcp_ext_tools_search.types import SearchToolsResult

__all__ = ["iter_pages", "iter_tools"]

_MAX_BARREN_PAGES: Final = 100
"""Pages in a row without a new tool after which a search is given up."""


async def iter_pages(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
) -> AsyncIterator[SearchToolsResult]:
    """Yield the pages of a search in order, asking for each when it is wanted; `limit` bounds each.

    An empty page is not the end (draft: Pages).

    Raises:
        InvalidSearchResult: The server repeats a cursor, or keeps on sending pages without a new tool.
        ToolsSearchError: As `search_tools`.
        MCPError: As `search_tools`. A cursor is refused with -32602 when the catalogue has changed: start over.
    """
    cursors: set[str] = set()
    names: set[str] = set()
    cursor: str | None = None
    barren = 0
    while True:
        page = await search_tools(target, query, limit=limit, cursor=cursor, timeout=timeout)
        yield page
        found = {tool.name for tool in page.tools} - names
        names |= found
        barren = 0 if found else barren + 1
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in cursors:
            raise InvalidSearchResult("nextCursor repeats, so the pages would never end")
        if barren >= _MAX_BARREN_PAGES:
            raise InvalidSearchResult(f"{barren} pages in a row without a new tool")
        cursors.add(cursor)


async def iter_tools(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
) -> AsyncIterator[Tool]:
    """Yield every matching tool once, best first; `limit` bounds each page, not their sum.

    Raises:
        InvalidSearchResult: As `iter_pages`.
        ToolsSearchError: As `search_tools`.
        MCPError: As `search_tools`.
    """
    names: set[str] = set()
    async for page in iter_pages(target, query, limit=limit, timeout=timeout):
        for tool in page.tools:
            if tool.name not in names:
                names.add(tool.name)
                yield tool
