"""Limits what an HTTP server makes its client read and wait for, underneath the SDK's transports (`http_streams`).

The SDK reads any JSON body whole, however large it is before or after decompression, and parsing it takes 20 times its
size in memory. If it cannot match an answer to a request, the request waits for its whole time limit. So this module
reads bodies and events itself. The SDK gets a placeholder of a few bytes for each message, and the message replaces it
when it comes out of the SDK's transport.
"""

from __future__ import annotations

import math
import re
import ssl
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic_core import from_json

from tools_search_hosts.endings import Ending, refusal
from tools_search_hosts.messages import (
    MAX_MESSAGE_BYTES,
    MalformedMessageError,
    MessageTooLargeError,
    failed_answer,
    mebibytes,
    read_message,
)
from tools_search_hosts.streams import ConvertedStream
from tools_search_hosts.targets import HttpTarget

ACCEPTED_ENCODING: Final = "gzip"
"""The value of `Accept-Encoding`. Other encodings are refused, because some take 128 MiB for any content."""

_KEEP_ALIVE_SECONDS: Final = 2
"""How long a client reuses an idle connection. Servers such as uvicorn and Node close theirs after 5 s. A request on a
connection that is being closed is lost, and nobody knows whether it took effect."""

_PIECE_BYTES: Final = 256 * 1024
"""Bytes to decompress before other tasks get a turn."""

SSE_STATUSES: Final = frozenset({400, 404, 405})
"""HTTP statuses with which a server on the old HTTP+SSE transport refuses a POST to its address."""

_SESSION_END_SECONDS: Final = 2
_LAST_WORDS_SECONDS: Final = 2
"""How long the response to an abandoned request can continue."""

_GIVEN_UP: Final = "the request was given up"
_IN_ORDER_SECONDS: Final = 1
"""How long the next message waits for a notification or answer, on the old HTTP+SSE transport."""

_SESSION_HEADER: Final = "mcp-session-id"

_MAX_GIVEN_UP: Final = 1000
"""Maximum abandoned requests to remember whose responses have not begun."""

_BROKEN_OFF: Final = (
    httpx2.TimeoutException,
    httpx2.ReadError,
    httpx2.WriteError,
    httpx2.CloseError,
    httpx2.ProtocolError,
)
"""Failures of a single exchange. A refused connection is not one: such a server answers nobody."""

_MAX_SMALL_PIECES: Final = 5000
_SMALL_BYTES: Final = 32
"""Minimum average size of a large number of pieces. Each piece takes as long as 10 kB of a large one."""

_MAX_LINES: Final = 500_000
_GZIP: Final = zlib.MAX_WBITS | 16
_BLANK_LINE: Final = re.compile(rb"(?>\r\n|\r|\n){2}")
_KEY: Final = "placeholder:"


@asynccontextmanager
async def http_streams(
    target: HttpTarget,
    ended: Ending,
    bounded: BoundedHttp,
    isolates: Callable[[Exception], bool],
    *,
    connect_seconds: float,
    read_seconds: float,
    auth: httpx2.Auth | None = None,
    on_refusal: Callable[[httpx2.Response], None] = lambda _: None,
) -> AsyncGenerator[tuple[Any, Any]]:
    """Open the SDK's transport to a server, and yield streams for receiving and sending messages.

    Args:
        target: The server.
        ended: Set when the server's messages have ended. It also gets what `Ending` has of a connection over HTTP.
        bounded: Limits what is read.
        isolates: Returns whether a failed exchange fails only its own request.
        connect_seconds: How long connecting and sending can take.
        read_seconds: How long the server can be silent during a request; on the old HTTP+SSE transport, at any time.
        auth: Authorizes each request.
        on_refusal: Called with each response whose status is an error.
    """
    is_sse = target.transport == "sse"
    guard = partial(bounded.guard, answers_in_body=not is_sse)

    async def note_status(response: httpx2.Response) -> None:
        if response.is_error:
            on_refusal(response)
        # The SDK's errors omit the status. A GET says nothing: servers without their own stream refuse it with 405.
        if response.request.method == "POST":
            ended.http_status = response.status_code if response.is_error else None

    options: dict[str, Any] = {
        "headers": {"Accept-Encoding": ACCEPTED_ENCODING, **target.headers},
        "timeout": httpx2.Timeout(connect_seconds, read=read_seconds),
        "auth": auth,
        # Any number of connections, since each call and subscription has its own: one must not wait for another.
        "limits": httpx2.Limits(max_connections=None, keepalive_expiry=_KEEP_ALIVE_SECONDS),
        "event_hooks": {"request": [_limit_session_end], "response": [note_status, guard]},
        "verify": certificates(),
    }

    def received(item: SessionMessage | Exception) -> SessionMessage | Exception:
        ended.heard = anyio.current_time()
        if not isinstance(item, SessionMessage):
            return item
        ended.has_spoken = True
        return bounded.exchange(item)

    async with AsyncExitStack() as stack:
        if is_sse:
            sse = _IsolatingSseClient(isolates, bounded.explain, **options)
            transport = sse.streams(target.url)
        else:
            client = await stack.enter_async_context(_IsolatingClient(isolates, **options))
            transport = streamable_http_client(target.url, http_client=client)
        incoming, outgoing = await stack.enter_async_context(transport)
        yield ConvertedStream(incoming, received, on_end=ended.set), ConvertedStream(outgoing, bounded.sent)


