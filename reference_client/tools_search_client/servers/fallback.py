"""Searching a server that cannot search: list everything once, then rank on this side.

The ranking and the matching floor are those of the reference server, so that a user sees no difference but time. A
listing comes from a server that may never stop: pages, tools and cursors are bounded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mcp_ext_tools_search.client.listing import ListedPage
from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import ListToolsResult, Tool
from tools_search_ranking.floor import floored

from tools_search_client.errors import InvalidServerResult
from tools_search_client.servers.cache import CacheScope
from tools_search_client.servers.found import FoundTool

__all__ = ["Listing", "ListingBounds", "LocalIndex", "list_everything"]

FetchPage = Callable[[str | None], Awaitable[ListedPage]]
"""Asks for the page at a cursor, `None` for the first."""


@dataclass(frozen=True, slots=True)
class ListingBounds:
    """How much of a listing is believed before it counts as endless."""

    max_pages: int = 1_000
    max_tools: int = 100_000


@dataclass(frozen=True, slots=True)
class Listing:
    """Every tool of a server, in its own order, each name once."""

    tools: tuple[Tool, ...]

    ttl_seconds: float | None
    """How long the server lets it be kept: the shortest of its pages; `None` where it does not say."""

    scope: CacheScope
    """`private` if any page is."""

    left_out: int = 0
    """How many definitions are missing, because the protocol forbids them."""


async def list_everything(fetch: FetchPage, bounds: ListingBounds) -> Listing:
    """Return all pages of `tools/list` as one listing.

    An empty page is no end, and the first definition of a name is the one that counts. Definitions that the protocol
    forbids are left out and counted.

    Raises:
        InvalidServerResult: A cursor came back that was used before, or the listing goes beyond its bounds.
    """
    pages: list[ListToolsResult] = []
    left_out = 0
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    used: set[str] = set()
    while True:
        listed = await fetch(cursor)
        page = listed.result
        pages.append(page)
        left_out += listed.left_out
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            return _listing(tools, pages, left_out)
        _refuse_endless(cursor, used, bounds, len(pages), len(tools))
        used.add(cursor)


def _refuse_endless(cursor: str, used: set[str], bounds: ListingBounds, pages: int, tools: int) -> None:
    if cursor in used:
        raise InvalidServerResult("tools/list gave a cursor a second time: its pages go round in a circle")
    if pages >= bounds.max_pages:
        raise InvalidServerResult(f"tools/list has no end after {pages} pages")
    if tools > bounds.max_tools:
        raise InvalidServerResult(f"tools/list has no end after {tools} tools")


def _listing(tools: dict[str, Tool], pages: Sequence[ListToolsResult], left_out: int) -> Listing:
    said = [page.ttl_ms / 1000 for page in pages if "ttl_ms" in page.model_fields_set]
    private = any(page.cache_scope == "private" for page in pages)
    return Listing(tuple(tools.values()), min(said, default=None), "private" if private else "public", left_out)


class LocalIndex:
    """The tools of one listing, ready to be searched on this side."""

    def __init__(self, tools: Sequence[Tool], ranker: Ranker) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._index = floored(ranker)(list(self._tools.values()))

    def search(self, query: str, limit: int) -> tuple[FoundTool, ...]:
        """Return the best `limit` tools for `query`; nothing for a blank one."""
        return tuple(self._found(hit) for hit in self._index.search(query)[:limit])

    def _found(self, hit: Hit) -> FoundTool:
        return FoundTool(self._tools[hit.name], HitMetadata(score=hit.score, matched=list(hit.matched)))
