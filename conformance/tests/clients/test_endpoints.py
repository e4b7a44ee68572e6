"""Ports of scripted peers: how many connections they have at once, and how much they read of a client that floods."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketStream
from tools_search_conformance.clients.endpoints import Endpoints, open_endpoints
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import Script
from tools_search_conformance.wire.eras import MODERN, TransportName
from tools_search_conformance.wire.record import Recorder

pytestmark = pytest.mark.anyio

BOTH: tuple[TransportName, ...] = ("stdio", "http")


@asynccontextmanager
async def opened() -> AsyncGenerator[Endpoints]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            async with open_endpoints(tasks) as endpoints:
                yield endpoints
            tasks.cancel_scope.cancel()


async def until_ended(stream: SocketStream) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


@pytest.mark.parametrize("transport", BOTH)
async def test_of_too_many_connections_the_oldest_is_closed(transport: TransportName):
    async with opened() as endpoints:
        streams = [await anyio.connect_tcp("127.0.0.1", endpoints.ports[transport]) for _ in range(201)]
        await until_ended(streams[0])
        for stream in streams:
            await stream.aclose()


async def test_a_line_without_an_end_ends_its_connection():
    async with opened() as endpoints:
        peer = Peer(MODERN, Script(), Recorder("c"))
        stream = await anyio.connect_tcp("127.0.0.1", endpoints.ports["stdio"])
        async with endpoints.serving(peer, "stdio") as target, stream:
            with pytest.raises(anyio.BrokenResourceError):
                await stream.send(target["args"][-1].encode() + b"\n" + b"x" * 100_000_000)
            await until_ended(stream)


async def test_a_body_beyond_the_bounds_ends_its_connection():
    async with opened() as endpoints:
        peer = Peer(MODERN, Script(), Recorder("c"))
        stream = await anyio.connect_tcp("127.0.0.1", endpoints.ports["http"])
        async with endpoints.serving(peer, "http") as target, stream:
            path = target["url"].partition(str(endpoints.ports["http"]))[2]
            head = f"POST {path} HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 100000000\r\n\r\n"
            with pytest.raises(anyio.BrokenResourceError):
                await stream.send(head.encode() + b"x" * 100_000_000)
            await until_ended(stream)
        assert peer.exchanges == []