@cache
def certificates() -> ssl.SSLContext:
    """Return the certificates that all connections trust, cached because loading them blocks for 25 ms or more."""
    return httpx2.create_ssl_context()


async def _limit_session_end(request: httpx2.Request) -> None:
    """Limit the time of the request that ends a session; a `request` hook for the transport's HTTP client.

    The transport awaits that request when a connection closes. With the time limit of calls, a hanging server would
    hold its client for minutes.
    """
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_SESSION_END_SECONDS).as_dict()


class _IsolatingClient(httpx2.AsyncClient):
    """An HTTP client that treats an exchange broken off before the response as one broken off just after it began.

    The former ends the SDK's transport and all other requests on the connection; the latter fails one request.
    """

    def __init__(self, isolates: Callable[[Exception], bool], **options: Any) -> None:
        """Take a function that returns whether a failed exchange fails only its own request."""
        super().__init__(**options)
        self._isolates = isolates

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request like any client."""
        try:
            return await super().send(request, **options)
        except _BROKEN_OFF as error:
            if request.method != "POST" or not self._isolates(error):
                raise
            # An event stream without events: the SDK takes it for an answer that broke off.
            return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, request=request)


class _IsolatingSseClient(httpx2.AsyncClient):
    """An HTTP client for the old HTTP+SSE transport, where a message that cannot be delivered fails only itself.

    The SDK's transport waits for the HTTP response before it sends the next message, and sends none after a failure.
    Some servers respond to a request only once its answer is in the event stream.
    """

    def __init__(
        self,
        isolates: Callable[[Exception], bool],
        explain: Callable[[httpx2.Response], ErrorData | None],
        **options: Any,
    ) -> None:
        """Take the functions that `_IsolatingClient` and `BoundedHttp` take."""
        super().__init__(**options)
        self._isolates = isolates
        self._explain = explain

    @asynccontextmanager
    async def streams(self, url: str) -> AsyncGenerator[Any]:
        """Open the SDK's transport on this client, and yield its two streams."""
        transport = sse_client(url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: self)
        async with transport as (received, outgoing):
            # The server's messages, and answers in place of those to messages that could not be delivered.
            self._failures, incoming = anyio.create_memory_object_stream[Any]()
            async with incoming, self._failures, anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(_pass_on, received, self._failures)
                try:
                    yield incoming, outgoing
                finally:
                    self._tasks.cancel_scope.cancel()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request like any client, but a message in the background: its answer arrives as an event."""
        if request.method != "POST":
            return await super().send(request, **options)
        delivered = anyio.Event()
        asked = _request_id(request)
        self._tasks.start_soon(self._deliver, request, asked, delivered)
        if asked is None:  # so that the next message does not overtake it
            with anyio.move_on_after(_IN_ORDER_SECONDS):
                await delivered.wait()
        return httpx2.Response(202, request=request)

    async def _deliver(self, request: httpx2.Request, asked: RequestId | None, delivered: anyio.Event) -> None:
        try:
            response = await super().send(request, follow_redirects=False)
            if (redirected := _same_message_to_same_origin(response)) is not None:
                response = await super().send(redirected, follow_redirects=False)
            response.raise_for_status()
        except httpx2.ReadTimeout:
            return  # the answer arrives as an event, and can take longer than any response
        except (*_BROKEN_OFF, httpx2.HTTPStatusError) as error:
            if not self._isolates(error):
                raise
            if asked is not None:
                answer = JSONRPCError(jsonrpc="2.0", id=asked, error=self._failure(error))
                with suppress(anyio.ClosedResourceError):
                    await self._failures.send(SessionMessage(answer))
        finally:
            delivered.set()

    def _failure(self, error: Exception) -> ErrorData:
        """Return the error that the SDK's other transport reports in this case."""
        if not isinstance(error, httpx2.HTTPStatusError):
            return ErrorData(code=CONNECTION_CLOSED, message="SSE stream ended without a response")
        # The session is in the address to which messages are sent.
        return self._explain(error.response) or refusal(error.response.status_code, None, has_session=True)


