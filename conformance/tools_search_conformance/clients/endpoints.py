"""Endpoints: where clients reach their peers, on the loopback and by a secret address of each peer.

There are two ports. One speaks Streamable HTTP: JSON responses in the modern era, event streams and sessions in the
legacy one. To the other connect the relays (`relay.py`) that clients start as their servers on stdio; it carries the
secret on a first line, and then one message a line in both directions.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import h11
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance.clients import relay
from tools_search_conformance.clients.http_connection import CONNECTION_ERRORS, HttpConnection
from tools_search_conformance.clients.peer import LISTEN, MESSAGE_LIMITS, Peer
from tools_search_conformance.clients.sockets import open_listener, serve_connections
from tools_search_conformance.wire.codec import JsonObject, MalformedError, decode_message, encode
from tools_search_conformance.wire.eras import LEGACY, MODERN, TransportName

_LOOPBACK: Final = "127.0.0.1"
_HOSTS: Final = (_LOOPBACK, "localhost")
_TOKEN_BYTES: Final = 64
_TOKEN_SECONDS: Final = 5
_MAX_CONNECTIONS: Final = 200
_MAX_RELAYED: Final = 100
"""How many requests may be under way at once, of all relays together."""
_RELAY_ERRORS: Final = (
    anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError,
    anyio.DelimiterNotFound,
)  # fmt: skip


class Endpoints:
    """Gives every peer an address."""

    def __init__(self, http_port: int, relay_port: int, peers: dict[str, Peer]) -> None:
        self._ports: dict[TransportName, int] = {"http": http_port, "stdio": relay_port}
        self._peers = peers

    @asynccontextmanager
    async def serving(
        self, peer: Peer, transport: TransportName, address: str | None = None
    ) -> AsyncGenerator[JsonObject]:
        """Have `peer` serve until the block ends, and yield the target by which a driver finds it.

        With an `address`, the peer is found where the last peer of that address was.
        """
        token = address or secrets.token_hex(16)
        if not peer.script.unreachable:
            self._peers[token] = peer
        port = self._ports[transport]
        try:
            if transport == "http":
                yield {"transport": "http", "url": f"http://{_LOOPBACK}:{port}/{token}/mcp"}
            else:
                program = ["-I", "-S", str(Path(relay.__file__)), _LOOPBACK, str(port), token]
                yield {"transport": "stdio", "command": sys.executable, "args": program, "env": {}}
        finally:
            self._peers.pop(token, None)
            peer.closed.set()


@asynccontextmanager
async def open_endpoints(tasks: TaskGroup) -> AsyncGenerator[Endpoints]:
    """Listen until the block ends; clients are served in `tasks`, which are then to be cancelled."""
    peers: dict[str, Peer] = {}
    room = anyio.Semaphore(_MAX_RELAYED)

    with open_listener(_LOOPBACK) as http, open_listener(_LOOPBACK) as relays:
        serve = partial(serve_connections, tasks=tasks, most=_MAX_CONNECTIONS)
        tasks.start_soon(serve, http, partial(_serve_http, peers=peers))
        tasks.start_soon(serve, relays, partial(_serve_relay, peers=peers, room=room))
        try:
            yield Endpoints(http.getsockname()[1], relays.getsockname()[1], peers)
        finally:
            anyio.notify_closing(http)
            anyio.notify_closing(relays)


async def _serve_http(stream: ByteStream, peers: Mapping[str, Peer]) -> None:
    """Serve one HTTP connection of a client, request after request."""
    connection = HttpConnection(stream)
    with suppress(*CONNECTION_ERRORS):
        while (request := await connection.request()) is not None:
            await _answer_http(connection, request, peers)


async def _answer_http(connection: HttpConnection, request: h11.Request, peers: Mapping[str, Peer]) -> None:
    body = await connection.body(MESSAGE_LIMITS.message_bytes)
    headers = {
        name.decode("ascii"): value.decode("utf-8", errors="replace") for name, value in request.headers.raw_items()
    }
    host = {name.lower(): value for name, value in headers.items()}.get("host", "").rpartition(":")[0]
    peer = peers.get(request.target.decode("ascii").strip("/").partition("/")[0])
    if peer is None or host not in _HOSTS:
        await connection.respond(404, b"no such peer", "text/plain")
    elif request.method == b"POST":
        await _answer_post(connection, peer, body, headers)
    elif request.method == b"GET" and peer.era == LEGACY:
        await _stream_notifications(connection, peer, None, headers)
    else:
        await connection.respond(200 if request.method == b"DELETE" else 405, b"", "text/plain")


async def _answer_post(connection: HttpConnection, peer: Peer, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        message = decode_message(body, MESSAGE_LIMITS)
    except MalformedError as error:
        refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": str(error)}}
        await connection.respond(400, encode(refusal))
        return
    if message.get("method") == LISTEN and "id" in message and peer.era == MODERN:
        await _stream_notifications(connection, peer, message, headers)
        return
    reply = await peer.receive(message, headers, connection)
    if reply is None:
        await connection.respond(202)
        return
    if reply.silent:
        await peer.closed.wait()
    if reply.silent or reply.hangs_up:
        raise anyio.EndOfStream  # which closes the connection
    session = "judged" if message.get("method") == "initialize" else None
    response = peer.response(message, reply)
    streams = connection.streaming or reply.before or (peer.era == LEGACY and "result" in response)
    if reply.raw is not None or not streams:
        await connection.respond(peer.status(reply), reply.raw or encode(response), session=session)
        return
    if not connection.streaming:
        await connection.start_stream(session)
    for each in (*reply.before, response):
        await connection.send_event(each)
    await connection.end_stream()


async def _stream_notifications(
    connection: HttpConnection, peer: Peer, request: JsonObject | None, headers: Mapping[str, str]
) -> None:
    """Hold a stream of notifications open until the peer is done."""
    await connection.start_stream()
    acknowledged = peer.subscribe(connection.send_event, request, headers)
    try:
        if request is not None:
            await connection.send_event(acknowledged)
        await peer.closed.wait()
        await connection.end_stream()
    finally:
        peer.unsubscribe(connection.send_event)


async def _serve_relay(stream: ByteStream, peers: Mapping[str, Peer], room: anyio.Semaphore) -> None:
    """Serve one relay: first the secret of its peer, then messages until either side ends."""
    lines = BufferedByteReceiveStream(stream)
    token = b""
    with suppress(*_RELAY_ERRORS), anyio.move_on_after(_TOKEN_SECONDS):
        token = await lines.receive_until(b"\n", _TOKEN_BYTES)
    if (peer := peers.get(token.decode("ascii", errors="replace"))) is None:
        return
    connection = _RelayConnection(stream, peer)
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await peer.closed.wait()
            tasks.cancel_scope.cancel()

        async def answer(line: bytes) -> None:
            try:
                await connection.answer(line)
            finally:
                room.release()

        tasks.start_soon(leave)
        with suppress(*_RELAY_ERRORS):
            while True:
                line = await lines.receive_until(b"\n", MESSAGE_LIMITS.message_bytes)
                await room.acquire()  # a client that reads no answers is not read from
                tasks.start_soon(answer, line)
        peer.unsubscribe(connection.send)
        tasks.cancel_scope.cancel()


class _RelayConnection:
    """Answers the messages of one relay, whole messages at a time."""

    def __init__(self, stream: ByteStream, peer: Peer) -> None:
        self._stream = stream
        self._peer = peer
        self._turn = anyio.Lock()

    async def send(self, message: JsonObject) -> None:
        await self._write(encode(message))

    async def answer(self, line: bytes) -> None:
        try:
            message = decode_message(line, MESSAGE_LIMITS)
        except MalformedError:
            return  # a server on stdio has no request to answer
        peer = self._peer
        if message.get("method") == "notifications/initialized":
            peer.subscribe(self.send)
        if message.get("method") == LISTEN and "id" in message and peer.era == MODERN:
            await self.send(peer.subscribe(self.send, message))
            return
        reply = await peer.receive(message)
        if reply is None or reply.silent:
            return
        if reply.hangs_up:
            await self._stream.aclose()
            return
        for each in reply.before:
            await self.send(each)
        await self._write(reply.raw or encode(peer.response(message, reply)))

    async def _write(self, data: bytes) -> None:
        async with self._turn:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._stream.send(data + b"\n")
