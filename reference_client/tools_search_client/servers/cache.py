"""A cache that keeps answers for as long as the server allows.

It only holds state: it reads a clock and does no I/O. Each connection has its own cache, so nothing crosses servers or
protocol revisions. Within a connection, answers marked `private` are only returned to the authorization they were given
to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from time import monotonic
from typing import Final, Generic, Literal, TypeVar

CacheScope = Literal["public", "private"]

MAX_TTL_SECONDS: Final = 24 * 3600.0
"""In seconds. No server can make a client cache an answer for longer than a day."""

Value = TypeVar("Value")


class ExpiringCache(Generic[Value]):
    """A bounded map with expiring entries that evicts the least recently used entry first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[tuple[Hashable, str | None], tuple[Value, float]] = OrderedDict()

    def get(self, key: Hashable, *, partition: str = "") -> Value | None:
        """Return the unexpired answer for `key` that this authorization is allowed to see, or `None`."""
        for slot in ((key, partition), (key, None)):
            value, expires = self._entries.get(slot, (None, 0.0))
            if value is not None and expires > monotonic():
                self._entries.move_to_end(slot)
                return value
        return None

    def put(self, key: Hashable, value: Value, *, ttl_seconds: float, scope: CacheScope, partition: str = "") -> None:
        """Cache `value`, which must not be mutated, for as long as the server allows.

        A `private` value is only returned for the same `partition`, which names the authorization that asked.
        """
        if ttl_seconds <= 0:
            return
        slot = (key, partition if scope == "private" else None)
        self._entries[slot] = (value, monotonic() + min(ttl_seconds, MAX_TTL_SECONDS))
        self._entries.move_to_end(slot)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
