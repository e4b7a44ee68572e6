"""A started server's last lines of standard error, kept for error messages."""

from __future__ import annotations

import os
import select
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Final, TextIO

_TAIL_BYTES: Final = 4096
_TAIL_LINES: Final = 3
_PIPE_BYTES: Final = 1024 * 1024
"""Larger than a pipe's buffer, so that one read empties it."""


class Diagnostics:
    """A pipe for a process to write to, of which only the last lines are kept.

    It is a pipe, not a file, because a server that logs endlessly would fill the disk.
    """

    def __init__(self, reading: int, file: TextIO) -> None:
        self.file = file
        self._reading = reading
        self._is_open = True
        self._has_stray = False
        self._tail = b""
        self._lock = Lock()
        os.set_blocking(reading, False)

    def last_lines(self) -> str:
        """Return the last few lines, joined into one; empty if nothing was written."""
        with self._lock:
            if self._is_open:  # include what is still in the pipe, in case the other thread has not read it yet
                self._read()
            text = self._tail.decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(dict.fromkeys(lines[-_TAIL_LINES:]))

    def quotation(self) -> str:
        """Return a suffix for an error message with the server's last lines, or an empty string."""
        said = self.last_lines()
        return f"; it last said: {said}" if said else ""

    def note(self, text: str) -> None:
        """Add a line from the client."""
        self.file.write(f"{text}\n")
        self.file.flush()

    def forget(self) -> None:
        """Drop the lines so far, because they no longer explain what fails next."""
        with self._lock:
            if self._is_open:
                self._read()
            self._tail = b""

    def note_stray(self, line: str) -> None:
        """Keep the first line on standard output that is not a message, because no message might ever follow."""
        if not self._has_stray:
            self._has_stray = True
            self.note(f"{line} (on standard output, which is only for messages)")

    def follow(self) -> None:
        """Read until the pipe is closed. Run it in its own thread, because a full pipe would block the server."""
        readable = select.poll()
        readable.register(self._reading, select.POLLIN)
        while self._is_open:
            readable.poll()  # without the lock, so that `last_lines` does not wait for the server
            with self._lock:
                self._is_open = self._read()
        os.close(self._reading)

    def _read(self) -> bool:
        """Read what is in the pipe, and return whether there might be more."""
        try:
            chunk = os.read(self._reading, _PIPE_BYTES)
        except BlockingIOError:
            return True
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        return bool(chunk)


@contextmanager
def kept_diagnostics() -> Generator[Diagnostics]:
    """Open a pipe for diagnostics; its last lines can still be read after the block."""
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a descriptor, not a path
        diagnostics = Diagnostics(reading, file)
        Thread(target=diagnostics.follow, name="diagnostics", daemon=True).start()
        yield diagnostics
