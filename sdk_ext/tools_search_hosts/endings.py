"""How connections end: what is known of it where the bytes are, and which errors of the SDK say so.

-32000 and -32001 are how the SDK says that a connection ended and that time ran out. Servers answer with both codes for
errors of their own, and are none the worse for it: only the text distinguishes the two. A server that passes on what it
met itself, as a proxy does, uses these very words, so that they are put differently in what is read from a server
(`attributed_to_server`). The canary is `sdk_ext/tests/mcp_ext_tools_search/test_sdk_canaries.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, REQUEST_TIMEOUT, ErrorData

_BROKE_OFF: Final = re.compile(r"SSE stream (?:failed|ended)\b")
_ENDED: Final = re.compile(rf"Connection closed\Z|{_BROKE_OFF.pattern}")
_MALFORMED: Final = re.compile(r"its answer is malformed: ")
_TIMED_OUT: Final = re.compile(r"Request '[^']*' timed out\Z|Timed out after ")

_SESSION_CODES: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT})
"""-32000, -32600 and -32001: what official SDKs have used for an unknown session."""

_SESSION_STATUSES: Final = frozenset({400, 404})
"""The second is what the protocol demands, the first what some servers answer."""


class Ending:
    """The end of one connection, noticed where the bytes are and awaited where it matters."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it ended; empty while it lasts, and where nothing more is known."""
        self.http_status: int | None = None
        """With which HTTP status the last message was refused; `None` where it was not."""
        self.has_spoken = False
        """Whether a message came over HTTP."""
        self.is_excess = False
        """Whether the server sent more than is read: it would do so again if it were asked again soon."""
        self.heard = -math.inf
        """When something came from the server for the last time."""
        self.is_suspended: Callable[[], bool] = lambda: False
        """Returns whether the server is a process that is suspended, where that can be seen."""
        self._event = anyio.Event()

    def set(self, reason: str = "", *, is_excess: bool = False) -> None:
        """Say that the connection has ended; the first reason that is known counts."""
        if not self.reason:
            self.reason, self.is_excess = reason, is_excess
        self._event.set()

    async def wait(self) -> None:
        """Return as soon as the connection has ended."""
        await self._event.wait()


def connection_ended(error: MCPError) -> bool:
    """Return whether the connection ended before the server answered."""
    return error.code == CONNECTION_CLOSED and _ENDED.match(error.message) is not None


def answer_broke_off(error: MCPError) -> bool:
    """Return whether it was the response to this request that ended before the answer, as at a proxy's time limit.

    Other requests of a Streamable HTTP connection have responses of their own, which may go on.
    """
    return error.code == CONNECTION_CLOSED and _BROKE_OFF.match(error.message) is not None


def timed_out(error: MCPError) -> bool:
    """Return whether this side gave up waiting for the server."""
    return error.code == REQUEST_TIMEOUT and _TIMED_OUT.match(error.message) is not None


def malformed(error: MCPError) -> bool:
    """Return whether the server answered with what cannot be read; the message says what is wrong with it."""
    return error.code == INTERNAL_ERROR and _MALFORMED.match(error.message) is not None


def session_lost(error: ErrorData | MCPError, http_status: int | None) -> bool:
    """Return whether a legacy HTTP server has forgotten the session, as it does when it restarts.

    The text of its error differs from server to server: "Session not found", "No valid session ID provided", or
    nothing, for which the SDK says "Session terminated". Tools have errors about sessions of their own, in answers
    that the server does not refuse: `http_status` is the one with which it refused the last message, if it did.
    """
    is_refused = http_status in _SESSION_STATUSES and error.code in _SESSION_CODES
    return is_refused and "session" in error.message.lower()


def attributed_to_server(error: ErrorData) -> ErrorData:
    """Return an error that a server sent so that nothing here takes it for the end of the connection to that server."""
    met = MCPError(error.code, error.message)
    if connection_ended(met) or timed_out(met) or malformed(met):
        return error.model_copy(update={"message": f"the server says: {error.message}"})
    return error
