"""A cache of indexes by content, for servers whose callers see different parts of one catalog."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex, distinct_hits
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import valid_tools
from pydantic_core import to_json

from tools_search_ranking.hits import LazyHits
from tools_search_ranking.ranker import UpdatableIndex, unknown_words

_KEPT_INDEXES: Final = 8
"""Number of cached indexes. Callers that see different tools have different listings."""

_KEPT_PARTS: Final = 16
"""Number of listings that are recognized without comparing their definitions."""

_MAX_CHANGED: Final = 0.5
"""Maximum share of different tools for making the index of one catalog from that of another."""

_THREAD_FROM_TOOLS: Final = 200
"""From this many tools on, ranking runs in a thread."""

_QUICK_SECONDS: Final = 0.002
"""If the last search took at most this CPU time, the next one in its index runs on the event loop nevertheless. It
holds the GIL in any case, and switching to a thread and back would take a large part of that time."""

Definitions: TypeAlias = Mapping[str, dict[str, Any]]
"""Tool definitions by name, in wire form."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a catalog that a caller sees."""

    names: frozenset[str] | None
    """Names of the tools; `None` for all."""


class CatalogSnapshot:
    """An immutable snapshot of all tools of a server whose callers see different parts of one catalog.

    Args:
        tools: Definitions by name, which must not change later.
        after: The catalog that this one replaces. Definitions that are the same objects in both are not digested again.
    """

    def __init__(self, tools: Definitions, *, after: CatalogSnapshot | None = None) -> None:
        self.tools = tools
        self._parts: dict[int, tuple[Definitions, Part]] = {id(tools): (tools, Part(None))}
        """By `id`. The value keeps the listing alive, so that no other listing gets the same id."""
        self._read: tuple[Definitions, Mapping[str, bytes]] = ({}, {})
        if after is not None:
            # Do not keep the catalog itself, which may refer to an earlier one.
            self._read = (after.tools, after.digests) if "digests" in after.__dict__ else after._read

    @cached_property
    def digests(self) -> Mapping[str, bytes]:
        """The digest of each definition's content."""
        (tools, digests), self._read = self._read, ({}, {})
        return {
            name: digests[name] if tools.get(name) is tool else hashlib.sha256(to_json(tool)).digest()
            for name, tool in self.tools.items()
        }

    @cached_property
    def digest(self) -> bytes:
        """The digest of the catalog's whole content."""
        return hashlib.sha256(b"".join(self.digests.values())).digest()

    def knows(self, listing: Definitions) -> bool:
        """Whether this listing is recognized and the catalog's digest is computed already."""
        return id(listing) in self._parts and "digest" in self.__dict__

    def part(self, listing: Definitions) -> Part | None:
        """Return the part of the catalog that a listing is, or `None` if it contains any other definition.

        A listing that contains the same definition objects as this catalog is remembered, and must not change either.
        """
        if (known := self._parts.get(id(listing))) is not None:
            return known[1]
        is_own = all(self.tools.get(name) is tool for name, tool in listing.items())
        if not is_own and any(self.tools.get(name) != tool for name, tool in listing.items()):
            return None
        part = Part(None if len(listing) == len(self.tools) else frozenset(listing))
        if is_own:
            known_parts = self._parts if len(self._parts) <= _KEPT_PARTS else {}
            # Replace the dictionary instead of changing it, as other threads may be reading it.
            self._parts = {**known_parts, id(self.tools): (self.tools, Part(None)), id(listing): (listing, part)}
        return part


@dataclass(slots=True)
class _Indexed:
    """An index and its content."""

    index: ToolIndex
    digests: Mapping[str, bytes]
    """The digest of each tool's content."""

    last_seconds: float = math.inf
    """CPU time of the last search in the index."""


