"""Connects to one upstream: one connection at a time, over its transport, with the reason why the last one ended.

If a server at an HTTP address refuses the first message of Streamable HTTP, as a server on the old HTTP+SSE transport
does, the gateway tries that transport and keeps the one that works (MCP, Transports, Backwards Compatibility).
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from typing import Any, Final, TypeAlias

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError
from tools_search_hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.bounded_http import SSE_STATUSES, BoundedHttp, http_streams
from tools_search_hosts.child_process import child_streams
from tools_search_hosts.endings import Ending, connection_ended, first_error, malformed, refused_status
from tools_search_hosts.streams import ConvertedStream
from tools_search_hosts.unreachable import CannotStartError, why_not_connected

from tools_search_server.base.redaction import Secrets, printable, quoted
from tools_search_server.upstreams.listing import ListingError, ListingTooLargeError
from tools_search_server.upstreams.state import explained
from tools_search_server.upstreams.stderr_log import logged_stderr

logger = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 30

_AUTHORIZATION_STATUSES: Final = frozenset({401, 403})

_NO_COMMON_REVISION: Final = "it speaks no revision of MCP that this program knows"
_FOREIGN_REVISION: Final = re.compile(r"Unsupported protocol version from the server: (.*)", re.DOTALL)
_MAX_FOREIGN_CHARS: Final = 200
"""Maximum characters of server text in a reason."""

_MAX_UNANSWERED: Final = 256
"""Maximum requests from a server with unsent answers. A server that exceeds this does not read."""

_TOKEN_BYTES: Final = 16
_MAX_TOKENS: Final = 10_000

Use: TypeAlias = Callable[[Client, Callable[[], None]], Awaitable[None]]
"""Uses a connected client, and calls the given function once the server has proved usable."""


@dataclass
class Connection:
    """Connects to one server."""

    target: Target
    make_client: Callable[[Any], Client]
    """Builds a client on a connection's streams."""
    use: Use
    """Called with each connected client. The connection closes when the call returns."""
    server: str
    start_seconds: float
    """Time limit until the server must be usable."""
    read_seconds: float
    """How long an HTTP server can be silent during a request."""
    max_message_bytes: int
    """Maximum message size. A larger message ends the connection."""

    def __post_init__(self) -> None:
        self.secrets = Secrets(self.target)
        """Configuration values that must not be passed on."""
        self.ended = Ending()
        """The end of the current connection."""
        self._was_usable = False
        """Whether any connection has proved usable, and so the transport to be the right one."""
        self._is_isolating = False
        """Whether a failed exchange on the current connection fails only its own request."""
        self._faults = Counter[str]()
        """Faults of the current connection that did not end it, by kind."""

    @property
    def is_http(self) -> bool:
        """Whether the server is reached over HTTP."""
        return isinstance(self.target, HttpTarget)

    @property
    def transport(self) -> str:
        """The server's transport: `stdio`, `streamable-http` or `sse`; `unknown` if its entry has a mistake."""
        if isinstance(self.target, UnusableTarget):
            return "unknown"
        return self.target.transport if isinstance(self.target, HttpTarget) else "stdio"

    async def run(self) -> str:
        """Connect. Return the reason once the connection has ended, or if it fails."""
        tried = self.target
        if isinstance(tried, UnusableTarget):
            return str(tried)
        reason = await self._run_once()
        is_new_http = isinstance(tried, HttpTarget) and tried.transport != "sse" and not self._was_usable
        if is_new_http and self.ended.http_status in SSE_STATUSES:
            self.target = replace(tried, transport="sse")
            sse_reason = await self._run_once()
            # Keep a transport only if it works. The next attempt starts with Streamable HTTP again.
            if not self._was_usable:
                self.target = tried
            # A server that said anything over this transport speaks it, so the reason why this one failed counts.
            if self._was_usable or self.ended.has_spoken:
                return sse_reason
        return reason

    async def _run_once(self) -> str:
        reason = "the connection broke"
        start = anyio.CancelScope(deadline=anyio.current_time() + self.start_seconds)
        self.ended = Ending()
        self._faults.clear()
        self._is_isolating = False

        def mark_usable() -> None:
            start.deadline = math.inf  # only the start has a time limit; the same scope then lasts as long as the use
            self._was_usable = self._is_isolating = True

        async def give_up_after_excess() -> None:
            # The SDK greets a server a second time that failed the first, and would be sent too much a second time.
            await self.ended.wait()
            if self.ended.is_excess and start.deadline < math.inf:
                start.cancel()

        async def connect() -> None:
            nonlocal reason
            try:
                with start:
                    tasks.start_soon(give_up_after_excess)
                    async with self.make_client(self._transport()) as client:
                        await self.use(client, mark_usable)
                late = (
                    f"it did not answer within {self.start_seconds:g} s; if it needs longer, set `startup_timeout_sec`"
                )
                # `give_up_after_excess` cancels the same scope, with a reason.
                is_late = start.cancelled_caught and not self.ended.reason
                reason = late if is_late else self.ended.reason or "it closed the connection"
            except Exception as error:  # the boundary of an upstream: its failures cost no other
                self.ended.is_excess |= isinstance(first_error(error), ListingTooLargeError)
                logger.debug("%s: the connection failed", self.server, exc_info=error)
                reason = self.ended.reason or explain(error, self.target, http_status=self.ended.http_status)
            finally:
                tasks.cancel_scope.cancel()

        # In a separate task: when an HTTP server dies, the SDK cancels the task that holds its client.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect)
        return reason

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        """Open the streams to the server for the SDK's `Client`. Record in `ended` when and why they end."""
        why = f"it asks, and does not read the answers: {_MAX_UNANSWERED} wait for it"
        converter = _MessageConverter(self.secrets, on_excess=partial(self.ended.set, why, is_excess=True))
        note_malformed = partial(self._note_fault, "a message is malformed")
        match self.target:
            case StdioTarget() as program:
                opened = child_streams(
                    program,
                    self.ended,
                    note_malformed,
                    errors=partial(logged_stderr, server=self.server, secrets=self.secrets),
                    errors_are="in the log",
                    max_line_bytes=self.max_message_bytes,
                )
            case HttpTarget() as target:
                opened = http_streams(
                    target,
                    self.ended,
                    BoundedHttp(
                        max_bytes=self.max_message_bytes,
                        on_excess=partial(self.ended.set, is_excess=True),
                        on_malformed=note_malformed,
                    ),
                    self._isolates,
                    connect_seconds=_CONNECT_SECONDS,
                    read_seconds=self.read_seconds,
                )
            case UnusableTarget() as unusable:
                raise OSError(str(unusable))
        async with opened as (incoming, outgoing):
            yield (
                ConvertedStream(incoming, converter.incoming),
                ConvertedStream(outgoing, converter.outgoing, converter.sent),
            )

    def isolate(self) -> None:
        """Let each failed exchange fail only its own request. Before, it ends the connection, with its error as why."""
        self._is_isolating = True

    def _isolates(self, error: Exception) -> bool:
        if self._is_isolating:
            self._note_fault("a request broke off", explain(error, self.target))
        return self._is_isolating

    def _note_fault(self, kind: str, reason: str) -> None:
        """Log a fault of this connection: the first of its kind, the tenth, the hundredth etc."""
        self._faults[kind] += 1
        number = self._faults[kind]
        if str(number).strip("0") == "1":
            text = "%s: %s: %s (number %d on this connection)"
            logger.warning(text, self.server, kind, reason, number, extra={"server": self.server})


