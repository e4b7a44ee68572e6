"""Connections of clients, read no faster than they are used: whoever floods a peer fills no memory of the suite."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import ByteStream, TaskGroup

__all__ = ["SocketByteStream", "listening", "serve_sockets"]


class SocketByteStream(ByteStream):
    """One connected socket. Nothing is received ahead of `receive`, so that the kernel holds a fast sender up."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return what has come, at most `max_bytes` of it.

        Raises:
            anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError: nothing comes any more.
        """
        while True:
            await _until(anyio.wait_readable, self._socket)
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
            anyio.BrokenResourceError, anyio.ClosedResourceError: nothing can be sent any more.
        """
        rest = memoryview(item)
        while rest:
            await _until(anyio.wait_writable, self._socket)
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Say that nothing more will be sent.

        Raises:
            anyio.BrokenResourceError: the connection is gone already.
        """
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the socket; whoever waits for it learns of that."""
        anyio.notify_closing(self._socket)
        self._socket.close()
        await anyio.lowlevel.checkpoint()


async def _until(ready: Callable[[socket.socket], Awaitable[None]], waited_for: socket.socket) -> None:
    """Wait for a socket that somebody else may have closed before, or closes meanwhile.

    Raises:
        anyio.ClosedResourceError: it is closed.
    """
    if waited_for.fileno() < 0:
        raise anyio.ClosedResourceError
    await ready(waited_for)


def listening(host: str) -> socket.socket:
    """Return a socket that listens on a free port of `host`.

    Its connections send at once: a body that waits until its head is acknowledged costs 40 ms with every answer.
    """
    listener = socket.create_server((host, 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # which connections inherit
    listener.setblocking(False)
    return listener


async def serve_sockets(
    listener: socket.socket, handler: Callable[[ByteStream], Awaitable[None]], tasks: TaskGroup, *, most: int
) -> None:
    """Have `handler` serve every connection in `tasks` until `listener` closes.

    Beyond `most` connections, the oldest is closed for the newest.
    """
    held: list[anyio.CancelScope] = []

    async def serve(stream: ByteStream, scope: anyio.CancelScope) -> None:
        with scope:
            async with stream:
                await handler(stream)
        if scope in held:
            held.remove(scope)

    while True:
        try:
            await _until(anyio.wait_readable, listener)
            connected, _ = listener.accept()
        except anyio.ClosedResourceError:
            return
        except OSError:
            continue  # it was gone before it was accepted
        held.append(anyio.CancelScope())
        tasks.start_soon(serve, SocketByteStream(connected), held[-1])
        if len(held) > most:
            held.pop(0).cancel()
