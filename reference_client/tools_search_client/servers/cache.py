"""Answers kept for as long as the server allowed, and no longer.

Pure state: it reads a clock and does no I/O. One cache serves one connection, so nothing in it ever reaches another
server or another protocol revision; within the connection, what a server marked `private` is answered only to the
authorization it was given to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Final, Generic, Literal, TypeVar

CacheScope = Literal["public", "private"]

MAX_TTL_SECONDS: Final = 24 * 3600.0
"""No server can make a client believe an answer for longer than a day."""

Value = TypeVar("Value")


class ExpiringCache(Generic[Value]):
    """A bounded map whose entries expire; the least recently used goes first."""

    def __init__(self, *, capacity: int = 256, clock: Callable[[], float] = monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._entries: OrderedDict[tuple[Hashable, str | None], tuple[Value, float]] = OrderedDict()

    def get(self, key: Hashable, *, partition: str = "") -> Value | None:
        """Return the fresh answer for `key` that this authorization may see, or `None`."""
        for slot in ((key, partition), (key, None)):
            value, expires = self._entries.get(slot, (None, 0.0))
            if value is None:
                continue
            if expires > self._clock():
                self._entries.move_to_end(slot)
                return value
            del self._entries[slot]
        return None

    def put(self, key: Hashable, value: Value, *, ttl_seconds: float, scope: CacheScope, partition: str = "") -> None:
        """Keep `value`, which nobody may change, for as long as the server allows.

        One that is `private` is kept for `partition` alone, which names the authorization that asked.
        """
        if ttl_seconds <= 0:
            return
        slot = (key, partition if scope == "private" else None)
        self._entries[slot] = (value, self._clock() + min(ttl_seconds, MAX_TTL_SECONDS))
        self._entries.move_to_end(slot)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
