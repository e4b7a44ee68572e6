"""Answers kept for as long as the server allowed, and no longer.

Pure state: it reads a clock and does no I/O. One cache serves one connection, so nothing in it ever reaches another
server or another protocol revision; within the connection, what a server marked `private` is answered only to the
authorization it was given to.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, Generic, Literal, TypeVar

CacheScope = Literal["public", "private"]

MAX_TTL_SECONDS: Final = 24 * 3600.0
"""No server can make a client believe an answer for longer than a day."""

Value = TypeVar("Value")


def canonical_key(method: str, params: Mapping[str, Any]) -> str:
    """Return one text for equal requests, however their members are ordered; members that are `None` do not count."""
    present = {name: value for name, value in params.items() if value is not None}
    return json.dumps([method, present], sort_keys=True, separators=(",", ":"))


class ExpiringCache(Generic[Value]):
    """A bounded map whose entries expire; the least recently used goes first.

    Args:
        capacity: The largest number of entries.
        clock: Seconds that only ever grow.
    """

    def __init__(self, *, capacity: int = 256, clock: Callable[[], float] = monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str | None], tuple[Value, float]] = OrderedDict()
        self._generation = 0

    @property
    def generation(self) -> int:
        """Changes whenever the cache is cleared, which dates the answers that were asked for before."""
        return self._generation

    def get(self, key: str, *, partition: str = "") -> Value | None:
        """Return the fresh answer for `key` that this authorization may see, or `None`."""
        for slot in ((key, partition), (key, None)):
            entry = self._entries.get(slot)
            if entry is None:
                continue
            value, expires = entry
            if expires > self._clock():
                self._entries.move_to_end(slot)
                return value
            del self._entries[slot]
        return None

    def put(
        self,
        key: str,
        value: Value,
        *,
        ttl_seconds: float,
        scope: CacheScope,
        partition: str = "",
        generation: int | None = None,
    ) -> None:
        """Keep `value`, unless it is stale already or older than the last change.

        Args:
            key: From `canonical_key`.
            value: Shared with later callers: must not be changed by them.
            ttl_seconds: How long the server allows; not positive means not at all.
            scope: `private` answers are kept for `partition` alone.
            partition: Names the authorization that asked.
            generation: The generation when the request was sent; an answer from before a change is dropped.
        """
        if ttl_seconds <= 0 or (generation is not None and generation != self._generation):
            return
        slot = (key, partition if scope == "private" else None)
        self._entries[slot] = (value, self._clock() + min(ttl_seconds, MAX_TTL_SECONDS))
        self._entries.move_to_end(slot)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything, because the server's tools changed."""
        self._entries.clear()
        self._generation += 1
