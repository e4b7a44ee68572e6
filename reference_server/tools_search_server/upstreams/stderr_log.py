"""What a started server writes to its standard error: line by line and with its name, in the log of this program."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

from tools_search_server.base.redaction import Secrets

logger = logging.getLogger(__name__)

_MAX_LINE_BYTES: Final = 4096
"""What is logged of one line."""

_READ_LINE_BYTES: Final = 2 * _MAX_LINE_BYTES
"""What is read of one line: a secret that begins in what is logged has to be whole to be known for one."""

_MAX_LINES: Final = 500
"""What is logged of one server in a second; one that writes without end must not keep the others waiting."""

_FLOOD_PAUSE: Final = 0.05

_LAST_WORDS_SECONDS: Final = 0.5
"""For the last words of a process that has ended; a grandchild may hold the stream open for longer."""


@asynccontextmanager
async def passed_on(stream: ByteReceiveStream, *, server: str, secrets: Secrets) -> AsyncGenerator[None]:
    """Log the standard error of a process until the block is left, the last words included.

    Args:
        stream: Where it comes from.
        server: The server's name.
        secrets: What is not to be logged.
    """
    words = _Words(stream, server, secrets)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(words.pass_on)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await words.finish(_LAST_WORDS_SECONDS)


class _Words:
    """The standard error of one process."""

    def __init__(self, stream: ByteReceiveStream, server: str, secrets: Secrets) -> None:
        self._stream = stream
        self._server = server
        self._secrets = secrets
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._second_ends = 0.0
        self._told = 0
        self._left_out = 0

    async def pass_on(self) -> None:
        """Log each line until the stream ends or `finish` is called: a server that is being stopped still speaks."""
        buffer, is_cut = b"", False
        with self._scope, suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                buffer += await self._stream.receive(65_536)
                *lines, buffer = buffer.split(b"\n")
                if is_cut and lines:  # the rest of a line whose beginning is in the log
                    lines, is_cut = lines[1:], False
                if is_cut:
                    buffer = b""
                elif len(buffer) > _READ_LINE_BYTES:
                    lines.append(buffer)
                    buffer, is_cut = b"", True
                for line in lines:
                    self._tell(line)
                if self._left_out:
                    await anyio.sleep(_FLOOD_PAUSE)
        self._tell(b"" if is_cut else buffer)
        self._begin_second()
        self._ended.set()

    async def finish(self, seconds: float) -> None:
        """Wait for the end of the stream, but no longer than `seconds`."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()
        self._scope.cancel()

    def _tell(self, line: bytes) -> None:
        if anyio.current_time() >= self._second_ends:
            self._begin_second()
        if self._told == _MAX_LINES:
            self._left_out += 1
            return
        self._told += 1
        text = self._secrets.masked(line[:_READ_LINE_BYTES].decode("utf-8", "replace"))[:_MAX_LINE_BYTES]
        if shown := "".join(char if char.isprintable() else " " for char in text).rstrip():
            logger.info("%s: %s", self._server, shown, extra={"server": self._server})

    def _begin_second(self) -> None:
        if self._left_out:
            extra = {"server": self._server}
            logger.warning("%s writes too much: %d lines are left out", self._server, self._left_out, extra=extra)
        self._second_ends, self._told, self._left_out = anyio.current_time() + 1, 0, 0
