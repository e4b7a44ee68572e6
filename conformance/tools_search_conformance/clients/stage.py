"""Where peers stand: an HTTP endpoint for each, and a port for relays, both on the loopback and known by a secret."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from tools_search_conformance.clients import relay
from tools_search_conformance.clients.over_http import serve_http
from tools_search_conformance.clients.over_relay import serve_relay
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.sockets import listening, serve_sockets
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.transport import TransportName

__all__ = ["Stage", "open_stage"]

_LOOPBACK: Final = "127.0.0.1"
_CONNECTIONS: Final = 200
_AT_ONCE: Final = 100


class Stage:
    """Gives every peer an address of its own."""

    def __init__(self, http_port: int, relay_port: int, peers: dict[str, Peer]) -> None:
        self._ports: dict[TransportName, int] = {"http": http_port, "stdio": relay_port}
        self._peers = peers

    @asynccontextmanager
    async def standing(
        self, peer: Peer, transport: TransportName, address: str | None = None
    ) -> AsyncGenerator[JsonObject]:
        """Have `peer` serve until the block ends, and give the target by which a driver finds it.

        Where there is an `address`, it stands where the last peer of that address stood.
        """
        token = address or secrets.token_hex(16)
        if not peer.script.absent:
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
async def open_stage(tasks: TaskGroup) -> AsyncGenerator[Stage]:
    """Listen until the block ends; what serves clients runs in `tasks`, which are then to be cancelled."""
    peers: dict[str, Peer] = {}
    room = anyio.Semaphore(_AT_ONCE)
    with listening(_LOOPBACK) as http, listening(_LOOPBACK) as relays:
        serve = partial(serve_sockets, tasks=tasks, most=_CONNECTIONS)
        tasks.start_soon(serve, http, partial(serve_http, peers=peers))
        tasks.start_soon(serve, relays, partial(serve_relay, peers=peers, room=room))
        try:
            yield Stage(http.getsockname()[1], relays.getsockname()[1], peers)
        finally:
            anyio.notify_closing(http)
            anyio.notify_closing(relays)
