"""The server side of a client's HTTP/1.1 connection: requests, complete responses and event streams."""

from __future__ import annotations

import re
from asyncio import LimitOverrunError, StreamReader, StreamWriter
from contextlib import suppress
from typing import Final

import anyio
import h11

from tools_search_conformance.wire.codec import JsonObject, encode

CONNECTION_ERRORS: Final = (OSError, EOFError, LimitOverrunError, h11.ProtocolError)
"""Raised by operations if the client has disconnected, or sends neither HTTP nor lines within the length limit."""

_HEAD_BYTES: Final = 64 * 1024
_CHUNK: Final = 65536
_CUTS: Final = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])|\r(?=\n)|\n(?=\r)|\\(?=[\"\\/bfnrtu])|(?<=[dai]:)")
"""Where to split pieces: inside a character, a line ending, an escape and an event stream field."""
_MAX_PIECES: Final = 24

PIECE_SECONDS: Final = 0.01
"""Pause after a piece: a pipe or a socket only delivers separate pieces if they are read one by one."""


def divided(data: bytes) -> list[bytes]:
    """Return `data` in pieces, so that a reader fails if it treats a piece as complete."""
    ends = [match.end() for match in _CUTS.finditer(data)][: _MAX_PIECES - 1]
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True) if start < end]


class HttpConnection:
    """Serves one request at a time. Every operation can raise `CONNECTION_ERRORS`."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self.streaming = False
        """Whether the current response is an event stream that has started."""

    async def request(self, most: int) -> tuple[h11.Request, bytes] | None:
        """Return the next request with its body of at most `most` bytes, or `None` if there is none."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        elif self._http.our_state is not h11.IDLE:
            return None
        request = await self._next()
        if not isinstance(request, h11.Request):
            return None
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            if len(body) > most:
                raise h11.RemoteProtocolError(f"a body of more than {most} bytes")
        return request, bytes(body)

    async def respond(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "application/json",
        session: str | None = None,
        *,
        in_pieces: bool = False,
    ) -> None:
        """Send a complete response; in chunks if `in_pieces`."""
        await self._send_head(status, kind, session, *([] if in_pieces else [("Content-Length", str(len(body)))]))
        await self._send_body(body, in_pieces=in_pieces)
        await self._send(h11.EndOfMessage())

    async def start_stream(self, session: str | None = None) -> None:
        """Start an event stream response."""
        await self._send_head(200, "text/event-stream", session)
        self.streaming = True

    async def send_event(self, message: JsonObject, *, in_pieces: bool = False) -> None:
        """Send a message on the event stream; if `in_pieces`, amid comments, fields and an event without a message."""
        event = b"event: message\ndata: " + encode(message) + b"\n\n"
        if in_pieces:
            others = b": a comment\r\n\r\nevent: of_another_name\r\ndata: [1\r\ndata: ]\r\n\r\n:\r\n"
            first, comma, rest = encode(message).partition(b",")  # a comma between two members
            between = b"\r\n: a comment\r\ndata: "
            event = others + b"retry: 5000\r\nid: 7\r\ndata:" + first + comma + between + rest + b"\r\n\r\n"
        await self._send_body(event, in_pieces=in_pieces)

    async def end_stream(self) -> None:
        """End the event stream."""
        await self._send(h11.EndOfMessage())
        self.streaming = False

    async def until_closed(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(*CONNECTION_ERRORS):
            while data := await self._reader.read(_CHUNK):
                self._http.receive_data(data)

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(_CHUNK))
        return event

    async def _send_body(self, data: bytes, *, in_pieces: bool) -> None:
        for piece in divided(data) if in_pieces else (data,):
            await self._send(h11.Data(data=piece))
            if in_pieces:
                await anyio.sleep(PIECE_SECONDS)

    async def _send_head(self, status: int, kind: str, session: str | None, *more: tuple[str, str]) -> None:
        headers = [("Content-Type", kind), ("Cache-Control", "no-store"), *more]
        headers += [("Mcp-Session-Id", session)] if session else []
        await self._send(h11.Response(status_code=status, headers=headers))

    async def _send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if data := self._http.send(event):
            self._writer.write(data)
            await self._writer.drain()
