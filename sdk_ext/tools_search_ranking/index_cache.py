"""Indexes of the listings that were searched lately, and the work that is done with them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from time import thread_time
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp_ext_tools_search.ranking import Hit, Ranker, SlowRanker

from tools_search_ranking import floored
from tools_search_ranking.catalog import WHOLE, CatalogSnapshot, Part
from tools_search_ranking.hits import LazyHits
from tools_search_ranking.indexing import Indexed, indexed

__all__ = ["IndexCache"]

_KEPT: Final = 8
"""Listings whose index is kept: callers that see different tools have different listings."""

_LARGE: Final = 200
"""Number of tools from which on ranking leaves the event loop for a thread."""

_QUICK_SECONDS: Final = 0.002
"""What a search may have taken of the processor for the next one in its index to stay all the same: it holds the
interpreter's lock wherever it is, and the way to a thread and back would take a good part of it."""


class IndexCache:
    """Ranks the tools of any listing, and indexes it only when its content has not been seen lately.

    The key is the content itself, so an index is never stale: a change in any definition is another key. Where the
    ranker can, the index of a catalog is made from that of the one most like it, for the price of what is different.

    Args:
        ranker: Makes the indexes.
        max_concurrency: Number of large catalogs that are worked on at the same time.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = floored(ranker)
        self._large = 0 if isinstance(ranker, SlowRanker) else _LARGE
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[bytes, Future[Indexed]] = OrderedDict()

    async def rank(
        self, tools: Mapping[str, dict[str, Any]], query: str, *, catalog: CatalogSnapshot | None = None
    ) -> Sequence[Hit]:
        """Return every tool that fits `query`, best first, none twice.

        Args:
            tools: Wire definitions by name.
            query: Text that is not blank.
            catalog: Searched instead, with `tools` as what is visible of it, if it covers them. The answer is the
                same; all parts of a catalog share one index.
        """
        if max(len(tools), 0 if catalog is None else len(catalog.tools)) < self._large:
            return self._rank(tools, query, catalog)
        if self._large and (quick := self._quick(tools, catalog)) is not None:
            kept, part = quick
            return _searched(kept, tools, query, part)
        return await anyio.to_thread.run_sync(self._rank, tools, query, catalog, limiter=self._limiter)

    def _quick(
        self, tools: Mapping[str, dict[str, Any]], catalog: CatalogSnapshot | None
    ) -> tuple[Indexed, Part] | None:
        """Return the index of these tools, if they are known as a part of a catalog that was searched quickly last.

        None of them is compared for that.
        """
        if catalog is None or not catalog.is_digested or (part := catalog.known_part(tools)) is None:
            return None
        with self._lock:
            pending = self._indexes.get(catalog.digest)
            if pending is None or not pending.done() or pending.exception():
                return None
            self._indexes.move_to_end(catalog.digest)
        kept = pending.result()
        return (kept, part) if kept.last_seconds < _QUICK_SECONDS else None

    def _rank(self, tools: Mapping[str, dict[str, Any]], query: str, catalog: CatalogSnapshot | None) -> Sequence[Hit]:
        part = None if catalog is None else catalog.part(tools)
        if catalog is None or part is None:
            catalog, part = CatalogSnapshot(tools), WHOLE
        return _searched(self._indexed(catalog), tools, query, part)

    def _indexed(self, catalog: CatalogSnapshot) -> Indexed:
        key = catalog.digest
        with self._lock:
            pending = self._indexes.get(key)
            is_new = pending is None
            if pending is None:
                pending = self._indexes[key] = Future()
            self._indexes.move_to_end(key)
            if len(self._indexes) > _KEPT:
                self._indexes.popitem(last=False)
        if is_new:
            self._build(catalog, pending)
        return pending.result()

    def _build(self, catalog: CatalogSnapshot, pending: Future[Indexed]) -> None:
        """Index `catalog` for everyone who waits for `pending`."""
        try:
            pending.set_result(indexed(catalog, self._ranker, self._finished()))
        except BaseException as error:
            with self._lock:
                self._indexes.pop(catalog.digest, None)  # a failure is not remembered
            pending.set_exception(error)

    def _finished(self) -> list[Indexed]:
        with self._lock:
            return [one.result() for one in self._indexes.values() if one.done() and not one.exception()]


def _searched(kept: Indexed, tools: Mapping[str, dict[str, Any]], query: str, part: Part) -> Sequence[Hit]:
    """Search an index, and note how long that takes."""
    began = thread_time()
    hits = kept.index.search(query, visible=part.names)
    kept.last_seconds = thread_time() - began
    if isinstance(hits, LazyHits):
        return hits  # the default ranker's: by construction each is visible, and none there twice
    # A ranker may be anyone's: what it names twice, or what the caller does not see, is not another match.
    names = [hit.name for hit in hits]
    if len(tools.keys() & names) == len(names):
        return hits
    found: dict[str, Hit] = {}
    for hit in hits:
        if hit.name in tools:
            found.setdefault(hit.name, hit)
    return list(found.values())
