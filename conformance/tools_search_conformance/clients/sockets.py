"""Connections of clients, read no faster than they are used, so that a flood of bytes fills no memory.

anyio's own socket streams read ahead for as long as data keeps coming in.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import ByteStream, TaskGroup


class SocketByteStream(ByteStream):
    """A connected socket. Nothing is received ahead of `receive`, so that the kernel slows a fast sender down."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the bytes that have come, at most `max_bytes`.

        Raises:
            anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError: nothing more will come.
        """
        while True:
            await _until_ready(anyio.wait_readable, self._socket)
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, item: bytes) -> None:
        """Send all of `item`.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError: nothing more can be sent.
        """
        rest = memoryview(item)
        while rest:
            await _until_ready(anyio.wait_writable, self._socket)
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """End the sending direction.

        Raises:
            anyio.BrokenResourceError: the connection is gone already.
        """
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the socket; tasks that wait for it get `anyio.ClosedResourceError`."""
        anyio.notify_closing(self._socket)
        self._socket.close()
        await anyio.lowlevel.checkpoint()


async def _until_ready(ready: Callable[[socket.socket], Awaitable[None]], waited_for: socket.socket) -> None:
    """Wait for a socket that another task may have closed, or closes meanwhile.

    Raises:
        anyio.ClosedResourceError: it is closed.
    """
    if waited_for.fileno() < 0:
        raise anyio.ClosedResourceError
    await ready(waited_for)


def open_listener(host: str) -> socket.socket:
    """Return a socket that listens on a free port of `host`."""
    listener = socket.create_server((host, 0))
    # Connections inherit this. A body that waits until its head is acknowledged costs 40 ms with every answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


async def serve_connections(
    listener: socket.socket, handler: Callable[[ByteStream], Awaitable[None]], tasks: TaskGroup, *, most: int
) -> None:
    """Have `handler` serve every connection in `tasks` until `listener` closes.

    Beyond `most` connections, the oldest is closed for the newest.
    """
    scopes: list[anyio.CancelScope] = []

    async def serve(stream: ByteStream, scope: anyio.CancelScope) -> None:
        with scope:
            async with stream:
                await handler(stream)
        if scope in scopes:
            scopes.remove(scope)

    while True:
        try:
            await _until_ready(anyio.wait_readable, listener)
            connected, _ = listener.accept()
        except anyio.ClosedResourceError:
            return
        except OSError:
            continue  # the client was gone before it was accepted
        scopes.append(anyio.CancelScope())
        tasks.start_soon(serve, SocketByteStream(connected), scopes[-1])
        if len(scopes) > most:
            scopes.pop(0).cancel()
