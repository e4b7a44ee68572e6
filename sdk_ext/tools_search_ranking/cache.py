"""Indexes that follow the content of listings, for servers whose callers see different parts of one catalog."""

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
"""Listings whose index is kept: callers that see different tools have different listings."""

_KEPT_PARTS: Final = 16
"""Listings that are known again without a look at their definitions."""

_MAX_CHANGED: Final = 0.5
"""Part of the tools that may differ between two catalogs for the index of one to be made from that of the other."""

_THREAD_FROM_TOOLS: Final = 200
"""From this many tools on, ranking leaves the event loop for a thread."""

_QUICK_SECONDS: Final = 0.002
"""CPU time of a search up to which the next one in its index stays on the event loop all the same: it holds the
interpreter's lock wherever it is, and the way to a thread and back would take a good part of it."""

Definitions: TypeAlias = Mapping[str, dict[str, Any]]
"""Tools by name, as a listing carries them over the wire."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a catalog that a caller sees."""

    names: frozenset[str] | None
    """Names of the tools; `None` for all."""


class CatalogSnapshot:
    """All tools of a server in which callers see different parts of one catalog. It never changes.

    Args:
        tools: Definitions by name, none of which is changed later.
        after: The catalog that this one replaces: definitions that are the same objects in both are not read again.
    """

    def __init__(self, tools: Definitions, *, after: CatalogSnapshot | None = None) -> None:
        self.tools = tools
        self._parts: dict[int, tuple[Definitions, Part]] = {id(tools): (tools, Part(None))}
        """By identity, and holding the listing so that its identity stays its own."""
        self._read: tuple[Definitions, Mapping[str, bytes]] = ({}, {})
        if after is not None:
            # Not the catalog itself, which may have one before it as well.
            self._read = (after.tools, after.digests) if "digests" in after.__dict__ else after._read

    @cached_property
    def digests(self) -> Mapping[str, bytes]:
        """The digest of the content of each definition."""
        (tools, digests), self._read = self._read, ({}, {})
        return {
            name: digests[name] if tools.get(name) is tool else hashlib.sha256(to_json(tool)).digest()
            for name, tool in self.tools.items()
        }

    @cached_property
    def digest(self) -> bytes:
        """The digest of the whole content."""
        return hashlib.sha256(b"".join(self.digests.values())).digest()

    def knows(self, listing: Definitions) -> bool:
        """Whether nothing has to be read, neither of this very listing nor of the catalog."""
        return id(listing) in self._parts and "digest" in self.__dict__

    def part(self, listing: Definitions) -> Part | None:
        """Return which part a listing is, or `None` where not every definition is here and is the same here.

        A listing that holds the very definitions of this catalog is known again, as it may not change either.
        """
        if (known := self._parts.get(id(listing))) is not None:
            return known[1]
        is_own = all(self.tools.get(name) is tool for name, tool in listing.items())
        if not is_own and any(self.tools.get(name) != tool for name, tool in listing.items()):
            return None
        part = Part(None if len(listing) == len(self.tools) else frozenset(listing))
        if is_own:
            known_parts = self._parts if len(self._parts) <= _KEPT_PARTS else {}
            # Another one, as other threads may be looking at this one.
            self._parts = {**known_parts, id(self.tools): (self.tools, Part(None)), id(listing): (listing, part)}
        return part


@dataclass(slots=True)
class _Indexed:
    """An index and its content."""

    index: ToolIndex
    digests: Mapping[str, bytes]
    """The digest of the content of each of its tools."""

    last_seconds: float = math.inf
    """CPU time of the last search in it."""


class IndexCache:
    """Ranks the tools of any listing, and indexes it only when its content is new.

    The key is the content itself, so an index is never stale: a change in any definition is another key. Where the
    ranker can, the index of a catalog is made from that of the one most like it, for the price of the difference.

    Args:
        ranker: Makes the indexes.
        max_concurrency: Number of large catalogs that are worked on at the same time.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = floored(ranker)
        self._thread_from = 0 if getattr(ranker, "is_slow", False) else _THREAD_FROM_TOOLS
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[bytes, Future[_Indexed]] = OrderedDict()

    async def rank(self, tools: Definitions, query: str, *, catalog: CatalogSnapshot | None = None) -> Sequence[Hit]:
        """Return every tool that fits `query`, best first, none twice.

        Args:
            tools: Wire definitions by name.
            query: Text that is not blank.
            catalog: Searched instead, with `tools` as its visible part, if it covers them. The answer is the same; all
                parts of a catalog share one index.
        """
        if self._is_quick(tools, catalog):
            return self._rank(tools, query, catalog)
        return await anyio.to_thread.run_sync(self._rank, tools, query, catalog, limiter=self._limiter)

    async def unknown_words(
        self, tools: Definitions, query: str, *, catalog: CatalogSnapshot | None = None
    ) -> Sequence[str]:
        """Return the words of `query` that none of `tools` mentions; none where the ranker does not know its words."""

        def search() -> Sequence[str]:
            kept, visible = self._index_of(tools, catalog)
            return unknown_words(kept.index, query, visible=visible)

        return await anyio.to_thread.run_sync(search, limiter=self._limiter)

    def _is_quick(self, tools: Definitions, catalog: CatalogSnapshot | None) -> bool:
        """Return whether there are few tools, or the last search in their index was quick and nothing is to be read."""
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
        # Those of the default ranker are visible by construction, and none is there twice.
        return hits if isinstance(hits, LazyHits) else distinct_hits(hits, tools.keys())

    def _index_of(self, tools: Definitions, catalog: CatalogSnapshot | None) -> tuple[_Indexed, frozenset[str] | None]:
        """Return the index in which `tools` are searched, and the names of those that may be found: `None` for all."""
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
            others = [one.result() for one in self._indexes.values() if one.done() and not one.exception()]
        if is_new:
            try:
                pending.set_result(_index(catalog, self._ranker, others))
            except BaseException as error:
                with self._lock:
                    self._indexes.pop(key, None)  # a failure is not remembered
                pending.set_exception(error)
        return pending.result(), part.names


def _index(catalog: CatalogSnapshot, ranker: Ranker, others: Iterable[_Indexed]) -> _Indexed:
    """Index `catalog`: for the price of the difference, where one of `others` is like it and can be updated."""
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
