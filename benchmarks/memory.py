"""Measures the memory that a process needs for an engine."""

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
    """A process's growth in megabytes, without the engine's input."""

    held: float
    """After the engine is built and has done a few searches."""

    peak: float
    """The peak during the build."""


def memory_of(build: Callable[[], Engine], use: Callable[[Engine], object]) -> Memory | None:
    """Return how much this process grows, or `None` if the system does not report it under `/proc`."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    _settle()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    before = _megabytes(status, "VmRSS")
    built = build()
    peak = _megabytes(status, "VmHWM") - before
    use(built)
    _settle()
    return Memory(held=_megabytes(status, "VmRSS") - before, peak=peak)


def _settle() -> None:
    """Return memory that the allocator holds back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _megabytes(status: Path, figure: str) -> float:
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(figure))
