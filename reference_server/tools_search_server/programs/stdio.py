"""Standard input and output as the transport of one MCP connection.

* Reading and writing wait for readiness instead of blocking in a thread, so a shutdown never waits for a host that
  sends or reads nothing.
* While the transport is open, descriptor 0 reads nothing and descriptor 1 writes to standard error, so the output of a
  library or a child process never gets between two messages.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio
import anyio.lowlevel

_CHUNK: Final = 65_536

_PIPE_CHUNK: Final = 4096
"""PIPE_BUF: the bytes that a ready pipe accepts without blocking."""


async def input_lines(descriptor: int) -> AsyncGenerator[str]:
    """Yield a descriptor's lines, decoded as UTF-8. Invalid bytes become replacement characters."""
    buffer, chunk = bytearray(), b"\n"
    while chunk:
        await _ready(anyio.wait_readable, descriptor)
        chunk, searched = os.read(descriptor, _CHUNK), len(buffer)
        buffer += chunk or b"\n"  # the last line may have no line break
        while (end := buffer.find(b"\n", searched)) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            searched = 0
            yield line.decode("utf-8", "replace")


class OutputText:
    """An unbuffered text stream to a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Write all of `text`.

        Raises:
            BrokenPipeError: The reader has closed its end.
        """
        rest = memoryview(text.encode())
        is_ready = bool(self._poll.poll(0))  # there is usually room for everything: this saves an event loop iteration
        while rest:
            if not is_ready:
                await _ready(anyio.wait_writable, self._descriptor)
            # Never more than fits: the descriptor blocks, and with it every other task.
            rest = rest[os.write(self._descriptor, rest[: _room(self._descriptor)]) :]
            is_ready = False

    async def flush(self) -> None:
        """Do nothing: `write` does not buffer."""


@contextmanager
def standard_streams() -> Generator[tuple[AsyncGenerator[str], OutputText]]:
    """Reserve standard input and output for the transport until the context ends."""
    # The transport gets private copies, which no library knows and no child process inherits.
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield input_lines(incoming), OutputText(outgoing)
    finally:
        for private, public in ((incoming, 0), (outgoing, 1)):
            os.dup2(private, public)
            os.close(private)


def _room(descriptor: int) -> int:
    """Return how many bytes a ready descriptor accepts without blocking. An empty pipe accepts its full capacity."""
    if sys.platform != "linux":
        return _PIPE_CHUNK
    unread = array("i", [0])
    try:
        size = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
        fcntl.ioctl(descriptor, termios.FIONREAD, unread)
    except OSError:  # not a pipe
        return _PIPE_CHUNK
    return _PIPE_CHUNK if unread[0] else size


async def _ready(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except PermissionError:  # a regular file: always ready, but pollers do not accept it
        await anyio.lowlevel.checkpoint()
