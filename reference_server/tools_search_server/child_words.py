"""What a started server writes to its standard error: line by line and with its name, in the log of this program."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

__all__ = ["ChildWords"]

logger = logging.getLogger(__name__)

_MAX_LINE_BYTES: Final = 4096
"""What is kept of one line."""

_MAX_LINES: Final = 500
"""What is logged of one server in a second; one that writes without end must not keep the others waiting."""

_FLOOD_PAUSE: Final = 0.05


class ChildWords:
    """Passes on the standard error of one process.

    Args:
        stream: Where it comes from.
        server: The server's name.
    """

    def __init__(self, stream: ByteReceiveStream, server: str) -> None:
        self._stream = stream
        self._server = server
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._second_ends = 0.0
        self._told = 0
        self._left_out = 0

    async def pass_on(self) -> None:
        """Log each line until the stream ends or `finish` is called: a server that is being stopped still speaks."""
        buffer = b""
        with self._scope, suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                buffer += await self._stream.receive(65_536)
                *lines, buffer = buffer.split(b"\n")
                if len(buffer) > _MAX_LINE_BYTES:
                    lines.append(buffer)
                    buffer = b""
                for line in lines:
                    self._tell(line)
                if self._left_out:
                    await anyio.sleep(_FLOOD_PAUSE)
        self._tell(buffer)
        self._begin_second()
        self._ended.set()

    async def finish(self, seconds: float) -> None:
        """Wait for the last words of a process that has ended; a grandchild may hold the stream open for longer."""
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
        text = line[:_MAX_LINE_BYTES].decode("utf-8", "replace")
        if shown := "".join(char if char.isprintable() else " " for char in text).rstrip():
            logger.info("%s: %s", self._server, shown, extra={"server": self._server})

    def _begin_second(self) -> None:
        if self._left_out:
            extra = {"server": self._server}
            logger.warning("%s writes too much: %d lines are left out", self._server, self._left_out, extra=extra)
        self._second_ends, self._told, self._left_out = anyio.current_time() + 1, 0, 0
