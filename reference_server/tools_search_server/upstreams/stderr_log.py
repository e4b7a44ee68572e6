"""Logs the standard error of a child process line by line, with the server's name."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream
from tools_search_hosts.counts import number_of

from tools_search_server.base.redaction import Secrets

logger = logging.getLogger(__name__)

_MAX_LOGGED_CHARS: Final = 4096
"""Maximum characters of a line to log."""

_MAX_READ_BYTES: Final = 2 * _MAX_LOGGED_CHARS
"""Maximum bytes of a line to read. A secret that starts in the logged part must be complete to be recognized."""

_MAX_LINES: Final = 500
"""Maximum lines of one server to log per second, so that a server that writes endlessly does not block others."""

_FLOOD_PAUSE: Final = 0.05

_LAST_WORDS_SECONDS: Final = 0.5
"""Time to read the final output of a process that has ended, as a grandchild may keep the stream open for longer."""


@asynccontextmanager
async def logged_stderr(stream: ByteReceiveStream, *, server: str, secrets: Secrets) -> AsyncGenerator[None]:
    """Log a process's standard error, with secrets masked, until the context ends, including its final output."""
    log = _StderrLog(server, secrets)
    # A server may still write while it is being stopped, so read its stream until it ends or the time is up.
    reading = anyio.CancelScope(shield=True)

    async def read() -> None:
        with reading:
            await log.read(stream)
        log.flush()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        try:
            yield
        finally:
            # The shield lets it read on although the connection's tasks are cancelled; the deadline ends that.
            reading.deadline = anyio.current_time() + _LAST_WORDS_SECONDS


class _StderrLog:
    def __init__(self, server: str, secrets: Secrets) -> None:
        self._server = server
        self._secrets = secrets
        self._rest = b""
        self._second_ends = 0.0
        self._logged = 0
        self._left_out = 0

    async def read(self, stream: ByteReceiveStream) -> None:
        is_cut = False  # whether the start of the current line has been logged, and the rest is dropped
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for received in stream:
                # At most `_MAX_READ_BYTES` of a line are kept, however long it gets.
                *lines, self._rest = (self._rest + received).split(b"\n")
                if is_cut and lines:
                    lines, is_cut = lines[1:], False
                if not is_cut and len(self._rest) > _MAX_READ_BYTES:
                    lines.append(self._rest)
                    is_cut = True
                if is_cut:
                    self._rest = b""
                for line in lines:
                    self._log(line)
                # So that a flood keeps no other task waiting.
                if self._left_out:
                    await anyio.sleep(_FLOOD_PAUSE)

    def flush(self) -> None:
        """Log the last line if it has no line break, and the number of omitted lines."""
        self._log(self._rest)
        self._begin_second()

    def _log(self, line: bytes) -> None:
        if anyio.current_time() >= self._second_ends:
            self._begin_second()
        if self._logged == _MAX_LINES:
            self._left_out += 1
            return
        self._logged += 1
        text = self._secrets.masked(line[:_MAX_READ_BYTES].decode("utf-8", "replace"))[:_MAX_LOGGED_CHARS]
        if shown := "".join(char if char.isprintable() else " " for char in text).rstrip():
            logger.info("%s: %s", self._server, shown, extra={"server": self._server})

    def _begin_second(self) -> None:
        if self._left_out:
            extra = {"server": self._server}
            lines = number_of(self._left_out, "line")
            logger.warning("%s writes too much: %s left out", self._server, lines, extra=extra)
        self._second_ends, self._logged, self._left_out = anyio.current_time() + 1, 0, 0
