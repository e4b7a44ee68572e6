"""HTTP/1.1 on one connection of a client, from the server's side: requests, whole responses and event streams."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import anyio
import h11
from anyio.abc import ByteStream

from tools_search_conformance.wire.codec import JsonObject, encode

CONNECTION_ERRORS: Final = (
    anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError,
)  # fmt: skip
"""What an operation raises once the client has left or speaks no HTTP."""

_HEAD_BYTES: Final = 64 * 1024
_CHUNK: Final = 65536
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


class HttpConnection:
    """Serves one request after another. Every operation raises `CONNECTION_ERRORS`."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self.streaming = False
        """Whether the current response is an event stream that has begun."""

    async def request(self) -> h11.Request | None:
        """Return the next request, or `None` where there is none."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        elif self._http.our_state is not h11.IDLE:
            return None
        event = await self._next()
        return event if isinstance(event, h11.Request) else None

    async def body(self, most: int) -> bytes:
        """Return the body of the current request, of `most` bytes at most."""
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            if len(body) > most:
                raise h11.RemoteProtocolError(f"a body of more than {most} bytes")
        return bytes(body)

    async def respond(self, status: int, body: bytes = b"", kind: str = _JSON, session: str | None = None) -> None:
        """Send a whole response."""
        await self._send_head(status, kind, session, [("Content-Length", str(len(body)))])
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def start_stream(self, session: str | None = None) -> None:
        """Begin a response that is an event stream."""
        await self._send_head(200, _EVENTS, session, [])
        self.streaming = True

    async def send_event(self, message: JsonObject) -> None:
        """Send a message on the event stream."""
        await self._send(h11.Data(data=b"event: message\ndata: " + encode(message) + b"\n\n"))

    async def end_stream(self) -> None:
        """End the event stream."""
        await self._send(h11.EndOfMessage())
        self.streaming = False

    async def until_closed(self) -> None:
        """Return when the client has closed the connection."""
        with suppress(*CONNECTION_ERRORS):
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

    async def _send_head(self, status: int, kind: str, session: str | None, length: list[tuple[str, str]]) -> None:
        headers = [("Content-Type", kind), ("Cache-Control", "no-store"), *length]
        headers += [("Mcp-Session-Id", session)] if session else []
        await self._send(h11.Response(status_code=status, headers=headers))

    async def _send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if data := self._http.send(event):
            await self._stream.send(data)
