"""Endpoints where clients reach their peers, on the loopback interface, at a secret address for each peer.

There are two ports. One serves Streamable HTTP: JSON responses in the modern era, event streams and sessions in the
legacy one. The other is for the relays (`relay.py`) that clients start as stdio servers: the first line has the secret,
followed by one message per line in both directions.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from tools_search_conformance.clients import relay
from tools_search_conformance.clients.http_connection import CONNECTION_ERRORS, PIECE_SECONDS, HttpConnection, divided
from tools_search_conformance.clients.peer import MESSAGE_LIMITS, Peer
from tools_search_conformance.wire.codec import JsonObject, MalformedError, decode_message, encode
from tools_search_conformance.wire.eras import LEGACY, TransportName

_LOOPBACK: Final = "127.0.0.1"
_HOSTS: Final = (_LOOPBACK, "localhost")
_TOKEN_SECONDS: Final = 5
_MAX_CONNECTIONS: Final = 100
"""Maximum concurrent connections per port; beyond that, the oldest is closed."""
_READ_AHEAD: Final = 64 * 1024
_MAX_RELAYED: Final = 100
"""Maximum concurrent requests from all relays."""


class Endpoints:
    """Assigns addresses to peers, and serves the clients that connect there."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.ports: dict[TransportName, int] = {}
        self._tasks = tasks
        self._peers: dict[str, Peer] = {}
        self._room = anyio.Semaphore(_MAX_RELAYED)

    @asynccontextmanager
    async def serving(
        self, peer: Peer, transport: TransportName, address: str | None = None
    ) -> AsyncGenerator[JsonObject]:
        """Serve `peer` until the block ends, and yield the target for a driver.

        With an `address`, the peer replaces the last one at that address.
        """
        token = address or secrets.token_hex(16)
        if not peer.script.unreachable:
            self._peers[token] = peer
        port = self.ports[transport]
        try:
            if transport == "http":
                yield {"transport": "http", "url": f"http://{_LOOPBACK}:{port}/{token}/mcp"}
            else:
                program = ["-I", "-S", str(Path(relay.__file__)), _LOOPBACK, str(port), token]
                yield {"transport": "stdio", "command": sys.executable, "args": program, "env": {}}
        finally:
            self._peers.pop(token, None)
            peer.closed.set()

    async def listen(self, transport: TransportName) -> asyncio.Server:
        """Open a transport's port."""
        serve = self._serve_http if transport == "http" else self._serve_relay
        scopes: list[anyio.CancelScope] = []

        async def serve_connection(reader: StreamReader, writer: StreamWriter) -> None:
            writer.transport.set_write_buffer_limits(0)  # an answer counts as sent once the kernel has it
            with anyio.CancelScope() as scope, suppress(*CONNECTION_ERRORS):
                scopes.append(scope)
                if len(scopes) > _MAX_CONNECTIONS:
                    scopes.pop(0).cancel()
                try:
                    await serve(reader, writer)
                finally:
                    if scope in scopes:
                        scopes.remove(scope)
                    writer.transport.abort()

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            self._tasks.start_soon(serve_connection, reader, writer)

        # Read ahead little more than the limit, so that a flood of bytes does not fill memory. A line must fit.
        limit = _READ_AHEAD if transport == "http" else MESSAGE_LIMITS.message_bytes
        server = await asyncio.start_server(accept, _LOOPBACK, limit=limit)
        self.ports[transport] = server.sockets[0].getsockname()[1]
        return server

    async def _serve_http(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = HttpConnection(reader, writer)
        while (asked := await connection.request(MESSAGE_LIMITS.message_bytes)) is not None:
            request, body = asked
            items = request.headers.raw_items()
            fields = [(name.decode("ascii"), value.decode("utf-8", errors="replace")) for name, value in items]
            headers = dict(fields)
            host = {name.lower(): value for name, value in headers.items()}.get("host", "").rpartition(":")[0]
            peer = self._peers.get(request.target.decode("ascii").strip("/").partition("/")[0])
            if peer is not None:
                peer.note_headers(fields)
            if peer is None or host not in _HOSTS:
                await connection.respond(404, b"no such peer", "text/plain")
            elif request.method == b"POST":
                await _answer_post(connection, peer, body, headers)
            elif request.method == b"GET" and peer.era == LEGACY:
                await _stream_notifications(connection, peer, None, headers)
            else:
                await connection.respond(200 if request.method == b"DELETE" else 405, b"", "text/plain")

    async def _serve_relay(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a relay: first its peer's secret, then messages until either side ends."""
        token = b""
        with anyio.move_on_after(_TOKEN_SECONDS):
            token = await reader.readuntil()
        if (peer := self._peers.get(token[:-1].decode("ascii", errors="replace"))) is None:
            return
        connection = _RelayConnection(writer, peer)
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await peer.closed.wait()
                tasks.cancel_scope.cancel()

            async def answer(line: bytes) -> None:
                try:
                    await connection.answer(line)
                finally:
                    self._room.release()

            tasks.start_soon(leave)
            with suppress(*CONNECTION_ERRORS):
                while True:
                    line = await reader.readuntil()
                    await self._room.acquire()  # do not read from a client that does not read its answers
                    tasks.start_soon(answer, line)
            peer.unsubscribe(connection.send)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_endpoints(tasks: TaskGroup) -> AsyncGenerator[Endpoints]:
    """Listen until the block ends; clients are served in `tasks`, which must be cancelled afterwards."""
    endpoints = Endpoints(tasks)
    servers = [await endpoints.listen("http"), await endpoints.listen("stdio")]
    try:
        yield endpoints
    finally:
        for server in servers:
            server.close()


async def _answer_post(connection: HttpConnection, peer: Peer, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        message = decode_message(body, MESSAGE_LIMITS)
    except MalformedError as error:
        refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": str(error)}}
        await connection.respond(400, encode(refusal))
        return
    if peer.listens(message):
        await _stream_notifications(connection, peer, message, headers)
        return
    opened = peer.new_session() if message.get("method") == "initialize" else None
    given = next((value for name, value in headers.items() if name.lower() == "mcp-session-id"), "")
    reply = await peer.receive(message, headers, connection, opened or given)
    if reply is None:
        await connection.respond(202)
        return
    if reply.silent:
        await peer.closed.wait()
    if reply.silent or reply.hangs_up:
        raise EOFError  # this closes the connection
    response = peer.response(message, reply)
    streams = connection.streaming or reply.streamed or reply.before or (peer.era == LEGACY and "result" in response)
    if not streams:
        body = encode(response) if reply.text is None else reply.text.encode()
        await connection.respond(peer.status(reply), body, reply.kind, opened, in_pieces=reply.divided)
        return
    if not connection.streaming:
        await connection.start_stream(opened)
    for each in (*peer.before(message, reply), response):
        await connection.send_event(each, in_pieces=reply.divided)
    await connection.end_stream()


async def _stream_notifications(
    connection: HttpConnection, peer: Peer, request: JsonObject | None, headers: Mapping[str, str]
) -> None:
    """Keep a stream of notifications open until the peer is done."""
    await connection.start_stream()
    acknowledged = peer.subscribe(connection.send_event, request, headers)
    try:
        if request is not None:
            await connection.send_event(acknowledged)
        await peer.closed.wait()
        await connection.end_stream()
    finally:
        peer.unsubscribe(connection.send_event)


class _RelayConnection:
    """Answers a relay's messages, one complete message at a time."""

    def __init__(self, writer: StreamWriter, peer: Peer) -> None:
        self._writer = writer
        self._peer = peer
        self._session = peer.new_session()
        self._turn = anyio.Lock()

    async def send(self, message: JsonObject) -> None:
        await self._write(encode(message))

    async def answer(self, line: bytes) -> None:
        peer = self._peer
        try:
            message = decode_message(line, MESSAGE_LIMITS)
        except MalformedError:
            return  # on stdio, there is no request to answer
        if message.get("method") == "notifications/initialized":
            peer.subscribe(self.send)
        if peer.listens(message):
            await self.send(peer.subscribe(self.send, message))
            return
        reply = await peer.receive(message, session=self._session)
        if reply is None or reply.silent:
            return
        if reply.hangs_up:
            self._writer.close()
            return
        for each in peer.before(message, reply):
            await self.send(each)
        data = encode(peer.response(message, reply))
        # Characters that `encode` escapes for some readers can also be sent unescaped, because they end no line.
        data = data.replace(b"\\u2028", "\u2028".encode()) if reply.divided else data
        await self._write(data, in_pieces=reply.divided)

    async def _write(self, data: bytes, *, in_pieces: bool = False) -> None:
        async with self._turn:
            with suppress(OSError):
                for piece in divided(data + b"\n") if in_pieces else (data + b"\n",):
                    self._writer.write(piece)
                    await self._writer.drain()
                    if in_pieces:
                        await anyio.sleep(PIECE_SECONDS)
