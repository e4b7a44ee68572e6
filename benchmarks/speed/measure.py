"""Times engines on one catalog, each in its own process.

In one process, engines would affect each other: the garbage collector traverses all of their objects whenever one
allocates, so engines with millions of objects slow down those with few. The processes take turns, so only one works at
any time. Every second turn is in reverse order, so that no engine always follows the same one.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.bootstrap import Estimate, percentile, ratio_of_medians
from benchmarks.memory import Memory, memory_of
from benchmarks.speed.corpus import Corpus, read_corpus
from benchmarks.speed.engines import ENGINES, ENVIRONMENTS, Built

_BASES: Final = ("bm25s", "bm25s, no AVX-512")
"""Candidates for the baseline: the fastest measured one, or else the first engine."""

_TURN: Final = 50
"""Queries per turn; those in the first turn do not count."""

_REFILL: Final = 3
"""Uncounted queries before each turn, which bring the engine back into the processor's caches."""

_CHANGES: Final = 9


@dataclass(frozen=True)
class Speed:
    """An engine's figures for a catalog."""

    engine: str
    tools: int
    queries: int
    """Number of queries run: all, unless the engine ran out of time."""

    p50: Estimate
    """Milliseconds per query."""

    p95: Estimate
    ratio: Estimate
    """The ratio of the median to that of the engine from `base_of`, over the queries that both ran."""

    build_seconds: float
    change_ms: float
    """Milliseconds from a tool's change through the first search that finds it; includes a rebuild if the engine needs
    one.
    """

    memory_mb: Memory | None
    """`None` if the system does not report it under `/proc`."""


def measure(
    directories: Sequence[Path],
    size: int,
    engines: Sequence[str],
    *,
    queries: int,
    patience: float,
    builds: int,
    seed: int,
) -> list[Speed]:
    """Time `engines` on one corpus.

    Args:
        directories: The datasets for the corpus.
        size: Number of tools.
        engines: Keys of `ENGINES`.
        queries: Number of queries; those in the first turn are not counted.
        patience: Maximum seconds of searching per engine.
        builds: Number of builds per engine; the median counts.
        seed: Equal seeds give equal corpora.

    Raises:
        ImportError: An engine is not installed.
    """
    with ExitStack() as running:
        processes: dict[str, ProcessPoolExecutor] = {}
        memory: dict[str, Memory | None] = {}
        for engine in engines:
            arguments = (engine, directories, size, queries, seed)
            process = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_load, initargs=arguments)
            processes[engine] = running.enter_context(process)
            with _variables(ENVIRONMENTS.get(engine, {})):
                memory[engine] = process.submit(_measure_memory).result()  # the first task starts the process
        built: dict[str, list[float]] = {engine: [] for engine in engines}
        for turn in range(builds):
            for engine in _in_turn(engines, turn):
                built[engine].append(processes[engine].submit(_build).result())
        times: dict[str, list[float]] = {engine: [] for engine in engines}
        for turn, first in enumerate(range(0, queries, _TURN)):
            for engine in _in_turn(engines, turn):
                left = patience - sum(times[engine])
                if left > 0:
                    times[engine] += processes[engine].submit(_search, first, left).result()
        changes = {engine: process.submit(_change).result() for engine, process in processes.items()}
    base = times[base_of({engine: median(own) for engine, own in times.items()})]
    speeds: list[Speed] = []
    for engine, own in times.items():
        milliseconds = [1000 * seconds for seconds in own[_warm_up(own) :]]
        both = slice(min(_warm_up(own), _warm_up(base)), min(len(own), len(base)))
        build, change = median(built[engine]), changes[engine]
        speeds.append(
            Speed(
                engine=engine,
                tools=size,
                queries=len(milliseconds),
                p50=percentile(milliseconds, 50),
                p95=percentile(milliseconds, 95),
                ratio=ratio_of_medians(own[both], base[both]),
                build_seconds=build,
                change_ms=1000 * (build if change is None else change),
                memory_mb=memory[engine],
            )
        )
    return speeds


def base_of(medians: Mapping[str, float]) -> str:
    """Return the engine to compare the others with, given each one's median."""
    return min((engine for engine in _BASES if engine in medians), key=medians.__getitem__, default=next(iter(medians)))


@contextmanager
def _variables(added: Mapping[str, str]) -> Generator[None]:
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _in_turn(engines: Sequence[str], turn: int) -> Sequence[str]:
    return engines if turn % 2 == 0 else engines[::-1]


def _warm_up(times: list[float]) -> int:
    """Return how many queries to discard: none for an engine that ran out of time."""
    return _TURN if len(times) > 2 * _TURN else 0


# The following runs in an engine's process, which holds one corpus and one index.


@dataclass
class _EngineState:
    engine: str
    corpus: Corpus
    built: Built


_state: _EngineState


def _load(engine: str, directories: Sequence[Path], size: int, queries: int, seed: int) -> None:
    global _state  # this process's state
    corpus = read_corpus(directories, size, queries=queries, seed=seed)
    built = ENGINES[engine](corpus.tools[:_TURN])
    built.search(corpus.queries[0])  # one-time loading is done
    _state = _EngineState(engine, corpus, built)


def _build() -> float:
    del _state.built
    gc.collect()
    started = perf_counter()
    _state.built = ENGINES[_state.engine](_state.corpus.tools)
    return perf_counter() - started


def _measure_memory() -> Memory | None:
    return memory_of(lambda: ENGINES[_state.engine](_state.corpus.tools), _search_a_little)


def _search_a_little(built: Built) -> None:
    for query in _state.corpus.queries[:_TURN]:
        built.search(query)


def _search(first: int, seconds: float) -> list[float]:
    """Return the seconds of each query in a turn, up to the one that exceeds `seconds`."""
    queries = _state.corpus.queries[first : first + _TURN]
    for query in _state.corpus.queries[-_REFILL:]:
        _state.built.search(query)
    times: list[float] = []
    for query in queries:
        if sum(times) >= seconds:
            break
        started = perf_counter()
        _state.built.search(query)
        times.append(perf_counter() - started)
    return times


def _change() -> float | None:
    """Return the seconds for a changed tool and the next search, minus a search; `None` if nothing changes."""
    change = getattr(_state.built, "change", None)
    if change is None:
        return None
    seconds: list[float] = []
    for tool, query in zip(_state.corpus.tools[:_CHANGES], _state.corpus.queries, strict=False):
        started = perf_counter()
        change(tool.model_copy(update={"description": f"Changed. {tool.description or ''}"}))
        _state.built.search(query)
        found = perf_counter()
        _state.built.search(query)
        seconds.append((found - started) - (perf_counter() - found))
    return median(seconds)
