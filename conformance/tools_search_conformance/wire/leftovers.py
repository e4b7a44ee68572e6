"""What a target has started and its process group does not hold: found by a mark in its environment."""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["MARK", "end_leftovers", "new_mark"]

MARK: Final = "TOOLS_SEARCH_CONFORMANCE_TARGET"
"""The variable that every process of one target inherits."""

_PROCESSES: Final = Path("/proc")
_ROUNDS: Final = 5
"""How often to look: what is found may have started another one meanwhile."""


def new_mark() -> str:
    """Return a value that no other target has."""
    return secrets.token_hex(8)


def end_leftovers(mark: str) -> None:
    """Kill every process that was started with `mark`; where the system does not show environments, none is found."""
    for _ in range(_ROUNDS):
        found = _marked(f"{MARK}={mark}".encode())
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(entry: bytes) -> list[int]:
    if not _PROCESSES.is_dir():
        return []
    return [int(folder.name) for folder in _PROCESSES.iterdir() if folder.name.isdigit() and _has(folder, entry)]


def _has(folder: Path, entry: bytes) -> bool:
    with suppress(OSError):  # it has ended, or is another user's
        return entry in (folder / "environ").read_bytes().split(b"\0")
    return False
