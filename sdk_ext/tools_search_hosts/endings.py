"""How connections end: what the transport knows about it, and which of the SDK's errors report it.

The SDK reports a closed connection as -32000 and a timeout as -32001. Servers use both codes for their own errors too,
so only the text tells the two apart. A server that passes on an error, as a proxy does, can even send the SDK's text:
`attributed_to_server` rewords it when it arrives. The canary is
`sdk_ext/tests/mcp_ext_tools_search/test_sdk_canaries.py`.
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
"""-32000, -32600 and -32001: the codes that official SDKs have used for an unknown session."""

_SESSION_STATUSES: Final = frozenset({400, 404})
"""The protocol requires 404; some servers answer 400."""


class Ending:
    """The end of one connection. The transport sets it; others wait for it."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the connection ended. Empty while it is open, or if the reason is unknown."""
        self.http_status: int | None = None
        """HTTP status with which the server refused the last message; `None` if it did not."""
        self.has_spoken = False
        """Whether a message has arrived over HTTP."""
        self.is_excess = False
        """Whether the server exceeded a size limit, and so would probably do so again soon."""
        self.heard = -math.inf
        """When something last arrived from the server."""
        self.is_suspended: Callable[[], bool] = lambda: False
        """Returns whether the server is a suspended process, if that can be detected."""
        self._event = anyio.Event()

    def set(self, reason: str = "", *, is_excess: bool = False) -> None:
        """Record that the connection has ended. The first known reason counts."""
        if not self.reason:  # later reasons are consequences of the first
            self.reason, self.is_excess = reason, is_excess
        self._event.set()

    async def wait(self) -> None:
        """Wait for the connection to end."""
        await self._event.wait()


def connection_ended(error: MCPError) -> bool:
    """Return whether the connection ended before the server answered."""
    return error.code == CONNECTION_CLOSED and _ENDED.match(error.message) is not None


def answer_broke_off(error: MCPError) -> bool:
    """Return whether only the response to this request ended before the answer, for example at a proxy's time limit.

    Other requests on a Streamable HTTP connection have their own responses, which might continue.
    """
    return error.code == CONNECTION_CLOSED and _BROKE_OFF.match(error.message) is not None


def timed_out(error: MCPError) -> bool:
    """Return whether this side stopped waiting for the server."""
    return error.code == REQUEST_TIMEOUT and _TIMED_OUT.match(error.message) is not None


def malformed(error: MCPError) -> bool:
    """Return whether the server's answer is unreadable. The message says what is wrong with it."""
    return error.code == INTERNAL_ERROR and _MALFORMED.match(error.message) is not None


def session_lost(error: ErrorData | MCPError, http_status: int | None) -> bool:
    """Return whether a legacy HTTP server has forgotten the session, for example after a restart.

    The error text depends on the server: "Session not found", "No valid session ID provided", or nothing, which the
    SDK turns into "Session terminated". Tools can also fail with errors about their own sessions, but then the server
    does not refuse the message: `http_status` is the status with which it refused the last one, if it did.
    """
    # Both together: a tool's own error has such a code at most, with an HTTP status of success.
    is_refused = http_status in _SESSION_STATUSES and error.code in _SESSION_CODES
    return is_refused and "session" in error.message.lower()


def attributed_to_server(error: ErrorData) -> ErrorData:
    """Return an error from a server, reworded if it could be mistaken for the end of the connection to that server."""
    met = MCPError(error.code, error.message)
    if connection_ended(met) or timed_out(met) or malformed(met):
        return error.model_copy(update={"message": f"the server says: {error.message}"})
    return error
