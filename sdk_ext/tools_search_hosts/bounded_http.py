"""Bounds on what an HTTP server makes its client read and wait for, beneath the transports of the SDK.

The SDK reads a JSON body whole however large it is or becomes when it is decompressed, takes 20 times the memory for
parsing it, and lets a request wait for the whole of its time where the answer cannot be attributed. So bodies and
events are read here, and the SDK gets a stand-in of a few bytes for each message, which is exchanged for the message
when it comes out of the transport.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import httpx2
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic_core import from_json

from tools_search_hosts.messages import (
    MAX_MESSAGE_BYTES,
    MalformedMessageError,
    MessageTooLargeError,
    failed_answer,
    mebibytes,
    read_message,
)

ACCEPTED_ENCODING: Final = "gzip"
"""The value for `Accept-Encoding`; others are refused, since some take 128 MiB for any content."""

KEEP_ALIVE_SECONDS: Final = 2
"""How long a client uses an idle connection again. Servers close theirs after 5 s, as uvicorn and Node do; a request on
one that is being closed is lost, and nobody knows whether it has taken effect."""

_PIECE_BYTES: Final = 256 * 1024
"""Bytes that are decompressed before others have their turn."""

_SESSION_END_SECONDS: Final = 2
_LAST_WORDS_SECONDS: Final = 2
"""How long the response to a request may go on that was given up."""

_IN_ORDER_SECONDS: Final = 1
"""How long the next message waits for one that is no request, on the old HTTP+SSE transport."""

_NOT_FOUND: Final = 404

_MAX_GIVEN_UP: Final = 1000
"""Requests that were given up and whose responses may still begin."""

_BROKEN_OFF: Final = (
    httpx2.TimeoutException,
    httpx2.ReadError,
    httpx2.WriteError,
    httpx2.CloseError,
    httpx2.ProtocolError,
)
"""Failures of one exchange, which say nothing of others. One that refuses the connection answers nobody."""

_MAX_SMALL_PIECES: Final = 5000
_SMALL_BYTES: Final = 32
"""Average size of so many pieces of one body or event; each piece takes as much time as 10 kB of a large one."""

_MAX_LINES: Final = 500_000
_GZIP: Final = zlib.MAX_WBITS | 16
_LINE: Final = re.compile(rb"[^\r\n]*+(?>\r\n|\r|\n|\Z)")
_BLANK_LINE: Final = re.compile(rb"(?>\r\n|\r|\n){2}")
_KEY: Final = "stand-in:"


async def limit_session_end(request: httpx2.Request) -> None:
    """Bound the request that ends a session; for the `request` hooks of the client that the transport uses.

    The transport awaits it when a connection is left, and under the time limit of calls a server that hangs would hold
    its client for minutes.
    """
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_SESSION_END_SECONDS).as_dict()


class IsolatingClient(httpx2.AsyncClient):
    """A client for which an exchange that breaks off before the response begins is one that breaks off just after.

    The SDK's transport ends with the former, and with it all other requests of the connection; the latter costs one.
    """

    def __init__(self, isolates: Callable[[Exception], bool], **options: Any) -> None:
        """Take what is called with the failure of an exchange: whether it is to cost that request alone."""
        super().__init__(**options)
        self._isolates = isolates

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request as any client does."""
        try:
            return await super().send(request, **options)
        except _BROKEN_OFF as error:
            if request.method != "POST" or not self._isolates(error):
                raise
            return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, request=request)