class _MessageConverter:
    """The messages of one connection. `Secrets.masked_message` redacts incoming ones.

    Requests get random progress tokens. Those of the SDK count the requests of the connection, so that a server that
    repeats one would reveal to its caller how many requests others make.

    `on_excess` is called when too many requests of the server are unanswered.
    """

    def __init__(self, secrets: Secrets, on_excess: Callable[[], None]) -> None:
        self._secrets = secrets
        self._on_excess = on_excess
        self._tokens: dict[str, RequestId] = {}
        self._unanswered = Counter[RequestId | None]()
        """The server's requests by id, which it can use twice."""

    def outgoing(self, item: Any) -> Any:
        """Convert a message to the server."""
        match item:
            case SessionMessage(message=JSONRPCRequest(params={"_meta": {"progressToken": _, **meta}}) as request):
                token = token_hex(_TOKEN_BYTES)
                self._tokens[token] = request.id
                while len(self._tokens) > _MAX_TOKENS:  # of requests that were given up and never answered
                    del self._tokens[next(iter(self._tokens))]
                params = {**(request.params or {}), "_meta": {**meta, "progressToken": token}}
                return SessionMessage(request.model_copy(update={"params": params}), item.metadata)
            case _:
                return item

    def sent(self, item: Any) -> None:
        """Record that a message has been sent, and with it perhaps the answer to a request of the server."""
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._note_answered(item.message.id)

    def incoming(self, item: Any) -> Any:
        """Convert a message from the server."""
        match item:
            case SessionMessage(message=JSONRPCNotification(params={"progressToken": str(token)}) as progress):
                params = {**(progress.params or {}), "progressToken": self._tokens.get(token, token)}
                item = SessionMessage(progress.model_copy(update={"params": params}), item.metadata)
            case SessionMessage(message=JSONRPCResponse(id=answered) | JSONRPCError(id=answered)):
                for token in [token for token, request in self._tokens.items() if request == answered]:
                    del self._tokens[token]
            case SessionMessage(message=JSONRPCRequest(id=asked)):
                # Each takes a task until its answer is sent, and a server that does not read delays that forever.
                self._unanswered[asked] += 1
                if self._unanswered.total() > _MAX_UNANSWERED:
                    self._on_excess()
            # The SDK sends no answer to a request that the server has withdrawn.
            case SessionMessage(
                message=JSONRPCNotification(
                    method="notifications/cancelled", params={"requestId": int() | str() as asked}
                )
            ):
                self._note_answered(asked)
            case _:
                pass
        return self._secrets.masked_message(item)

    def _note_answered(self, request: RequestId | None) -> None:
        self._unanswered[request] -= 1
        if self._unanswered[request] <= 0:
            del self._unanswered[request]


