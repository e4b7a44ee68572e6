"""The last lines that a started server wrote to its standard error, kept for the moment when it fails."""

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
"""More than a pipe holds, so that one reading empties it."""


class Diagnostics:
    """A pipe for a process to write to, and the last lines of it for people to read.

    A pipe rather than a file, and only its end is kept: a server that complains without pause would fill the disk.
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
        """Return the last few lines on one line, empty where nothing was written."""
        with self._lock:
            if self._is_open:  # what is in the pipe already counts, whether the other thread has seen it or not
                self._read()
            text = self._tail.decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(dict.fromkeys(lines[-_TAIL_LINES:]))

    def quotation(self) -> str:
        """Return an appendix for an error: the server's last lines, or nothing."""
        said = self.last_lines()
        return f"; it last said: {said}" if said else ""

    def note(self, text: str) -> None:
        """Add a line of the client's own."""
        self.file.write(f"{text}\n")
        self.file.flush()

    def note_stray(self, line: str) -> None:
        """Keep the first line on standard output that is no message; there may never be a message."""
        if not self._has_stray:
            self._has_stray = True
            self.note(f"{line} (on standard output, where only messages belong)")

    def follow(self) -> None:
        """Read until nobody writes any more; for a thread of its own, since a full pipe would halt the server."""
        readable = select.poll()
        readable.register(self._reading, select.POLLIN)
        while self._is_open:
            readable.poll()
            with self._lock:
                self._is_open = self._read()
        os.close(self._reading)

    def _read(self) -> bool:
        """Take in what the pipe holds, and return whether there may be more."""
        try:
            chunk = os.read(self._reading, _PIPE_BYTES)
        except BlockingIOError:
            return True
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        return bool(chunk)


@contextmanager
def kept_diagnostics() -> Generator[Diagnostics]:
    """Offer a place for diagnostics; what it holds can be read after the block as well."""
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a descriptor, not a path
        diagnostics = Diagnostics(reading, file)
        Thread(target=diagnostics.follow, name="diagnostics", daemon=True).start()
        yield diagnostics
