"""How much memory an engine takes, measured in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.speed.corpus import read_corpus
from benchmarks.speed.engines import ENGINES

__all__ = ["Memory", "memory_of"]

_QUERIES: Final = 50


@dataclass(frozen=True)
class Memory:
    """Megabytes by which a process grows; what the definitions themselves take is not counted."""

    held: float
    """Once the engine is built and has searched a little."""

    peak: float
    """At most, while it is built."""


def memory_of(engine: str, directories: Sequence[Path], size: int, *, seed: int) -> Memory:
    """Build an engine in a process of its own, and return how much memory that takes."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(_growth, (engine, directories, size, seed))


def _growth(engine: str, directories: Sequence[Path], size: int, seed: int) -> Memory:
    corpus = read_corpus(directories, size, queries=_QUERIES, seed=seed)
    # What is loaded once is not counted either.
    ENGINES[engine](corpus.tools[:_QUERIES]).search(corpus.queries[0])
    gc.collect()
    _trim()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
    before = _megabytes("VmRSS")
    built = ENGINES[engine](corpus.tools)
    peak = _megabytes("VmHWM") - before
    for query in corpus.queries:
        built.search(query)
    gc.collect()
    _trim()
    return Memory(held=_megabytes("VmRSS") - before, peak=peak)


def _trim() -> None:
    """Give back what the allocator keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)


def _megabytes(figure: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(figure))
