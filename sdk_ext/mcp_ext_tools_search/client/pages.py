"""Every page of a search, and every tool of every page."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import anyio
from mcp import MCPError
from mcp_types import INVALID_PARAMS, Tool

from mcp_ext_tools_search.client.advertisement import Target
from mcp_ext_tools_search.client.errors import InvalidSearchResult, retry_after
from mcp_ext_tools_search.client.search import search_tools
from mcp_ext_tools_search.types import SearchToolsResult

__all__ = ["iter_pages", "iter_tools", "read_pages"]

logger = logging.getLogger(__name__)

_MAX_BARREN_PAGES: Final = 50
"""Pages in a row without a new tool after which a search is given up."""

_MAX_BUSY_ANSWERS: Final = 4
"""Answers that the server is too busy after which a page is given up."""


async def read_pages(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    enough: Callable[[Sequence[SearchToolsResult]], bool] = lambda _: False,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
    patience: float = 5.0,
) -> list[SearchToolsResult]:
    """Return the pages of a search, in order, until there are `enough` or no more.

    When a cursor is refused, the pages are discarded and the search starts over, once (draft: Pagination). When a later
    page fails otherwise, or its cursor is refused again, the pages before it are returned if they hold any tool. The
    search is then incomplete: the last page has a `next_cursor`. The other arguments are those of `iter_pages`.

    Raises:
        InvalidSearchResult: As `iter_pages`, before any tool was found.
        ToolsSearchError: As `search_tools`.
        MCPError: As `iter_pages`, before any tool was found. -32602 means that the query is refused.
    """
    starts_over = False
    while True:
        pages: list[SearchToolsResult] = []
        try:
            async for page in iter_pages(target, query, limit=limit, timeout=timeout, patience=patience):
                pages.append(page)
                if enough(pages):
                    break
        except (InvalidSearchResult, MCPError) as error:
            is_refused = isinstance(error, MCPError) and error.code == INVALID_PARAMS
            if is_refused and pages and not starts_over:
                starts_over = True
                continue
            if not any(page.tools for page in pages):
                raise
            logger.warning("a search is incomplete: page %d failed: %s", len(pages) + 1, error)
        return pages


async def iter_pages(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
    patience: float = 5.0,
) -> AsyncIterator[SearchToolsResult]:
    """Yield the pages of a search in order, asking for each when it is wanted; `limit` bounds each.

    An empty page is not the end (draft: Pagination). A server that is too busy is asked for the same page again when it
    says, up to three times, within `patience` seconds for each page and within the deadline of the caller.

    Raises:
        InvalidSearchResult: The server keeps on sending pages without a new tool.
        ToolsSearchError: As `search_tools`.
        MCPError: As `search_tools`. A cursor is refused with -32602, for example when the catalog has changed:
            `read_pages` starts over.
    """
    names: set[str] = set()
    cursor: str | None = None
    barren = 0
    while True:
        ask = partial(search_tools, target, query, limit=limit, cursor=cursor, timeout=timeout)
        page = await _patiently(ask, patience)
        yield page
        found = {tool.name for tool in page.tools} - names
        names |= found
        barren = 0 if found else barren + 1
        cursor = page.next_cursor
        if cursor is None:
            return
        if barren >= _MAX_BARREN_PAGES:
            raise InvalidSearchResult(f"{barren} pages in a row without a new tool")


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


async def _patiently(ask: Callable[[], Awaitable[SearchToolsResult]], patience: float) -> SearchToolsResult:
    latest = min(anyio.current_time() + patience, anyio.current_effective_deadline())
    busy = 0
    while True:
        try:
            return await ask()
        except MCPError as error:
            wait, busy = retry_after(error), busy + 1
            if wait is None or busy >= _MAX_BUSY_ANSWERS or anyio.current_time() + wait > latest:
                raise
        await anyio.sleep(wait)
