"""A peer over stdio: the client's end is a relay, this end is a socket with one message a line."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance.clients.peer import HEARD, LISTEN, Peer
from tools_search_conformance.wire.codec import JsonObject, MalformedError, decode_message, encode
from tools_search_conformance.wire.eras import MODERN

__all__ = ["serve_relay"]

_TOKEN_BYTES: Final = 64
_TOKEN_SECONDS: Final = 5
_GONE: Final = (
    anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError,
    anyio.DelimiterNotFound,
)  # fmt: skip


async def serve_relay(stream: ByteStream, peers: Mapping[str, Peer], room: anyio.Semaphore) -> None:
    """Serve one relay: first the token of its peer, then messages until either side ends.

    `room` is for as many requests as may be under way at once, of all relays together.
    """
    async with stream:
        lines = BufferedByteReceiveStream(stream)
        token = b""
        with suppress(*_GONE), anyio.move_on_after(_TOKEN_SECONDS):
            token = await lines.receive_until(b"\n", _TOKEN_BYTES)
        if (peer := peers.get(token.decode("ascii", errors="replace"))) is not None:
            await _Line(stream, lines, peer, room).serve()


class _Line:
    """One relay's conversation."""

    def __init__(self, stream: ByteStream, lines: BufferedByteReceiveStream, peer: Peer, room: anyio.Semaphore) -> None:
        self._stream = stream
        self._lines = lines
        self._peer = peer
        self._turn = anyio.Lock()
        self._room = room

    async def serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._leave, tasks)
            with suppress(*_GONE):
                while True:
                    line = await self._lines.receive_until(b"\n", HEARD.message_bytes)
                    await self._room.acquire()  # who does not read is not read from
                    tasks.start_soon(self._take, line)
            self._peer.unsubscribe(self.send)
            tasks.cancel_scope.cancel()

    async def send(self, message: JsonObject) -> None:
        """Write one message."""
        await self._write(encode(message))

    async def _leave(self, tasks: TaskGroup) -> None:
        await self._peer.closed.wait()
        tasks.cancel_scope.cancel()

    async def _take(self, line: bytes) -> None:
        try:
            await self._answer(line)
        finally:
            self._room.release()

    async def _answer(self, line: bytes) -> None:
        try:
            message = decode_message(line, HEARD)
        except MalformedError:
            return  # as a server on stdio has it: there is nothing to answer
        if message.get("method") == "notifications/initialized":
            self._peer.subscribe(self.send)
        if message.get("method") == LISTEN and "id" in message and self._peer.era == MODERN:
            await self.send(self._peer.subscribe(self.send, message))
            return
        reply = await self._peer.hear(message)
        if reply is None or reply.silent:
            return
        if reply.lost:
            await self._stream.aclose()
            return
        for ahead in reply.before:
            await self.send(ahead)
        await self._write(reply.raw if reply.raw is not None else encode(self._peer.message(message, reply)))

    async def _write(self, data: bytes) -> None:
        async with self._turn:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._stream.send(data + b"\n")