class IsolatingSse:
    """The messages to a server on the old HTTP+SSE transport; one that cannot be delivered costs its own request alone.

    The SDK's transport sends a message when the one before has been responded to, and none after one that fails. Some
    servers respond to a request only once its answer is in the stream of events.
    """

    def __init__(
        self,
        isolates: Callable[[Exception], bool],
        explain: Callable[[httpx2.Response], ErrorData | None] = lambda _: None,
    ) -> None:
        """Take what `IsolatingClient` and `BoundedHttp` take."""
        self._isolates = isolates
        self._explain = explain

    def make_client(self, **options: Any) -> httpx2.AsyncClient:
        """Return the client that the transport is to use."""
        return _SseClient(self, **options)

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
        """Open a transport with that client, and yield its two streams."""
        async with transport as (received, outgoing):
            self._failures, incoming = anyio.create_memory_object_stream[Any]()
            async with incoming, self._failures, anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(_pass_on, received, self._failures)
                try:
                    yield incoming, outgoing
                finally:
                    self._tasks.cancel_scope.cancel()

    async def post(self, send: Callable[[httpx2.Request], Awaitable[httpx2.Response]], request: httpx2.Request) -> None:
        """Deliver a message, and return at once where it is a request, whose answer comes by itself.

        Any other is waited for, so that the next message does not overtake it, unless that takes too long.
        """
        delivered = anyio.Event()
        asked = _request_id(request)
        self._tasks.start_soon(self._deliver, send, request, asked, delivered)
        if asked is None:
            with anyio.move_on_after(_IN_ORDER_SECONDS):
                await delivered.wait()

    async def _deliver(
        self,
        send: Callable[[httpx2.Request], Awaitable[httpx2.Response]],
        request: httpx2.Request,
        asked: RequestId | None,
        delivered: anyio.Event,
    ) -> None:
        try:
            response = await send(request)
            if (redirected := _same_message_to_same_origin(response)) is not None:
                response = await send(redirected)
            response.raise_for_status()
        except httpx2.ReadTimeout:
            return  # the answer comes with the events, and may take longer than any response
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
        """Return what the SDK's other transport says in such a case."""
        if not isinstance(error, httpx2.HTTPStatusError):
            return ErrorData(code=CONNECTION_CLOSED, message="SSE stream ended without a response")
        status = error.response.status_code
        if status == _NOT_FOUND:
            return ErrorData(code=INVALID_REQUEST, message="Session terminated")
        refused = ErrorData(code=INTERNAL_ERROR, message=f"it refused the request with HTTP {status}")
        return self._explain(error.response) or refused


class _SseClient(httpx2.AsyncClient):
    def __init__(self, messages: IsolatingSse, **options: Any) -> None:
        super().__init__(**options)
        self._messages = messages

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await super().send(request, **options)
        await self._messages.post(partial(super().send, follow_redirects=False), request)
        return httpx2.Response(202, request=request)


async def _pass_on(received: Any, incoming: Any) -> None:
    async with incoming:
        async for item in received:
            await incoming.send(item)


def _same_message_to_same_origin(response: httpx2.Response) -> httpx2.Request | None:
    """Return the request that a redirect asks for, where the SDK would follow it: never to another host."""
    redirected, sent = response.next_request, response.request.url
    if redirected is None or redirected.method != "POST":
        return None
    url = redirected.url
    return redirected if (url.scheme, url.netloc) == (sent.scheme, sent.netloc) else None