class IndexCache:
    """Ranks the tools of any listing, which it indexes only if its content is new.

    The key is the content itself, so an index is never stale: a change in any definition changes the key. If the ranker
    supports it, a catalog's index is made from that of the most similar catalog, at the cost of the difference.

    Args:
        ranker: Makes the indexes.
        max_concurrency: Maximum number of large catalogs to process concurrently.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = floored(ranker)
        self._thread_from = 0 if getattr(ranker, "is_slow", False) else _THREAD_FROM_TOOLS
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[bytes, Future[_Indexed]] = OrderedDict()

    async def rank(self, tools: Definitions, query: str, *, catalog: CatalogSnapshot | None = None) -> Sequence[Hit]:
        """Return every distinct tool that matches `query`, best first.

        If all `tools` are in `catalog`, it is searched instead, with them as its visible part. The answer is the same,
        but all parts of a catalog share one index.
        """
        if self._is_quick(tools, catalog):
            return self._rank(tools, query, catalog)
        return await anyio.to_thread.run_sync(self._rank, tools, query, catalog, limiter=self._limiter)

    async def unknown_words(
        self, tools: Definitions, query: str, *, catalog: CatalogSnapshot | None = None
    ) -> Sequence[str]:
        """Return the words of `query` that none of `tools` mentions; none if the ranker does not support this."""

        def search() -> Sequence[str]:
            kept, visible = self._index_of(tools, catalog)
            return unknown_words(kept.index, query, visible=visible)

        return await anyio.to_thread.run_sync(search, limiter=self._limiter)

    def _is_quick(self, tools: Definitions, catalog: CatalogSnapshot | None) -> bool:
        """Return whether there are few tools, or their index is ready and its last search was quick."""
        if max(len(tools), 0 if catalog is None else len(catalog.tools)) < self._thread_from:
            return True
        if not self._thread_from or catalog is None or not catalog.knows(tools):
            return False
        pending = self._indexes.get(catalog.digest)
        if pending is None or not pending.done() or pending.exception():
            return False
        return pending.result().last_seconds < _QUICK_SECONDS

    def _rank(self, tools: Definitions, query: str, catalog: CatalogSnapshot | None) -> Sequence[Hit]:
        kept, visible = self._index_of(tools, catalog)
        began = thread_time()
        hits = kept.index.search(query, visible=visible)
        kept.last_seconds = thread_time() - began
        # Hits of the default ranker are visible and distinct by construction.
        return hits if isinstance(hits, LazyHits) else distinct_hits(hits, tools.keys())

    def _index_of(self, tools: Definitions, catalog: CatalogSnapshot | None) -> tuple[_Indexed, frozenset[str] | None]:
        """Return the index to search for `tools`, and the names of the visible ones: `None` for all."""
        part = None if catalog is None else catalog.part(tools)
        if catalog is None or part is None:
            catalog, part = CatalogSnapshot(tools), Part(None)
        key = catalog.digest
        with self._lock:
            is_new = key not in self._indexes
            pending = self._indexes.setdefault(key, Future())
            self._indexes.move_to_end(key)
            if len(self._indexes) > _KEPT_INDEXES:
                self._indexes.popitem(last=False)
            others = [task.result() for task in self._indexes.values() if task.done() and not task.exception()]
        if is_new:
            try:
                pending.set_result(_index(catalog, self._ranker, others))
            except BaseException as error:
                with self._lock:
                    self._indexes.pop(key, None)  # do not cache failures
                pending.set_exception(error)
        return pending.result(), part.names


def _index(catalog: CatalogSnapshot, ranker: Ranker, others: Iterable[_Indexed]) -> _Indexed:
    """Index `catalog`. If one of `others` is similar and can be updated, this costs only the difference."""
    new = catalog.digests

    def changed(other: _Indexed) -> int:
        return max(len(other.digests), len(new)) - len(other.digests.items() & new.items())

    base = min(others, key=changed, default=None)
    if base is None or not isinstance(base.index, UpdatableIndex) or changed(base) >= _MAX_CHANGED * len(new):
        tools = valid_tools(catalog.tools.values())
        return _Indexed(ranker(tools), {tool.name: new[tool.name] for tool in tools})
    kept = dict(base.digests.items() & new.items())
    tools = valid_tools(tool for name, tool in catalog.tools.items() if name not in kept)
    digests = kept | {tool.name: new[tool.name] for tool in tools}
    return _Indexed(base.index.updated(base.digests.keys() - kept.keys(), tools), digests)
