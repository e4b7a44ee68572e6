"""What a started server wrote to its standard error, kept for the moment when it fails."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

__all__ = ["Diagnostics", "kept_diagnostics"]

_TAIL_BYTES: Final = 4096
_TAIL_LINES: Final = 3


class Diagnostics:
    """A file for a process to write to, and its last lines for people to read."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def last_lines(self) -> str:
        """Return the last few lines on one line, empty where nothing was written.

        The file's position belongs to the process as well, so it is left alone.
        """
        descriptor = self.file.fileno()
        start = max(0, os.fstat(descriptor).st_size - _TAIL_BYTES)
        text = os.pread(descriptor, _TAIL_BYTES, start).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(dict.fromkeys(lines[-_TAIL_LINES:]))


@contextmanager
def kept_diagnostics() -> Generator[Diagnostics]:
    """Offer a place for diagnostics that is gone when the block ends."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        yield Diagnostics(file)
