"""Indexes of the listings that were searched lately, and the work that is done with them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp_types import Tool
from pydantic import ValidationError
from pydantic_core import to_json

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex, floored
from mcp_ext_tools_search.ranking.hits import names_of

__all__ = ["Catalogue", "IndexCache"]

_KEPT: Final = 8
"""Listings whose index is kept: callers that see different tools have different listings."""

_LARGE: Final = 200
"""Number of tools from which on ranking leaves the event loop for a thread."""


class Catalogue:
    """All tools of a server in which callers see different parts of one catalogue. It never changes.

    Args:
        tools: Definitions by name, as a listing carries them over the wire.
    """

    def __init__(self, tools: Mapping[str, dict[str, Any]]) -> None:
        self.tools = tools

    @cached_property
    def digest(self) -> bytes:
        """What the content is known by."""
        return _digest(list(self.tools.values()))

    def covers(self, listing: Mapping[str, dict[str, Any]]) -> bool:
        """Tell whether every definition of a listing is here, and is the same here."""
        return listing is self.tools or all(map(self._has, listing, listing.values()))

    def _has(self, name: str, tool: dict[str, Any]) -> bool:
        own = self.tools.get(name)
        return own is tool or own == tool


class IndexCache:
    """Ranks the tools of any listing, and indexes it only when its content has not been seen lately.

    The key is the content itself, so an index is never stale: a change in any definition is another key.

    Args:
        ranker: Makes the indexes.
        max_concurrency: Number of large catalogues that are worked on at the same time.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = floored(ranker)
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[bytes, Future[ToolIndex]] = OrderedDict()

    async def rank(
        self, tools: Mapping[str, dict[str, Any]], query: str, *, catalogue: Catalogue | None = None
    ) -> Sequence[Hit]:
        """Return every tool that fits `query`, best first, none twice.

        Args:
            tools: Wire definitions by name.
            query: Text that is not blank.
            catalogue: Searched instead, with `tools` as what is visible of it, if it covers them. The answer is the
                same; all parts of a catalogue share one index.
        """
        work = partial(self._rank, tools, query, catalogue)
        if max(len(tools), 0 if catalogue is None else len(catalogue.tools)) < _LARGE:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    def _rank(self, tools: Mapping[str, dict[str, Any]], query: str, catalogue: Catalogue | None) -> Sequence[Hit]:
        if catalogue is not None and catalogue.covers(tools):
            whole = self._indexed(catalogue.tools.values(), catalogue.digest)
            hits = whole.search(query, visible=None if len(tools) == len(catalogue.tools) else tools.keys())
        else:
            hits = self._indexed(tools.values(), _digest(list(tools.values()))).search(query)
        names = names_of(hits)
        # A ranker may be anyone's: what it names twice, or what the caller does not see, is not another match.
        if len(tools.keys() & names) == len(names):
            return hits
        found: dict[str, Hit] = {}
        for hit in hits:
            if hit.name in tools:
                found.setdefault(hit.name, hit)
        return list(found.values())

    def _indexed(self, tools: Iterable[dict[str, Any]], key: bytes) -> ToolIndex:
        with self._lock:
            pending = self._indexes.get(key)
            is_new = pending is None
            if pending is None:
                pending = self._indexes[key] = Future()
            self._indexes.move_to_end(key)
            if len(self._indexes) > _KEPT:
                self._indexes.popitem(last=False)
        if is_new:
            self._build(key, tools, pending)
        return pending.result()

    def _build(self, key: bytes, tools: Iterable[dict[str, Any]], pending: Future[ToolIndex]) -> None:
        """Index `tools` for everyone who waits for `pending`."""
        try:
            pending.set_result(self._ranker(_parsed(tools)))
        except BaseException as error:
            with self._lock:
                self._indexes.pop(key, None)  # a failure is not remembered
            pending.set_exception(error)


def _digest(tools: list[dict[str, Any]]) -> bytes:
    return hashlib.sha256(to_json(tools)).digest()


def _parsed(tools: Iterable[dict[str, Any]]) -> list[Tool]:
    """Return the definitions as the ranker wants them, without those that are no valid tool."""
    parsed: list[Tool] = []
    for tool in tools:
        try:
            parsed.append(Tool.model_validate(tool, by_name=False))
        except ValidationError:
            continue
    return parsed
