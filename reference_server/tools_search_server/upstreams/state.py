"""How an upstream server is, and how long to leave it alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60
_FIRST_AFTER_EXCESS: Final = 60
_LONGEST_AFTER_EXCESS: Final = 3600


class UnavailableError(Exception):
    """The server cannot be asked, or went away before it answered; the text says which and since when."""


class SessionLostError(UnavailableError):
    """The server has restarted and knows the session no more: it has not looked at the request."""


@dataclass(frozen=True)
class State:
    """How an upstream server is, since when, and why."""

    kind: Literal["starting", "ready", "idle", "down"]
    """`idle` is a server that is not connected because nobody has asked it anything for a while."""

    since: datetime
    reason: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether its tools are there."""
        return self.kind in ("ready", "idle")

    def __str__(self) -> str:
        since = f"since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.kind} {since}: {self.reason}" if self.reason else f"{self.kind} {since}"


def pauses(longest: float = _LONGEST_PAUSE, *, first: float = _FIRST_PAUSE) -> Iterator[float]:
    """Yield growing pauses in seconds, spread so that many servers do not come back in step."""
    spread = secrets.SystemRandom()
    pause = first
    while True:
        yield pause * spread.uniform(0.5, 1.5)
        pause = min(pause * 2, longest)


class Pauses:
    """How long to leave a server alone that has failed: longer each time.

    One that sent more than is read is left alone for minutes at least, since each attempt costs all others some of
    their time.
    """

    def __init__(self) -> None:
        self._after_failure = pauses()
        self._after_excess = pauses(_LONGEST_AFTER_EXCESS, first=_FIRST_AFTER_EXCESS)

    def after(self, *, is_excess: bool) -> float:
        """Return the pause after another failure, in seconds."""
        return next(self._after_excess if is_excess else self._after_failure)
