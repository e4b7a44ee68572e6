"""How connections end: what the transport knows about it, and which of the SDK's errors report it.

The SDK reports a closed connection as -32000 and a timeout as -32001, and `bounded_http` has errors of its own. Servers
use these codes for their own errors too, so only the text distinguishes them. A server that passes on an error, as a
proxy does, can even send the same text: `attributed_to_server` rewords it when it arrives. The canary is
`sdk_ext/tests/mcp_ext_tools_search/test_sdk_canaries.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, cast

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_TIMEOUT, ErrorData

_BROKE_OFF: Final = re.compile(r"SSE stream (?:failed|ended)\b")
_ENDED: Final = re.compile(rf"Connection closed\Z|{_BROKE_OFF.pattern}")
_MALFORMED: Final = re.compile(r"its answer is malformed: ")
_REFUSED: Final = re.compile(r"it refused the request with HTTP ([0-9]{3})\Z")
_TIMED_OUT: Final = re.compile(r"Request '[^']*' timed out\Z|Timed out after ")

SESSION_LOST: Final = "it no longer knows the session, as after a restart"

_SESSION_CODES: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT})
"""-32000, -32600 and -32001: the codes that official SDKs have used for an unknown session."""

_NOT_FOUND: Final = 404
_SESSION_STATUSES: Final = frozenset({400, _NOT_FOUND})
"""The protocol requires 404; some servers answer 400."""


class Ending:
    """The end of one connection. The transport sets it; others wait for it."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the connection ended. Empty while it is open, or if the reason is unknown."""
        self.http_status: int | None = None
        """HTTP status with which the server refused the last message; `None` if it did not. Of use only while there is
        one request at a time, as during the greeting."""
        self.has_spoken = False
        """Whether a message has arrived, or one that is too large to be read."""
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
            self.has_spoken |= is_excess
        self._event.set()

    async def wait(self) -> None:
        """Wait for the connection to end."""
        await self._event.wait()


def first_error(error: BaseException) -> BaseException:
    """Return the first error in a group, at any depth."""
    if isinstance(error, BaseExceptionGroup):
        return first_error(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error


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


def refusal(http_status: int, stated: ErrorData | None, *, has_session: bool) -> ErrorData:
    """Return the error of a request that a server refused with an HTTP status.

    `stated` is the JSON-RPC error in the response, if it has one.
    """
    if stated is None:
        is_lost = has_session and http_status == _NOT_FOUND
    else:
        # The text depends on the server: "Session not found" or "No valid session ID provided". Tools also fail with
        # errors about their own sessions, with such a code at most and an HTTP status of success.
        is_about_session = stated.code in _SESSION_CODES and "session" in stated.message.lower()
        is_lost = has_session and http_status in _SESSION_STATUSES and is_about_session
    if is_lost:
        return ErrorData(code=CONNECTION_CLOSED, message=SESSION_LOST)
    code = METHOD_NOT_FOUND if http_status == _NOT_FOUND else INTERNAL_ERROR  # as in the SDK
    return stated or ErrorData(code=code, message=f"it refused the request with HTTP {http_status}")


def refused_status(error: MCPError) -> int | None:
    """Return the HTTP status with which the server refused the request, if it said nothing else."""
    refused = _REFUSED.match(error.message)
    return None if refused is None else int(refused[1])


def session_lost(error: ErrorData | MCPError) -> bool:
    """Return whether a legacy HTTP server has forgotten the session, for example after a restart."""
    return error.code == CONNECTION_CLOSED and error.message == SESSION_LOST


def attributed_to_server(error: ErrorData) -> ErrorData:
    """Return an error from a server, reworded if it could be mistaken for the end of the connection to that server."""
    met = MCPError(error.code, error.message)
    if any((connection_ended(met), timed_out(met), malformed(met), refused_status(met), session_lost(met))):
        return error.model_copy(update={"message": f"the server says: {error.message}"})
    return error
