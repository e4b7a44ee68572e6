"""States of an upstream, the errors of one that cannot be asked, and the pauses between attempts to reach one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 60
_FIRST_DELAY_AFTER_EXCESS: Final = 60
_LONGEST_DELAY_AFTER_EXCESS: Final = 3600

_SESSION_CODES: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT})
"""-32000, -32600 and -32001: what official SDKs have used for an unknown session."""


class UnavailableError(Exception):
    """The server cannot be asked, or went away before it answered; the message says which, and since when."""


class SessionLostError(UnavailableError):
    """The server has restarted and no longer knows the session: it has not looked at the request."""


@dataclass(frozen=True)
class State:
    """State of an upstream, since when, and why; `upstream.py` lists the transitions."""

    kind: Literal["starting", "ready", "idle", "down"]
    """`idle`: not connected because there has been no request for a while."""

    since: datetime
    reason: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether its tools are there."""
        return self.kind in ("ready", "idle")

    def __str__(self) -> str:
        since = f"since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.kind} {since}: {self.reason}" if self.reason else f"{self.kind} {since}"


def is_modern(client: Client) -> bool:
    """Return whether the server speaks 2026-07-28 or later."""
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_session_lost(client: Client, error: MCPError) -> bool:
    """Return whether a legacy HTTP server has forgotten the session, as it does when it restarts.

    The server answers HTTP 404, which the session does not pass on. Its text differs from server to server: "Session
    not found", "No valid session ID provided", or nothing, for which the SDK says "Session terminated".
    """
    return not is_modern(client) and error.code in _SESSION_CODES and "session" in error.message.lower()


def backoff_delays(longest: float = _LONGEST_DELAY, *, first: float = _FIRST_DELAY) -> Iterator[float]:
    """Yield growing delays in seconds, spread so that many servers do not come back in step."""
    spread = secrets.SystemRandom()
    delay = first
    while True:
        yield delay * spread.uniform(0.5, 1.5)
        delay = min(delay * 2, longest)


class Backoff:
    """Delays before the next attempt to reach a server, longer after each failure.

    A server that sent more than is read is left alone for minutes at least, since each attempt costs all others some
    of their time.
    """

    def __init__(self) -> None:
        self._after_failure = backoff_delays()
        self._after_excess = backoff_delays(_LONGEST_DELAY_AFTER_EXCESS, first=_FIRST_DELAY_AFTER_EXCESS)

    def delay(self, *, is_excess: bool) -> float:
        """Return the delay after another failure, in seconds."""
        return next(self._after_excess if is_excess else self._after_failure)
