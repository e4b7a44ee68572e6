"""Standard error of a started server, logged line by line with the server's name."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

from tools_search_server.base.redaction import Secrets

logger = logging.getLogger(__name__)

_MAX_LOGGED_CHARS: Final = 4096
"""Characters of one line that are logged."""

_MAX_READ_BYTES: Final = 2 * _MAX_LOGGED_CHARS
"""Bytes of one line that are read: a secret that begins in the logged part has to be whole to be recognized."""

_MAX_LINES: Final = 500
"""Lines of one server that are logged in a second; one that writes without end must not keep the others waiting."""

_FLOOD_PAUSE: Final = 0.05

_LAST_WORDS_SECONDS: Final = 0.5
"""For the last words of a process that has ended; a grandchild may hold the stream open for longer."""


@asynccontextmanager
async def logged_stderr(stream: ByteReceiveStream, *, server: str, secrets: Secrets) -> AsyncGenerator[None]:
    """Log the standard error of a process, without secrets, until the block is left, its last words included."""
    log = _StderrLog(server, secrets)
    # A server that is being stopped may still write, so its stream is read until it ends or the time is over.
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
        is_cut = False  # the beginning of the present line is in the log, and the rest of it is dropped
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for received in stream:
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
                if self._left_out:
                    await anyio.sleep(_FLOOD_PAUSE)

    def flush(self) -> None:
        """Log what has not ended with a line break, and how many lines were left out."""
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
            logger.warning("%s writes too much: %d lines are left out", self._server, self._left_out, extra=extra)
        self._second_ends, self._logged, self._left_out = anyio.current_time() + 1, 0, 0
