"""A program in a terminal of its own: what it shows, what is typed, Ctrl-C as the terminal sends it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from time import monotonic

_DEADLINE = 30.0
_PROMPT = "\x1b[?2004h"
"""What is sent to a terminal whenever a line is read: from then on a paste is marked as such."""
_CURSOR = "\x1b[?25h"
"""What is sent when the line has been drawn: the cursor is shown again."""
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|\r")
_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the terminal that controls the program, so that Ctrl-C reaches it as a signal."""


class Terminal:
    """A running program and the terminal that it believes to have.

    Args:
        arguments: Of Python.
        environment: Added to this process's own.
        columns: How wide the terminal is.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], *, columns: int = 100) -> None:
        self._ours, theirs = pty.openpty()
        self._columns = 0
        self._set_columns(columns)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, sys.executable, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**_without_a_size(os.environ), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environment},
        )
        os.close(theirs)
        self.raw = ""
        """Everything that it was sent."""
        self._seen = 0

    def resize(self, columns: int) -> None:
        """Make it narrower or wider while a line is read, which redraws it."""
        if columns != self._columns:
            self._set_columns(columns)
            self.until_prompt()

    def _set_columns(self, columns: int) -> None:
        self._columns = columns
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def enter(self, line: str) -> None:
        self.type(line + "\r")

    def interrupt(self) -> None:
        self.type("\x03")

    def until(self, wanted: str) -> str:
        """Wait for a text and return what was shown since the last wait, without what is no text."""
        return _shown(self._until(wanted))

    def until_prompt(self) -> str:
        """Wait until a line is read and return what was shown since the last wait."""
        return _shown(self._until(_PROMPT) + self._until(_CURSOR))

    def until_end(self) -> tuple[int, str]:
        """Wait until the program has ended and return its exit code, and what it showed since the last wait."""
        while self._read():
            pass
        shown, self._seen = self.raw[self._seen :], len(self.raw)
        return self.process.wait(_DEADLINE), _shown(shown)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(_DEADLINE)
        os.close(self._ours)

    def _until(self, wanted: str) -> str:
        end = monotonic() + _DEADLINE
        while wanted not in self.raw[self._seen :]:
            assert self._read(end - monotonic()), f"{wanted!r} was never shown, but {self.raw[self._seen :]!r}"
        place = self.raw.index(wanted, self._seen) + len(wanted)
        shown, self._seen = self.raw[self._seen : place], place
        return shown

    def _read(self, seconds: float = _DEADLINE) -> bool:
        """Take the output since the last call; returns whether there was any."""
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # its last program has ended
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


def _without_a_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that leaves it to the terminal how wide it is, as those of test runners do not."""
    return {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}


def _shown(raw: str) -> str:
    return _SEQUENCES.sub("", raw)
