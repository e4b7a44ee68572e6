"""The processes of a started server, its descendants included, so that none of them outlives it.

A process group misses descendants with a session of their own, such as browsers and daemons. On Linux they are found
by an environment variable that they inherit, and as children of those that have it: some programs overwrite theirs.
Elsewhere nothing is found, since there is no `/proc`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio

__all__ = ["Descendants"]

_VARIABLE: Final = "TOOLS_SEARCH_STARTED"
_LOOK_SECONDS: Final = 0.01


class Descendants:
    """The processes of one server. Its environment must include `environment`."""

    def __init__(self) -> None:
        self.environment = {_VARIABLE: uuid4().hex}
        """What marks the server and what it starts."""
        self._mark = f"{_VARIABLE}={self.environment[_VARIABLE]}".encode()
        self._start_times: dict[int, bytes] = {}

    def find(self) -> None:
        """Remember the processes that run now; to be called while the server runs, and so do the parents of others."""
        with suppress(OSError):
            for process in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - a tenth of the time
                if self._mark in _read(f"/proc/{process}/environ").split(b"\0"):
                    self._remember(int(process))

    async def end(self, seconds: float) -> None:
        """End the processes that are left: by SIGTERM, and those that still run after `seconds` by SIGKILL."""
        self.find()
        _send(signal.SIGTERM, self._left())
        with anyio.move_on_after(seconds):
            while self._left():  # noqa: ASYNC110 - processes of others set no events
                await anyio.sleep(_LOOK_SECONDS)
            return
        self.find()  # processes started meanwhile
        _send(signal.SIGKILL, self._left())

    def _remember(self, pid: int) -> None:
        start = _start_time(pid)
        if start is None or self._start_times.get(pid) == start:
            return
        self._start_times[pid] = start
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                for child in _read(f"/proc/{pid}/task/{task}/children").split():
                    self._remember(int(child))

    def _left(self) -> Collection[int]:
        # The system gives the numbers of ended processes to others, which have another start time.
        return [pid for pid, start in self._start_times.items() if _start_time(pid) == start]


def _start_time(pid: int) -> bytes | None:
    """Return when a process started, in ticks since boot; `None` if it has ended."""
    _, _, fields = _read(f"/proc/{pid}/stat").rpartition(b") ")
    return None if fields[:1] in (b"", b"Z", b"X") else fields.split()[19]


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


def _send(number: signal.Signals, pids: Collection[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
