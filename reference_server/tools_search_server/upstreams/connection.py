"""Connections to one upstream: the transport of its kind, and why a connection failed."""

from __future__ import annotations

import logging
import math
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeAlias, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_ext_tools_search.client.endings import Ending, connection_ended, malformed
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from pydantic import ValidationError
from tools_search_hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.bounded_http import ACCEPTED_ENCODING, BoundedHttp
from tools_search_hosts.child_process import child_streams

from tools_search_server.base.redaction import Secrets, printable, quoted, redacted_streams
from tools_search_server.upstreams.listing import ListingError, ListingTooLargeError
from tools_search_server.upstreams.stderr_log import passed_on

logger = logging.getLogger(__name__)

_PERHAPS_OLD: Final = frozenset({400, 404, 405})
"""How a server on the old HTTP+SSE transport answers a POST to its address, as the protocol says."""

Use: TypeAlias = Callable[[Client, Callable[[], None]], Awaitable[None]]
"""What is done with a connected client; it calls the function that it is given once the server can be used."""


class Connection:
    """The way to one server.

    Args:
        target: The server.
        make_client: Builds the client on the streams of a connection.
        use: Called with each client that is connected; the connection lasts as long as the call.
        server: Its name, for the log.
        start_seconds: How long a server may take until it can be used.
        read_seconds: How long an HTTP server may be silent during a request.
        max_message_bytes: Of a message; the connection ends when the server sends a larger one.
    """

    def __init__(
        self,
        target: Target,
        make_client: Callable[[Any], Client],
        use: Use,
        *,
        server: str,
        start_seconds: float,
        read_seconds: float,
        max_message_bytes: int,
    ) -> None:
        self.target = target
        self.secrets = Secrets(target)
        """What of the configuration is not to be passed on."""
        self.ended = Ending()
        """The end of the present connection."""
        self._make_client = make_client
        self._use = use
        self._server = server
        self._start_seconds = start_seconds
        self._read_seconds = read_seconds
        self._max_message_bytes = max_message_bytes
        self._is_proven = False

    @property
    def is_http(self) -> bool:
        """Whether the server is reached over HTTP."""
        return isinstance(self.target, HttpTarget)

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http` or `sse`; `unknown` where its entry has a mistake."""
        if isinstance(self.target, UnusableTarget):
            return "unknown"
        return self.target.transport if isinstance(self.target, HttpTarget) else "stdio"

    async def hold(self) -> str:
        """Hold one connection, over the old transport if that is what the server speaks; return why it ended."""
        if isinstance(self.target, UnusableTarget):
            return str(self.target)
        reason = await self._hold_one()
        tried = self.target
        if not isinstance(tried, HttpTarget) or tried.transport == "sse" or self._is_proven:
            return reason
        if self.ended.http_status in _PERHAPS_OLD:
            self.target = replace(tried, transport="sse")
            old_reason = await self._hold_one()
            if not self._is_proven:
                self.target = tried
            if self._is_proven or self.ended.has_spoken:
                return old_reason
        return reason

    async def _hold_one(self) -> str:
        """Hold one connection for as long as it lasts, and return why it ended."""
        outcome = "the connection broke"
        self.ended = Ending()

        async def hold() -> None:
            nonlocal outcome
            try:
                with anyio.CancelScope(deadline=anyio.current_time() + self._start_seconds) as start:
                    tasks.start_soon(self._give_up_after_excess, start)
                    await self._connect(start)
                late = f"it did not answer within {self._start_seconds:g} s"
                is_late = start.cancelled_caught and not self.ended.reason
                outcome = late if is_late else self.ended.reason or "it closed the connection"
            except Exception as error:  # the supervisor's boundary: whatever an upstream does costs only itself
                self.ended.is_excess |= isinstance(first_error(error), ListingTooLargeError)
                logger.debug("%s: the connection failed", self._server, exc_info=error)
                outcome = self.ended.reason or explain(error, self.target, http_status=self.ended.http_status)
            finally:
                tasks.cancel_scope.cancel()

        # In a task of its own: when an HTTP server dies, the SDK cancels the task that holds its client.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
        return outcome

    async def _give_up_after_excess(self, start: anyio.CancelScope) -> None:
        """Let a server that sends too much have no second attempt at the same greeting, as the SDK gives it one."""
        await self.ended.wait()
        if self.ended.is_excess and start.deadline < math.inf:
            start.cancel()

    async def _connect(self, start: anyio.CancelScope) -> None:
        def prove() -> None:
            start.deadline = math.inf
            self._is_proven = True

        transport = open_transport(
            self.target,
            self.ended,
            read_seconds=self._read_seconds,
            max_message_bytes=self._max_message_bytes,
            server=self._server,
        )
        async with self._make_client(redacted_streams(transport, self.secrets)) as client:
            await self._use(client, prove)


_CONNECT_SECONDS: Final = 30

_KEPT_SECONDS: Final = 2
"""How long an idle connection is used again. Servers close theirs after 5 s, as uvicorn and Node do; one used in that
very moment takes the request with it, of which nobody knows whether it has taken effect."""

_WHO_ASKS: Final = frozenset({401, 403})
"""HTTP statuses of a server that does not serve everybody."""

_NO_COMMON_REVISION: Final = "it speaks no revision of MCP that this program knows"
_FOREIGN_REVISION: Final = re.compile(r"Unsupported protocol version from the server: (.*)", re.DOTALL)

_MOST_SAID: Final = 200
"""Characters of a reason that are the server's own."""

_Message: TypeAlias = SessionMessage | Exception


@asynccontextmanager
async def open_transport(
    target: Target, ended: Ending, *, read_seconds: float, max_message_bytes: int, server: str = ""
) -> AsyncGenerator[Any]:
    """Open the streams to a server, for the SDK's `Client`.

    Args:
        target: The server.
        ended: Set as soon as the server has nothing more to say, which the SDK tells nobody.
        read_seconds: How long an HTTP server may be silent during a request.
        max_message_bytes: Of a message; the connection ends when the server sends a larger one.
        server: Its name, for the log.
    """
    note_malformed = _noting_malformed(server)
    bounded = BoundedHttp(
        max_message_bytes,
        on_excess=partial(ended.set, is_excess=True),
        on_malformed=note_malformed,
        answers_in_body=not (isinstance(target, HttpTarget) and target.transport == "sse"),
    )
    match target:
        case StdioTarget():
            logged = partial(passed_on, server=server or target.command, secrets=Secrets(target))
            async with child_streams(
                target,
                ended,
                note_malformed,
                errors=logged,
                errors_are="in the log",
                max_line_bytes=max_message_bytes,
            ) as streams:
                yield streams
        case HttpTarget(transport="sse"):
            bounding = partial(_client, event_hooks={"response": [bounded.guard]})
            sse = sse_client(target.url, dict(target.headers), _CONNECT_SECONDS, read_seconds, bounding)
            async with sse as streams, _watched(*streams, ended, bounded) as watched:
                yield watched
        case HttpTarget():
            timeout = httpx2.Timeout(_CONNECT_SECONDS, read=read_seconds)
            # Any number of them: a stream for each subscription, beside the calls.
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=_KEPT_SECONDS)
            hooks = {"response": [_noting_refusals(ended), bounded.guard]}
            async with (
                _client(dict(target.headers), timeout, limits=limits, event_hooks=hooks) as client,
                streamable_http_client(target.url, http_client=client) as streams,
                _watched(*streams, ended, bounded) as watched,
            ):
                yield watched
        case UnusableTarget():
            raise OSError(str(target))


def _client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    **options: Any,
) -> httpx2.AsyncClient:
    headers = {"Accept-Encoding": ACCEPTED_ENCODING, **(headers or {})}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, verify=_certificates(), **options)


@cache
def _certificates() -> ssl.SSLContext:
    """Return what all connections trust: reading it takes 50 ms, in which nothing else of this program is done."""
    return httpx2.create_ssl_context()


def _noting_refusals(ended: Ending) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return what keeps the status of a refused message, which the SDK leaves out of its errors."""

    async def note(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            ended.http_status = response.status_code if response.is_error else None

    return note


def _noting_malformed(server: str) -> Callable[[str], None]:
    """Return what logs the first message that cannot be read, the tenth, the hundredth and so on, with its flaw."""
    number = 0

    def note(flaw: str) -> None:
        nonlocal number
        number += 1
        if str(number).strip("0") == "1":
            text = "%s: a message is malformed: %s (number %d on this connection)"
            logger.warning(text, server, flaw, number, extra={"server": server})

    return note


@asynccontextmanager
async def _watched(incoming: Any, outgoing: Any, ended: Ending, bounded: BoundedHttp) -> AsyncGenerator[Any]:
    async with anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[_Message]()
        tasks.start_soon(_pass_on, incoming, send, ended, bounded)
        with receive:
            yield receive, outgoing
        tasks.cancel_scope.cancel()


async def _pass_on(incoming: Any, send: MemoryObjectSendStream[_Message], ended: Ending, bounded: BoundedHttp) -> None:
    try:
        with send, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for message in incoming:
                ended.heard = anyio.current_time()
                ended.has_spoken = True
                await send.send(bounded.exchange(message) if isinstance(message, SessionMessage) else message)
    finally:
        ended.set()


def explain(error: BaseException, target: Target, *, http_status: int | None = None) -> str:
    """Return in one line why a server cannot be used.

    Args:
        error: What came of the attempt.
        target: The server.
        http_status: The status with which it refused the last message, where that is known.
    """
    match first_error(error):
        case OSError() as unstarted if isinstance(target, StdioTarget):
            return _unstarted(unstarted, target)
        case httpx2.ConnectError() as unconnected if isinstance(target, HttpTarget):
            return _unconnected(unconnected, target)
        case httpx2.HTTPStatusError(response=response):  # whose text holds the address, and with it perhaps a key
            return _refused(response.status_code)
        case MCPError() as answered if answered.code != UNSUPPORTED_PROTOCOL_VERSION:
            return _answered(answered, http_status)
        case ListingError() as malformed_list:
            return str(malformed_list)
        case ValidationError():
            return "it does not speak MCP: its answer to the greeting is malformed"
        case other:
            return _in_plain_words(other, target)


def _in_plain_words(error: BaseException, target: Target) -> str:
    """Return what an error of a library means; its type and its text are for the log of those who write programs."""
    match error:
        case MCPError():  # whose code says that there is no common revision
            return _NO_COMMON_REVISION
        case RuntimeError() if revision := _FOREIGN_REVISION.fullmatch(str(error)):
            return f"{_NO_COMMON_REVISION}; it answered with {quoted(revision[1], _MOST_SAID)}"
        case RuntimeError() if str(error).startswith("No mutually supported"):
            return _NO_COMMON_REVISION
        case TimeoutError() | httpx2.TimeoutException():
            return "it did not answer in time"
        case httpx2.TooManyRedirects():
            return "it redirects without end"
        case httpx2.DecodingError() as unread:
            return f"its HTTP response cannot be read: {printable(str(unread))}"
        case httpx2.RemoteProtocolError() as unread if "buffer too long" in str(unread):
            return "it sent HTTP headers of more than 100 kB"
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            return "the connection broke off while it answered"
        case other:
            text = printable(Secrets(target).masked(str(other)))[:_MOST_SAID]
            return f"the connection failed: {text}" if text else "the connection failed"


def _unstarted(error: OSError, target: StdioTarget) -> str:
    match error:
        case FileNotFoundError(filename=str(folder)) if folder == target.cwd:
            return f"its folder {folder!r} does not exist; mend `cwd`"
        case FileNotFoundError():
            return f"{target.command!r} was not found; install it, or give its full path as `command`"
        case PermissionError():
            return f"{target.command!r} may not be executed"
        case other:
            return f"{target.command!r} cannot be started: {printable(other.strerror or str(other))[:_MOST_SAID]}"


def _answered(error: MCPError, http_status: int | None) -> str:
    if connection_ended(error):
        return "it closed the connection before it was ready"
    if http_status is not None and http_status in _WHO_ASKS:
        return _refused(http_status)
    if malformed(error):
        return printable(error.message)
    status = "" if http_status is None else f"HTTP {http_status} and "
    return f"it answered with {status}error {error.code}: {quoted(error.message, _MOST_SAID)}"


def _unconnected(error: httpx2.ConnectError, target: HttpTarget) -> str:
    place = httpx2.URL(target.url).copy_with(userinfo=b"", query=None)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    match cause:
        case None:
            return f"nothing answers at {place}"
        case ssl.SSLCertVerificationError(verify_message=problem):
            return printable(f"the certificate of {place} is not accepted: {problem}")
        case problem:
            return printable(f"no TLS connection to {place}: {problem}")


def _refused(http_status: int) -> str:
    advice = "; put the key or token that it expects into `headers`" if http_status in _WHO_ASKS else ""
    return f"it answered HTTP {http_status}{advice}"


def first_error(error: BaseException) -> BaseException:
    """Return the first of the errors that a group holds, however deep."""
    if isinstance(error, BaseExceptionGroup):
        return first_error(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
