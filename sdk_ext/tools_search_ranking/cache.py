"""A cache of indexes by content, for servers whose callers see different parts of one catalog."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
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
"""Number of cached indexes. A catalog may have different definitions in each protocol version."""

_KEPT_PARTS: Final = 16
"""Number of parts of a catalog that are known to be searched quickly."""

_MAX_CHANGED: Final = 0.5
"""Maximum share of different tools for making the index of one catalog from that of another."""

_THREAD_FROM_TOOLS: Final = 200
"""From this many tools on, ranking runs in a thread."""

_QUICK_SECONDS: Final = 0.002
"""If the last search took at most this CPU time, the next one in its index runs on the event loop nevertheless. It
holds the GIL in any case, and switching to a thread and back would take a large part of that time."""

Definitions: TypeAlias = Mapping[str, dict[str, Any]]
"""Tool definitions by name, in wire form."""


class CatalogSnapshot:
    """An immutable snapshot of all tools of a server, of which its callers may see different parts.

    Args:
        tools: Definitions by name, which must not change later.
        after: The catalog that this one replaces. Definitions that are the same objects in both are not digested again.
    """

    def __init__(self, tools: Definitions, *, after: CatalogSnapshot | None = None) -> None:
        self.tools = tools
        self._read: tuple[Definitions, Mapping[str, bytes]] = ({}, {})
        if after is not None:
            # Do not keep the catalog itself, which may refer to an earlier one.
            self._read = (after.tools, after.digests) if after.is_read else after._read

    @property
    def is_read(self) -> bool:
        """Whether `digests` are computed already."""
        return "digests" in self.__dict__

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


@dataclass(slots=True)
class _Indexed:
    """An index and its content."""

    index: ToolIndex
    digests: Mapping[str, bytes]
    """The digest of each tool's content."""

    quick_parts: set[frozenset[str] | None] = field(default_factory=set["frozenset[str] | None"])
    """The visible parts of the catalog in which the last search was quick."""


class IndexCache:
    """Ranks the tools of any catalog, which it indexes only if its content is new.

    The key is the content itself, so an index is never stale: a change in any definition changes the key. If the ranker
    supports it, a catalog's index is made from that of the most similar catalog, at the cost of the difference. All
    parts of a catalog share one index.

    Args:
        ranker: Makes the indexes.
        max_concurrency: Maximum number of large catalogs to process concurrently.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = floored(ranker)
        self._is_slow = getattr(ranker, "is_slow", False)
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[bytes, Future[_Indexed]] = OrderedDict()

    async def rank(self, catalog: CatalogSnapshot, query: str, visible: frozenset[str] | None) -> Sequence[Hit]:
        """Return every distinct tool that matches `query`, best first, out of those whose names are `visible`.

        `None` means all, which some rankers search much faster than a part that has every name.
        """
        if self._is_quick(catalog, visible):
            return self._rank(catalog, query, visible)
        return await anyio.to_thread.run_sync(self._rank, catalog, query, visible, limiter=self._limiter)

    async def unknown_words(
        self, catalog: CatalogSnapshot, query: str, visible: frozenset[str] | None
    ) -> Sequence[str]:
        """Return the words of `query` that no visible tool mentions; none if the ranker does not support this."""

        def search() -> Sequence[str]:
            return unknown_words(self._index_of(catalog).index, query, visible=visible)

        return await anyio.to_thread.run_sync(search, limiter=self._limiter)

    def _is_quick(self, catalog: CatalogSnapshot, visible: frozenset[str] | None) -> bool:
        """Return whether there are few tools, or their index is ready and the last search for this part was quick."""
        if self._is_slow or len(catalog.tools) < _THREAD_FROM_TOOLS:
            return not self._is_slow
        pending = self._indexes.get(catalog.digest) if catalog.is_read else None
        return pending is not None and pending.done() and visible in pending.result().quick_parts

    def _rank(self, catalog: CatalogSnapshot, query: str, visible: frozenset[str] | None) -> Sequence[Hit]:
        kept = self._index_of(catalog)
        began = thread_time()
        hits = kept.index.search(query, visible=visible)
        if thread_time() - began >= _QUICK_SECONDS:
            kept.quick_parts.discard(visible)
        elif visible not in kept.quick_parts:
            if len(kept.quick_parts) >= _KEPT_PARTS:  # some may be those of toolsets that have changed since
                kept.quick_parts.clear()
            kept.quick_parts.add(visible)
        if isinstance(hits, LazyHits):  # those of the default ranker are visible and distinct by construction
            return hits
        shown = hits if visible is None else [hit for hit in hits if hit.name in visible]
        return distinct_hits(shown, catalog.tools.keys())

    def _index_of(self, catalog: CatalogSnapshot) -> _Indexed:
        key = catalog.digest
        with self._lock:
            is_new = key not in self._indexes
            pending = self._indexes.setdefault(key, Future())
            self._indexes.move_to_end(key)
            if len(self._indexes) > _KEPT_INDEXES:
                self._indexes.popitem(last=False)
            others = [task.result() for task in self._indexes.values() if task.done()]
        if is_new:
            try:
                pending.set_result(_index(catalog, self._ranker, others))
            except BaseException as error:
                with self._lock:
                    self._indexes.pop(key, None)  # do not cache failures
                pending.set_exception(error)
        return pending.result()


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
