"""How long a silent target is waited for: with patience at first, then soon no longer, and in the end not at all."""

from __future__ import annotations

from collections import Counter
from typing import Final

__all__ = ["Patience"]

_SILENCES: Final = 3
_LOST: Final = 12
_FAILED_STARTS: Final = 2
_HURRIED: Final = 50
_IMPATIENT: Final = 10


class Patience:
    """What one cell has learnt of its target. All that speak to the target in that cell share it."""

    def __init__(self, seconds: float, start_seconds: float = 0) -> None:
        """Take how long one request, and one start, may take at first."""
        self.gone: str | None = None
        """Why the target is not started again; `None` while it is."""
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._silences = Counter[str]()
        self._lost = 0
        self._failed_starts = 0
        self._failures = 0

    def for_request(self, method: str) -> float:
        """Return how many seconds an answer may take: few for a method that is never answered."""
        if self._silences[method] >= _SILENCES:
            return self._seconds / _HURRIED
        return self._seconds / (_IMPATIENT if self._lost >= _LOST else 1)

    def for_start(self) -> float:
        """Return how many seconds a start may take: few for a target that failed to twice before."""
        return self._start_seconds / (_IMPATIENT if self._failures >= _FAILED_STARTS else 1)

    def answered(self, method: str) -> None:
        """Learn that a request was answered."""
        self._silences[method] = 0
        self._failed_starts = 0

    def waited(self, method: str) -> None:
        """Learn that a request was not answered in that time."""
        self._silences[method] += 1
        self._lost += 1

    def started(self) -> None:
        """Learn that a start succeeded, or was at least answered."""
        self._failed_starts = 0

    def failed(self, reason: str) -> None:
        """Learn that a start failed; after two in a row, with nothing answered in between, there is no third."""
        self._failed_starts += 1
        self._failures += 1
        if self._failed_starts >= _FAILED_STARTS:
            self.gone = f"it failed to start twice in a row and is not started again: {reason}"