async def _pass_on(received: Any, incoming: Any) -> None:
    async with incoming:
        async for item in received:
            await incoming.send(item)


def _same_message_to_same_origin(response: httpx2.Response) -> httpx2.Request | None:
    """Return the request for a redirect that the SDK would follow, which is never to another host."""
    redirected, sent = response.next_request, response.request.url
    if redirected is None or redirected.method != "POST":
        return None
    url = redirected.url
    return redirected if (url.scheme, url.netloc) == (sent.scheme, sent.netloc) else None


@dataclass(kw_only=True)
class BoundedHttp:
    """An HTTP server's messages on one connection."""

    max_bytes: int = MAX_MESSAGE_BYTES
    """Maximum decoded bytes of a body or event. Reading stops if a server sends more."""

    on_excess: Callable[[str], None]
    """Called with a description of an answer or event that exceeds it."""

    on_malformed: Callable[[str], None]
    """Called with what is wrong with each unreadable message."""

    explain: Callable[[httpx2.Response], ErrorData | None] = lambda _: None
    """Returns the error that a refusal's status and headers mean, or `None` if its body counts."""

    def __post_init__(self) -> None:
        self._held: OrderedDict[str, tuple[JSONRPCMessage, int]] = OrderedDict()
        self._held_bytes = 0
        self._numbers = count(1)
        self._responses: dict[RequestId, _Response] = {}
        self._given_up: OrderedDict[RequestId, float] = OrderedDict()
        """When the response of an abandoned request must end, for requests whose response has not begun."""

    async def guard(self, response: httpx2.Response, *, answers_in_body: bool = True) -> None:
        """Limit a response's body; a `response` hook for the transport's HTTP client.

        `answers_in_body` is whether the response to a POST contains the answer, as in every transport but the old
        HTTP+SSE.

        Raises:
            DecodingError: The body has an encoding that was not requested.
        """
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", ACCEPTED_ENCODING):
            raise httpx2.DecodingError(f"it is in the encoding {encoding[:50]!r}, which was not asked for")
        # Decompressed here, piece by piece, so httpx must not do it again.
        response.headers.pop("content-encoding", None)
        content_type = response.headers.get("content-type", "").lower()
        asked = _request_id(response.request) if answers_in_body else None
        body = _decoded(response.stream, is_compressed=encoding == ACCEPTED_ENCODING)
        if asked is not None and response.is_error:
            response.headers["content-type"] = "application/json"  # so that the transport reads it
            pieces = self._whole(body, asked, partial(self._refusal, response, asked))
        elif content_type.startswith("text/event-stream") and not response.is_error:
            pieces = self._events(body, asked)
        elif asked is not None and content_type.startswith("application/json"):
            pieces = self._whole(body, asked, partial(self._answer, asked))
        else:
            pieces = self._whole(body, None, bytes)
        if asked is not None:
            is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            pieces = self._until_given_up(pieces, asked, is_stream=is_stream)
        response.stream = _Body(response.stream, pieces)

    def sent(self, item: SessionMessage) -> SessionMessage:
        """Record which request a message to the server abandons, if any, and return the message.

        A legacy server gets a notification and does not have to answer. Some then never end the response.
        """
        match item.message:
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": int() | str() as request}):
                latest = anyio.current_time() + _LAST_WORDS_SECONDS
                if (response := self._responses.get(request)) is not None:
                    response.scope.deadline = response.latest = latest
                else:
                    self._given_up[request] = latest
                    if len(self._given_up) > _MAX_GIVEN_UP:
                        self._given_up.popitem(last=False)
            case _:
                pass
        return item

    async def _until_given_up(
        self, pieces: AsyncGenerator[bytes], asked: RequestId, *, is_stream: bool
    ) -> AsyncGenerator[bytes]:
        """Yield a body until it ends or its request is abandoned. Then end it without anything to log."""
        response = self._responses[asked] = _Response(self._given_up.pop(asked, math.inf))
        try:
            async with aclosing(pieces):
                while True:
                    piece = None
                    with anyio.CancelScope(deadline=response.latest) as response.scope:
                        piece = await anext(pieces, None)
                    if response.scope.cancelled_caught and is_stream:
                        raise httpx2.SSEError(_GIVEN_UP)  # else the transport would resume the stream
                    if response.scope.cancelled_caught:
                        yield self._placeholder(failed_answer(asked, _GIVEN_UP), 0)
                    if piece is None:
                        return
                    yield piece
        finally:
            if self._responses.get(asked) is response:
                del self._responses[asked]

    def exchange(self, item: SessionMessage) -> SessionMessage:
        """Return the message that the placeholder `item` stands for, or `item` itself if it is not a placeholder."""
        match item.message:
            case JSONRPCRequest(method=key) | JSONRPCNotification(method=key):
                pass
            case JSONRPCResponse(result={"key": str(key)}) | JSONRPCError(error=ErrorData(message=key)):
                pass
            case _:
                return item
        if not key.startswith(_KEY):
            return item
        message, size = self._held.pop(key, (None, 0))  # nothing if `_placeholder` has dropped it
        self._held_bytes -= size
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            if message is None:
                message = failed_answer(cast("RequestId", item.message.id), "too much was waiting to be read")
            cast("JSONRPCResponse | JSONRPCError", message).id = cast("Any", item.message.id)
        return item if message is None else SessionMessage(message, item.metadata)

    async def _whole(
        self, body: AsyncGenerator[bytes], asked: RequestId | None, convert: Callable[[bytearray], bytes]
    ) -> AsyncGenerator[bytes]:
        """Yield a response's body at once, as `convert` returns it."""
        try:
            yield convert(await self._read(body))
        except MessageTooLargeError as error:
            yield self._report_excess(str(error), asked)

    def _answer(self, asked: RequestId, data: bytearray) -> bytes:
        """Return a placeholder for an answer."""
        return self._placeholder(self._message(data, asked, is_all=True), len(data))

    def _refusal(self, response: httpx2.Response, asked: RequestId, data: bytearray) -> bytes:
        """Return a placeholder for the error of a request that the server refused."""
        stated = None  # if it has no error, its HTTP status is all that it says
        # Some servers, such as all on version 1 of the Python SDK, give it an id of their own, which does not matter.
        with suppress(MalformedMessageError):
            message = read_message(data, self.max_bytes)
            stated = message.error if isinstance(message, JSONRPCError) else None
        has_session = _SESSION_HEADER in response.request.headers
        # Explain only now: a failed authorization might have learned the reason.
        error = self.explain(response) or refusal(response.status_code, stated, has_session=has_session)
        return self._placeholder(JSONRPCError(jsonrpc="2.0", id=asked, error=error), len(data))

    async def _read(self, body: AsyncGenerator[bytes]) -> bytearray:
        """Return a response's body.

        Raises:
            MessageTooLargeError: It exceeds the limit.
        """
        data, number = bytearray(), 0
        async with aclosing(body):
            async for piece in body:
                data += piece
                number += 1
                self._check(data, number, "an answer")
        return data

    async def _events(self, body: AsyncGenerator[bytes], asked: RequestId | None) -> AsyncGenerator[bytes]:
        """Yield a stream's events one by one, with placeholders for their messages."""
        buffer, number = bytearray(), 0
        try:
            async with aclosing(body):
                async for piece in body:
                    number += 1
                    # A blank line has up to four bytes (CRLF CRLF), of which earlier pieces may have held three.
                    searched = max(0, len(buffer) - 3)
                    buffer += piece
                    while (blank := _BLANK_LINE.search(buffer, searched)) is not None:
                        event = bytes(buffer[: blank.start()])
                        del buffer[: blank.end()]
                        searched = number = 0
                        yield self._event(event, asked)
                    self._check(buffer, number, "an event")
        except MessageTooLargeError as error:
            yield b"data: " + self._report_excess(str(error), asked) + b"\n\n"

    def _check(self, data: bytes | bytearray, pieces: int, kind: str) -> None:
        """Raise a `MessageTooLargeError` if a body or event is too large, or arrives in too many small pieces."""
        if len(data) > self.max_bytes:
            raise MessageTooLargeError(f"{kind} of more than {mebibytes(self.max_bytes)}")
        if pieces > _MAX_SMALL_PIECES and len(data) < pieces * _SMALL_BYTES:
            raise MessageTooLargeError(f"{kind} in {pieces:,} pieces of a few bytes")

    def _event(self, event: bytes, asked: RequestId | None) -> bytes:
        """Return an event with a placeholder for its message.

        Raises:
            MessageTooLargeError: The message exceeds the limit.
        """
        if event.count(b"\n") + event.count(b"\r") > _MAX_LINES:
            raise MessageTooLargeError(f"an event of more than {_MAX_LINES:,} lines")
        kind, data, others = b"message", bytearray(), bytearray()
        for line in event.splitlines():
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data += value + b"\n"
            elif name:
                others += name + b": " + value + b"\n"
            if name == b"event":
                kind = value or b"message"
        data = data.removesuffix(b"\n")
        # Other events, such as `endpoint` on the old transport, pass unchanged.
        if kind == b"message" and data:
            data = self._placeholder(self._message(data, asked, is_all=False), len(data))
        # An event without data has at most an id, from which a broken stream can be resumed.
        return bytes(others + (b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n" if data or others else b"") + b"\n")

    def _message(self, data: bytes | bytearray, asked: RequestId | None, *, is_all: bool) -> JSONRPCMessage | None:
        """Return the message, an error in place of an unreadable answer, or `None` for a message to ignore.

        `asked` is the request whose response contains it, and `is_all` says that the response contains nothing else.
        """
        try:
            message = read_message(data, self.max_bytes)
        except MalformedMessageError as error:
            self.on_malformed(str(error))
            concerned = asked if asked is not None and (is_all or error.is_answer) else error.answers
            return None if concerned is None else failed_answer(concerned, str(error))
        if asked is None:
            return message
        if isinstance(message, JSONRPCRequest | JSONRPCNotification):
            if not is_all:
                return message
            reason = "it is a request or a notification"
        elif message.id is None:
            return message.model_copy(update={"id": asked})
        elif coerce_request_id(message.id) == coerce_request_id(asked):
            return message
        else:
            reason = f"its `id` is {str(message.id)[:50]!r}, that of the request is {str(asked)!r}"
        self.on_malformed(reason)
        return failed_answer(asked, reason)

    def _placeholder(self, message: JSONRPCMessage | None, size: int) -> bytes:
        """Keep a message of the given size, and return the placeholder for the transport."""
        if message is None:
            return b""
        key = f"{_KEY}{next(self._numbers)}"
        self._held[key] = message, size
        self._held_bytes += size
        # A message whose request has been abandoned never comes out of the transport. The newest is always kept.
        while self._held_bytes > 2 * self.max_bytes and len(self._held) > 1:
            _, (_, dropped) = self._held.popitem(last=False)
            self._held_bytes -= dropped
        match message:
            case JSONRPCRequest() | JSONRPCNotification():
                small: dict[str, Any] = {"method": key, "params": None}
            case JSONRPCResponse():
                small = {"result": {"key": key}}
            case JSONRPCError():
                small = {"error": ErrorData(code=0, message=key)}
        return message.model_copy(update=small).model_dump_json(by_alias=True, exclude_unset=True).encode()

    def _report_excess(self, excess: str, asked: RequestId | None) -> bytes:
        """Report that the server sends too much, and return the failure of the affected request.

        Raises:
            StreamError: No request is affected.
        """
        self.on_excess(f"it sent {excess}")
        if asked is None:
            raise httpx2.StreamError(f"it sent {excess}")
        error = ErrorData(code=INTERNAL_ERROR, message=f"it sent {excess}")
        return self._placeholder(JSONRPCError(jsonrpc="2.0", id=asked, error=error), 0)


@dataclass
class _Response:
    """The response to a request, while it is being read."""

    latest: float = math.inf
    """When reading must end."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The cancel scope of the current piece."""


class _Body(httpx2.AsyncByteStream):
    """A response body, read through `pieces`."""

    def __init__(self, stream: Any, pieces: AsyncGenerator[bytes]) -> None:
        self._stream = stream
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _decoded(stream: Any, *, is_compressed: bool) -> AsyncGenerator[bytes]:
    """Yield a decompressed body in small pieces."""
    decoder = zlib.decompressobj(_GZIP)
    pieces = aiter(stream)
    try:
        async for raw in pieces:
            await anyio.lowlevel.checkpoint()  # reading a full buffer of small chunks never waits
            if not is_compressed:
                yield raw
                continue
            rest = raw
            while rest and not decoder.eof:  # ignore what follows the compressed data
                yield decoder.decompress(rest, _PIECE_BYTES)
                rest = decoder.unconsumed_tail
                await anyio.lowlevel.checkpoint()
    except zlib.error as error:
        raise httpx2.DecodingError(f"its compression is damaged: {error}") from error
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _request_id(request: httpx2.Request) -> RequestId | None:
    """Return the id of the JSON-RPC request that the response to an HTTP request must answer."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith("application/json"):
        return None  # a form is a request to an authorization server
    sent = from_json(request.content)
    return sent.get("id") if "method" in sent else None
