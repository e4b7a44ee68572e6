"""How much memory an engine takes, measured in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.speed.corpus import read_corpus
from benchmarks.speed.engines import ENGINES

__all__ = ["megabytes"]

_QUERIES: Final = 50


def megabytes(engine: str, directories: Sequence[Path], size: int, *, seed: int) -> float:
    """Return by how much the memory of a process grows when it builds an engine and searches a little.

    What the definitions themselves take is not counted.
    """
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(_growth, (engine, directories, size, seed))


def _growth(engine: str, directories: Sequence[Path], size: int, seed: int) -> float:
    corpus = read_corpus(directories, size, queries=_QUERIES, seed=seed)
    # What is loaded once is not counted either.
    ENGINES[engine](corpus.tools[:_QUERIES]).search(corpus.queries[0])
    before = _resident()
    built = ENGINES[engine](corpus.tools)
    for query in corpus.queries:
        built.search(query)
    return _resident() - before


def _resident() -> float:
    """Return the memory of this process that is in use, without what the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (line,) = (line for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if "VmRSS" in line)
    return int(line.split()[1]) / 1024