def explain(error: BaseException, target: Target, *, http_status: int | None = None) -> str:
    """Return one line for operators that says why a server is unusable.

    An error's type, and mostly its text, are written for programmers. `http_status` is the status with which the server
    refused the last message, if known.
    """
    error = first_error(error)
    if isinstance(error, httpx2.ConnectError):
        return why_not_connected(error)
    if isinstance(error, MCPError):
        return _explain_answer(error, http_status)
    for kinds, words, reason in _REASONS:
        if isinstance(error, kinds) and words in str(error):
            return reason
    match error:
        case httpx2.HTTPStatusError(response=response):  # whose text holds the address, and with it perhaps a key
            return _refused(response.status_code)
        case ListingError() | CannotStartError():
            return str(error)
        case httpx2.DecodingError():
            return f"its HTTP response cannot be read: {printable(str(error))}"
        case RuntimeError() if revision := _FOREIGN_REVISION.fullmatch(str(error)):
            return f"{_NO_COMMON_REVISION}; it answered with {quoted(revision[1], _MAX_FOREIGN_CHARS)}"
        case _:
            text = printable(Secrets(target).masked(str(error)))[:_MAX_FOREIGN_CHARS]
            return f"the connection failed: {text}" if text else "the connection failed"


_REASONS: Final[Sequence[tuple[type[Exception] | tuple[type[Exception], ...], str, str]]] = (
    (ValidationError, "", "it does not speak MCP: its answer to the greeting is malformed"),
    (RuntimeError, "No mutually supported", _NO_COMMON_REVISION),
    ((TimeoutError, httpx2.TimeoutException), "", "it did not answer in time"),
    (httpx2.TooManyRedirects, "", "it redirects without end"),
    (httpx2.RemoteProtocolError, "buffer too long", "it sent HTTP headers of more than 100 kB"),
    ((httpx2.NetworkError, httpx2.RemoteProtocolError), "", "the connection broke off while it answered"),
)
"""Error types, words in the error's text, and the reason to show."""


def _explain_answer(error: MCPError, http_status: int | None) -> str:
    if error.code == UNSUPPORTED_PROTOCOL_VERSION:
        return _NO_COMMON_REVISION
    if connection_ended(error):
        return "it closed the connection before it was ready"
    if (status := refused_status(error)) is not None:
        return _refused(status)
    if http_status is not None and http_status in _AUTHORIZATION_STATUSES:
        return _refused(http_status)
    if http_status is None or malformed(error):
        return explained(error)
    return f"it answered with HTTP {http_status} and error {error.code}: {quoted(error.message)}"


def _refused(http_status: int) -> str:
    advice = "; put the key or token that it expects into `headers`" if http_status in _AUTHORIZATION_STATUSES else ""
    return f"it answered HTTP {http_status}{advice}"
