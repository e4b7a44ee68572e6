"""One search: its answer, the default search, which works for any server, and the pages cut from the answer.

Servers that keep their listings ready, or that search other servers, can pass `ToolsSearch(search=...)` a `Search`
function. Without one, `ToolsSearch` uses `ListingSearch`.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from pydantic_core import to_json

from mcp_ext_tools_search.cursor import Continuation, CursorKey, answer_digest
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex, distinct_hits, first_names, floored
from mcp_ext_tools_search.server.listing import caller_listing, read_listing
from mcp_ext_tools_search.types import EXTENSION_ID, Primitive, published_metadata, valid_tools

Result = TypeVar("Result")

_SCORE_DIGITS: Final = 4  # plenty to compare scores from 0 to 1
_THREAD_FROM_TOOLS: Final = 200  # from this many tools on, ranking leaves the event loop for a thread


@dataclass(frozen=True, slots=True)
class Answer:
    """All matches of one search, for one caller."""

    hits: Sequence[Hit]
    """The matches, best first, without duplicates."""

    tools: Mapping[str, dict[str, Any]]
    """The definition of each hit by key, exactly as in this caller's list. It may contain others."""

    ttl_ms: int = 0
    """How many milliseconds the answer may be cached."""

    cache_scope: Literal["public", "private"] = "private"
    """`public` if the answer is the same for every caller."""

    note: str = ""
    """What the answer depends on besides query and catalog: up to 1,024 letters, digits, `_` and `-`. Cursors carry it
    to the search for the next page; clients can read it."""


Search: TypeAlias = Callable[[ServerRequestContext[Any, Any], str, str | None], Awaitable[Answer]]
"""Finds the tools that fit a query. Its arguments are the request, the query, and the cursor's note (`None` on the
first page). While nothing changes, equal arguments must give equal answers, or paging fails with an expired cursor. It
may only return tools in the caller's own `tools/list` (draft: Response)."""


PageSearch: TypeAlias = Callable[[ServerRequestContext[Any, Any], str, range], Awaitable[Answer]]
"""Finds tools in a catalog too large to hold in memory. Its arguments are the request, the query, and the positions of
the page in the answer, from 0. `Answer.hits` has the length of the whole answer and the hits up to the end of the page,
as a `LazyHits` can; `Answer.tools` only needs the definitions of the page."""


@dataclass(slots=True)
class _KeptIndex:
    lock: anyio.Lock
    index: ToolIndex | None = None


class ListingSearch:
    """Searches the caller's own list, which it reads for each search through all of the server's middleware.

    Indexes are cached by the content of the listing, so they are never stale.

    Args:
        ranker: Builds the indexes. The matching floor is added to those that do not implement it.
        max_concurrency: Maximum number of concurrent rankings of large listings.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = floored(ranker)
        self.kept_indexes = 8  # callers that see different tools have different listings
        self.thread_from = 0 if getattr(ranker, "is_slow", False) else _THREAD_FROM_TOOLS
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._indexes: OrderedDict[bytes, _KeptIndex] = OrderedDict()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], query: str, note: str | None) -> Answer:
        """Return the items in the caller's listing that fit `query`."""
        listing = await read_listing(caller_listing(ctx))
        hits = await self.rank(listing.items, query, lambda: self._ranker(valid_tools(listing.items.values())))
        return Answer(hits, listing.items, listing.ttl_ms, listing.cache_scope)

    async def rank(
        self, items: Mapping[str, dict[str, Any]], query: str, index: Callable[[], ToolIndex]
    ) -> Sequence[Hit]:
        """Return the `items`, wire definitions by key, that fit `query`, best first, without duplicates.

        `index` builds an index of them if none is cached.
        """
        size = len(items)
        key = await self._run(size, lambda: hashlib.sha256(to_json(list(items.values()))).digest())
        # Computing a digest is much cheaper than indexing, and the SDK announces no change of an MCPServer's tools.
        kept = self._indexes.setdefault(key, _KeptIndex(anyio.Lock()))
        self._indexes.move_to_end(key)
        if len(self._indexes) > self.kept_indexes:
            self._indexes.popitem(last=False)
        async with kept.lock:  # searches that come while it is being made wait for it
            if kept.index is None:
                kept.index = await self._run(size, index)
        return distinct_hits(await self._run(size, partial(kept.index.search, query)), items)

    async def _run(self, size: int, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which runs in a thread if `size` items would block the event loop for long."""
        return work() if size < self.thread_from else await anyio.to_thread.run_sync(work, limiter=self._limiter)


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """A search method and its implementation."""

    primitive: Primitive[Any]
    search: Search
    cursors: CursorKey


def cut_page(
    method: SearchMethod, query: str, answer: Answer, continuation: Continuation | None, size: int
) -> dict[str, Any]:
    """Return a page of at most `size` found items, with `nextCursor` unless they are the last.

    The page is the first one, or begins at the position in a cursor's `continuation`. Raises `InvalidCursorError` if
    the answer has changed since.
    """
    hits, start = answer.hits, 0
    if continuation is not None:
        start = continuation.position
        continuation.require(answer_digest(first_names(hits, start), len(hits)))
    end = start + size
    found = hits[start:end]
    page: dict[str, Any] = {method.primitive.member: [_explained(answer.tools[hit.name], hit) for hit in found]}
    if end < len(hits):
        shown = first_names(hits, end) if start else [hit.name for hit in found]
        page["nextCursor"] = method.cursors.issue(query, end, answer_digest(shown, len(hits)), answer.note)
    return page


def _explained(item: dict[str, Any], hit: Hit) -> dict[str, Any]:
    """Return the definition with the hit's metadata merged into what the server publishes there."""
    published = item.get("_meta")
    meta = cast("dict[str, Any]", published) if isinstance(published, dict) else {}
    # Rankers may be third-party code, so a score may not be a number.
    score = round(min(max(hit.score, 0.0), 1.0), _SCORE_DIGITS) if math.isfinite(hit.score) else None
    metadata: dict[str, Any] = {**published_metadata(meta), "score": score, "matched": list(hit.matched)}
    # Draft, Hit Metadata: the shape is promised to readers of a hit, not to readers of a listing.
    if not isinstance(metadata.get("group", ""), str):
        del metadata["group"]
    metadata = {name: value for name, value in metadata.items() if value is not None}
    return {**item, "_meta": {**meta, EXTENSION_ID: metadata}}
