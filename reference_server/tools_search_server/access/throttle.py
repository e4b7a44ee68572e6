"""How much one caller may ask of this process: requests per minute, and requests that are open at the same time."""

from __future__ import annotations

from typing import Final

__all__ = ["Throttle"]

_MINUTE: Final = 60.0
_WHEN_FULL: Final = 1.0
"""Seconds after which it may be tried again whether an open request has ended; nobody knows when one will."""


class Throttle:
    """A token bucket and a count.

    Args:
        per_minute: Requests that are admitted within a minute, all of which may come at once; `None` for any number.
        most_open: Requests that are open at the same time; `None` for any number.
    """

    def __init__(self, per_minute: int | None, most_open: int | None) -> None:
        self._per_minute = per_minute
        self._most_open = most_open
        self._left = float(per_minute or 0)
        self._counted_at: float | None = None
        self._open = 0

    def enter(self, now: float) -> float:
        """Admit a request, to be followed by `leave`, or return after how many seconds to ask again.

        Args:
            now: Seconds on a clock that never goes back.
        """
        if self._most_open is not None and self._open >= self._most_open:
            return _WHEN_FULL
        if self._per_minute is not None:
            passed = 0.0 if self._counted_at is None else now - self._counted_at
            self._left = min(self._left + passed * self._per_minute / _MINUTE, float(self._per_minute))
            self._counted_at = now
            if self._left < 1:
                return (1 - self._left) * _MINUTE / self._per_minute
            self._left -= 1
        self._open += 1
        return 0.0

    def leave(self) -> None:
        """Note the end of a request that was admitted."""
        self._open -= 1
