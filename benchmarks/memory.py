"""The memory that a process takes for what it builds."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Engine = TypeVar("Engine")


@dataclass(frozen=True)
class Memory:
    """Megabytes by which a process grows; what is given to an engine is not counted."""

    held: float
    """Once the engine is built and has searched a little."""

    peak: float
    """At most, while it is built."""


def memory_of(build: Callable[[], Engine], use: Callable[[Engine], object]) -> Memory | None:
    """Return by how much this process grows, or `None` where the system does not show it under `/proc`."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    _settle()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
    before = _megabytes(status, "VmRSS")
    built = build()
    peak = _megabytes(status, "VmHWM") - before
    use(built)
    _settle()
    return Memory(held=_megabytes(status, "VmRSS") - before, peak=peak)


def _settle() -> None:
    """Give back what the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _megabytes(status: Path, figure: str) -> float:
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(figure))
