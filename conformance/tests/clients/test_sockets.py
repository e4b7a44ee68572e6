"""Sockets of clients: errors of byte streams for everything that happens to a connection, and their number."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial

import anyio
import pytest
from anyio.abc import ByteStream
from tools_search_conformance.clients.sockets import SocketByteStream, open_listener, serve_connections

pytestmark = pytest.mark.anyio


async def test_a_task_that_waits_for_a_socket_gets_an_error_when_it_is_closed():
    near, far = socket.socketpair()
    stream, events = SocketByteStream(near), list[str]()

    async def wait() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        events.append("closed")

    with far, anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
    assert events == ["closed"]


async def test_a_closed_socket_can_be_neither_read_nor_written_nor_ended():
    near, far = socket.socketpair()
    stream = SocketByteStream(near)
    with far:
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"late")
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send_eof()


def test_an_answer_in_two_parts_does_not_wait_between_them():
    with open_listener("127.0.0.1") as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_of_too_many_connections_the_oldest_is_closed():
    async def wait(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(20), open_listener("127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_connections, listener, wait, tasks, most=2))
            port = listener.getsockname()[1]
            streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(3)]
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await streams[0].receive()
            for stream in streams:
                await stream.aclose()
            tasks.cancel_scope.cancel()


async def test_a_socket_carries_bytes_both_ways_until_it_ends():
    async def echo(stream: ByteStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.send(await stream.receive(7))

    with anyio.fail_after(20), open_listener("127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_connections, listener, echo, tasks, most=2))
            async with await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1]) as stream:
                await stream.send(b"more than seven bytes")
                received = b""
                while len(received) < 21:
                    received += await stream.receive()
                assert received == b"more than seven bytes"
            tasks.cancel_scope.cancel()


async def test_a_socket_that_was_closed_here_raises_closed_errors():
    ours, theirs = socket.socketpair()
    with theirs:
        stream = SocketByteStream(ours)
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"too late")