@dataclass(kw_only=True)
class BoundedHttp:
    """The messages of an HTTP server on one connection."""

    max_bytes: int = MAX_MESSAGE_BYTES
    """Decoded bytes of a body or an event; a server that sends more is not read any further."""

    on_excess: Callable[[str], None]
    """Called with a description of an answer or event that is more than that."""

    on_malformed: Callable[[str], None]
    """Called with the flaw of each message that cannot be read."""

    answers_in_body: bool = True
    """Whether the response to a POST holds the answer, as it does but for the old HTTP+SSE transport."""

    explain: Callable[[httpx2.Response], ErrorData | None] = lambda _: None
    """Returns the error that the status and the headers of a response stand for; `None` where its body counts."""

    def __post_init__(self) -> None:
        self._held: OrderedDict[str, tuple[JSONRPCMessage, int]] = OrderedDict()
        self._held_bytes = 0
        self._numbers = count(1)
        self._responses: dict[RequestId, _Response] = {}
        self._given_up: OrderedDict[RequestId, float] = OrderedDict()
        """When the response to a request that was given up before it began ends at the latest."""

    async def guard(self, response: httpx2.Response) -> None:
        """Bound the body of a response; for the `response` hooks of the client that the transport uses.

        Raises:
            DecodingError: It is compressed in a way that was not asked for.
        """
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", ACCEPTED_ENCODING):
            raise httpx2.DecodingError(f"it is in the encoding {encoding[:50]!r}, which was not asked for")
        response.headers.pop("content-encoding", None)
        content_type = response.headers.get("content-type", "").lower()
        asked = _request_id(response.request) if self.answers_in_body else None
        body = _decoded(response.stream, is_compressed=encoding == ACCEPTED_ENCODING)
        error = None if asked is None else self.explain(response)
        if error is not None:
            response.headers["content-type"] = "application/json"  # so that the transport reads it
            pieces = self._failure(response, cast("RequestId", asked))
        elif content_type.startswith("text/event-stream") and not response.is_error:
            pieces = self._events(body, asked)
        else:
            is_answer = content_type.startswith("application/json")
            pieces = self._whole(body, asked if is_answer else None, is_error=response.is_error)
        if asked is not None:
            is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            pieces = self._until_given_up(pieces, asked, httpx2.SSEError if is_stream else httpx2.StreamError)
        response.stream = _Body(response.stream, pieces)

    def sent(self, item: SessionMessage) -> SessionMessage:
        """Note in a message to the server which request was given up, and return the message.

        A legacy server gets a notification and need not answer: some never end the response then.
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
        self, pieces: AsyncGenerator[bytes], asked: RequestId, kind_of_end: Callable[[str], Exception]
    ) -> AsyncGenerator[bytes]:
        """Yield a body up to its end, or until its request was given up, with an error that the transport expects."""
        response = self._responses[asked] = _Response(self._given_up.pop(asked, math.inf))
        try:
            async with aclosing(pieces):
                while True:
                    piece = None
                    with anyio.CancelScope(deadline=response.latest) as response.scope:
                        piece = await anext(pieces, None)
                    if response.scope.cancelled_caught:
                        raise kind_of_end("the request was given up")
                    if piece is None:
                        return
                    yield piece
        finally:
            if self._responses.get(asked) is response:
                del self._responses[asked]

    def exchange(self, item: SessionMessage) -> SessionMessage:
        """Return the message for which the transport was given `item`, and `item` itself where that is no stand-in."""
        match item.message:
            case JSONRPCRequest(method=key) | JSONRPCNotification(method=key):
                pass
            case JSONRPCResponse(result={"key": str(key)}) | JSONRPCError(error=ErrorData(message=key)):
                pass
            case _:
                return item
        if not key.startswith(_KEY):
            return item
        message, size = self._held.pop(key, (None, 0))
        self._held_bytes -= size
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            if message is None:
                message = failed_answer(cast("RequestId", item.message.id), "too much was waiting to be read")
            cast("JSONRPCResponse | JSONRPCError", message).id = cast("Any", item.message.id)
        return item if message is None else SessionMessage(message, item.metadata)

    async def _failure(self, response: httpx2.Response, asked: RequestId) -> AsyncGenerator[bytes]:
        # Explained only now: an authorization that failed may have learned why.
        error = self.explain(response) or ErrorData(code=INTERNAL_ERROR, message="it refuses the request")
        yield self._stand_in(JSONRPCError(jsonrpc="2.0", id=asked, error=error), _SMALL_BYTES)

    async def _whole(
        self, body: AsyncGenerator[bytes], asked: RequestId | None, *, is_error: bool
    ) -> AsyncGenerator[bytes]:
        """Yield the body of a response, or the stand-in for the answer that it is."""
        data, number = bytearray(), 0
        try:
            async with aclosing(body):
                async for piece in body:
                    data += piece
                    number += 1
                    self._check(data, number, "an answer")
            if asked is None:
                yield bytes(data)
                return
            message = self._message(data, asked, is_all=not is_error, refuses=is_error)
        except MessageTooLargeError as error:
            yield self._exceeded(str(error), asked)
            return
        if not is_error or isinstance(message, JSONRPCError):  # else the status says it all
            yield self._stand_in(message, len(data))

    async def _events(self, body: AsyncGenerator[bytes], asked: RequestId | None) -> AsyncGenerator[bytes]:
        """Yield the events of a stream one by one, with the stand-ins for the messages that they hold."""
        buffer, number = bytearray(), 0
        try:
            async with aclosing(body):
                async for piece in body:
                    number += 1
                    searched = max(0, len(buffer) - 3)
                    buffer += piece
                    while (blank := _BLANK_LINE.search(buffer, searched)) is not None:
                        event = bytes(buffer[: blank.start()])
                        del buffer[: blank.end()]
                        searched = number = 0
                        yield self._event(event, asked)
                    self._check(buffer, number, "an event")
        except MessageTooLargeError as error:
            yield b"data: " + self._exceeded(str(error), asked) + b"\n\n"

    def _check(self, data: bytes | bytearray, pieces: int, kind: str) -> None:
        """Raise a `MessageTooLargeError` where a body or event is too large, or comes in too many small pieces."""
        if len(data) > self.max_bytes:
            raise MessageTooLargeError(f"{kind} of more than {mebibytes(self.max_bytes)}")
        if pieces > _MAX_SMALL_PIECES and len(data) < pieces * _SMALL_BYTES:
            raise MessageTooLargeError(f"{kind} in {pieces:,} pieces of a few bytes")

    def _event(self, event: bytes, asked: RequestId | None) -> bytes:
        """Return an event with the stand-in for its message.

        Raises:
            MessageTooLargeError: It is more than is read.
        """
        self._check(event, 0, "an event")
        kind, data, others = b"message", bytearray(), bytearray()
        for number, line in enumerate(_LINE.finditer(event)):
            if number > _MAX_LINES:
                raise MessageTooLargeError(f"an event of more than {_MAX_LINES:,} lines")
            name, _, value = line[0].rstrip(b"\r\n").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data += value + b"\n"
            elif name:
                others += name + b": " + value + b"\n"
            if name == b"event":
                kind = value or b"message"
        data = data.removesuffix(b"\n")
        if kind == b"message" and data:
            data = self._stand_in(self._message(data, asked, is_all=False), len(data))
        # An event without data has an id at most, from which a broken stream is taken up again.
        return bytes(others + (b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n" if data or others else b"") + b"\n")

    def _message(
        self, data: bytes | bytearray, asked: RequestId | None, *, is_all: bool, refuses: bool = False
    ) -> JSONRPCMessage | None:
        """Return the message, an answer in place of one that cannot be read, or `None` for one that is passed over.

        Args:
            data: The text.
            asked: The request in whose response it came.
            is_all: Whether nothing else comes there.
            refuses: Whether the HTTP status says that the request is refused. Then some servers, as all on version 1 of
                the Python SDK, give the error an id of their own, even a string for all of them.
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
        elif message.id is None or (refuses and isinstance(message, JSONRPCError)):
            return message.model_copy(update={"id": asked})
        elif coerce_request_id(message.id) == coerce_request_id(asked):
            return message
        else:
            reason = f"its `id` is {str(message.id)[:50]!r}, that of the request is {str(asked)!r}"
        self.on_malformed(reason)
        return failed_answer(asked, reason)

    def _stand_in(self, message: JSONRPCMessage | None, size: int) -> bytes:
        """Hold a message of some bytes, and return what the transport is given for it."""
        if message is None:
            return b""
        key = f"{_KEY}{next(self._numbers)}"
        self._held[key] = message, size
        self._held_bytes += size
        # A message whose request was given up meanwhile never comes out of the transport.
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

    def _exceeded(self, excess: str, asked: RequestId | None) -> bytes:
        """Report that the server sends too much, and return the failure of the request that is concerned.

        Raises:
            StreamError: There is no such request.
        """
        self.on_excess(f"it sent {excess}")
        if asked is None:
            raise httpx2.StreamError(f"it sent {excess}")
        error = ErrorData(code=INTERNAL_ERROR, message=f"it sent {excess}")
        return self._stand_in(JSONRPCError(jsonrpc="2.0", id=asked, error=error), 0)


@dataclass
class _Response:
    """The response to a request, while it is read."""

    latest: float = math.inf
    """When it ends at the latest."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """That of the piece which is read."""


class _Body(httpx2.AsyncByteStream):
    """The body of a response, read by way of `pieces`."""

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
    """Yield a body without its compression, never much of it at once."""
    decoder = zlib.decompressobj(_GZIP)
    pieces = aiter(stream)
    try:
        async for raw in pieces:
            await anyio.lowlevel.checkpoint()  # a full buffer of small chunks is read without ever waiting
            if not is_compressed:
                yield raw
            elif not decoder.eof:
                yield decoder.decompress(raw, _PIECE_BYTES)
                while decoder.unconsumed_tail:
                    await anyio.lowlevel.checkpoint()
                    yield decoder.decompress(decoder.unconsumed_tail, _PIECE_BYTES)
    except zlib.error as error:
        raise httpx2.DecodingError(f"its compression is damaged: {error}") from error
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _request_id(request: httpx2.Request) -> RequestId | None:
    """Return the id of the JSON-RPC request that is to be answered in the response to an HTTP request."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith("application/json"):
        return None  # a form asks an authorization server
    sent = from_json(request.content)
    return sent.get("id") if "method" in sent else None
