"""Indexes of the listings that were searched lately, and the work that is done with them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp_types import Tool
from pydantic import ValidationError
from pydantic_core import to_json

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.server._temporary_ranking import with_floor

__all__ = ["IndexCache"]

_KEPT: Final = 8
"""Listings whose index is kept: callers that see different tools have different listings."""

_LARGE: Final = 200
"""Number of tools from which on ranking leaves the event loop for a thread."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    tools: Sequence[Tool]
    index: ToolIndex


class IndexCache:
    """Ranks the tools of any listing, and indexes it only when its content has not been seen lately.

    The key is the content itself, so an index is never stale: a change in any definition is another key.

    Args:
        ranker: Makes the indexes.
        max_concurrency: Number of large catalogues that are worked on at the same time.
    """

    def __init__(self, ranker: Ranker, *, max_concurrency: int) -> None:
        self._ranker = ranker
        self._limiter = anyio.CapacityLimiter(max_concurrency)
        self._lock = threading.Lock()
        self._indexes: OrderedDict[bytes, Future[_Indexed]] = OrderedDict()

    async def rank(self, tools: Mapping[str, dict[str, Any]], query: str) -> list[Hit]:
        """Return every tool that fits `query`, best first, none twice.

        Args:
            tools: Wire definitions by name.
            query: Text that is not blank.
        """
        work = partial(self._rank, tools, query)
        if len(tools) < _LARGE:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    def _rank(self, tools: Mapping[str, dict[str, Any]], query: str) -> list[Hit]:
        indexed = self._indexed(list(tools.values()))
        hits = with_floor(query, indexed.tools, indexed.index.search(query))
        # A ranker may be anyone's: what it names and the caller does not see is not a match.
        found = {hit.name: hit for hit in reversed(hits) if hit.name in tools}
        return list(reversed(found.values()))

    def _indexed(self, tools: list[dict[str, Any]]) -> _Indexed:
        key = hashlib.sha256(to_json(tools)).digest()
        with self._lock:
            pending = self._indexes.get(key)
            if pending is not None:
                self._indexes.move_to_end(key)
                is_ours = False
            else:
                pending = self._indexes[key] = Future()
                is_ours = True
                if len(self._indexes) > _KEPT:
                    self._indexes.popitem(last=False)
        if is_ours:
            self._build(key, tools, pending)
        return pending.result()

    def _build(self, key: bytes, tools: list[dict[str, Any]], pending: Future[_Indexed]) -> None:
        """Index `tools` for everyone who waits for `pending`."""
        try:
            parsed = _parsed(tools)
            pending.set_result(_Indexed(parsed, self._ranker(parsed)))
        except BaseException as error:
            with self._lock:
                self._indexes.pop(key, None)
            pending.set_exception(error)
            raise


def _parsed(tools: list[dict[str, Any]]) -> list[Tool]:
    """Return the definitions as the ranker wants them, without those that are no valid tool."""
    parsed: list[Tool] = []
    for tool in tools:
        try:
            parsed.append(Tool.model_validate(tool, by_name=False))
        except ValidationError:
            continue
    return parsed
