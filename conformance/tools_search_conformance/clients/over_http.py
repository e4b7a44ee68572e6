"""A peer over Streamable HTTP: JSON answers in the modern era, event streams and sessions in the legacy one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio
import h11
from anyio.abc import ByteStream

from tools_search_conformance.clients.peer import HEARD, LISTEN, Peer, status_of
from tools_search_conformance.wire.codec import JsonObject, MalformedError, decode_message, encode
from tools_search_conformance.wire.eras import LEGACY, MODERN

__all__ = ["serve_http"]

_HEAD_BYTES: Final = 64 * 1024
_CHUNK: Final = 65536
_OURS: Final = ("127.0.0.1", "localhost")
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_GONE: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError)


async def serve_http(stream: ByteStream, peers: Mapping[str, Peer]) -> None:
    """Serve one connection of a client, request after request."""
    async with stream:
        with suppress(*_GONE):
            wire = _Wire(stream)
            while (request := await wire.request()) is not None:
                await _serve(wire, request, peers)


class _Wire:
    """HTTP/1.1 on one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self._served = False
        self.streams = False
        """Whether the current response is a stream of events that has begun."""

    async def request(self) -> h11.Request | None:
        """Return the next request, or `None` where there is none."""
        if self._served:
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return None
            self._http.start_next_cycle()
        self._served = True
        event = await self._next()
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> bytes:
        """Return the body of the current request."""
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            if len(body) > HEARD.message_bytes:
                raise h11.RemoteProtocolError("a body beyond all bounds")
        return bytes(body)

    async def answer(self, status: int, body: bytes = b"", kind: str = _JSON, session: str | None = None) -> None:
        """Send a whole response."""
        await self.begin(status, kind, session, len(body))
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def begin(self, status: int, kind: str, session: str | None = None, length: int | None = None) -> None:
        """Send the head of a response."""
        headers = [("Content-Type", kind), ("Cache-Control", "no-store")]
        headers += [("Mcp-Session-Id", session)] if session else []
        headers += [("Content-Length", str(length))] if length is not None else []
        await self._send(h11.Response(status_code=status, headers=headers))
        self.streams = kind == _EVENTS

    async def event(self, message: JsonObject) -> None:
        """Send a message as an event."""
        await self._send(h11.Data(data=b"event: message\ndata: " + encode(message) + b"\n\n"))

    async def end(self) -> None:
        """End the response."""
        await self._send(h11.EndOfMessage())
        self.streams = False

    async def open(self) -> None:
        """Begin a response that is a stream of events."""
        await self.begin(200, _EVENTS)

    async def until_closed(self) -> None:
        """Return when the client has closed it."""
        with suppress(*_GONE):
            while True:
                self._http.receive_data(await self._stream.receive(_CHUNK))

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                data = await self._stream.receive(_CHUNK)
            except anyio.EndOfStream:
                data = b""
            self._http.receive_data(data)
        return event

    async def _send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if data := self._http.send(event):
            await self._stream.send(data)


def _headers(request: h11.Request) -> dict[str, str]:
    return {
        name.decode("ascii"): value.decode("utf-8", errors="replace") for name, value in request.headers.raw_items()
    }


async def _serve(wire: _Wire, request: h11.Request, peers: Mapping[str, Peer]) -> None:
    body, headers = await wire.body(), _headers(request)
    host = {name.lower(): value for name, value in headers.items()}.get("host", "").rpartition(":")[0]
    peer = peers.get(request.target.decode("ascii").strip("/").partition("/")[0])
    if peer is None or host not in _OURS:
        await wire.answer(404, b"no such peer", "text/plain")
    elif request.method == b"POST":
        await _post(wire, peer, body, headers)
    elif request.method == b"GET" and peer.era == LEGACY:
        await _stream(wire, peer, None)
    else:
        await wire.answer(200 if request.method == b"DELETE" else 405, b"", "text/plain")


async def _post(wire: _Wire, peer: Peer, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        message = decode_message(body, HEARD)
    except MalformedError as error:
        refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": str(error)}}
        await wire.answer(400, encode(refusal))
        return
    if message.get("method") == LISTEN and "id" in message and peer.era == MODERN:
        await _stream(wire, peer, message, headers)
        return
    reply = await peer.hear(message, headers, wire)
    if reply is None:
        await wire.answer(202)
        return
    if reply.silent or reply.lost:
        if reply.silent:
            await peer.closed.wait()
        raise anyio.EndOfStream
    status = status_of(peer.era, reply)
    session = "judged" if message.get("method") == "initialize" else None
    if reply.raw is not None:
        await wire.answer(status, reply.raw, _JSON, session)
    elif wire.streams or reply.before or (peer.era == LEGACY and "result" in peer.message(message, reply)):
        if not wire.streams:
            await wire.begin(status, _EVENTS, session)
        for each in (*reply.before, peer.message(message, reply)):
            await wire.event(each)
        await wire.end()
    else:
        await wire.answer(status, encode(peer.message(message, reply)), _JSON, session)


async def _stream(
    wire: _Wire, peer: Peer, request: JsonObject | None, headers: Mapping[str, str] | None = None
) -> None:
    """Hold a stream of notifications open until the peer is done."""
    await wire.begin(200, _EVENTS)
    acknowledged = peer.subscribe(wire.event, request, headers)
    try:
        if request is not None:
            await wire.event(acknowledged)
        await peer.closed.wait()
        await wire.end()
    finally:
        peer.unsubscribe(wire.event)
