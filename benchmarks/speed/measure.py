"""Timing engines side by side on one catalogue."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final

from mcp_types import Tool

from benchmarks.bootstrap import Bounded, percentile, ratio_of_medians
from benchmarks.speed.corpus import Corpus
from benchmarks.speed.engines import ENGINES, Built

__all__ = ["BASE", "Speed", "measure"]

BASE: Final = "bm25s"
"""The engine that the others are compared with; the first one where it is not measured."""

_WARM_UP: Final = 50
_AT_A_TURN: Final = 10
_CHANGES: Final = 9


@dataclass(frozen=True)
class Speed:
    """What one engine took for one catalogue; milliseconds unless it says seconds."""

    engine: str
    tools: int
    queries: int
    """How many queries were put: all, unless the engine ran out of time."""

    p50_ms: float
    p95_ms: float
    p50: Bounded
    """The same with the bounds that other queries like these would stay in."""

    p95: Bounded
    ratio: Bounded
    """Of the medians, to `BASE`, over the queries that both were asked."""

    build_seconds: float
    change_ms: float
    """One changed tool, until it is found: the first search included. A rebuild where the engine can do no less."""


def measure(corpus: Corpus, engines: Sequence[str], *, patience: float, builds: int) -> list[Speed]:
    """Time `engines` on one corpus.

    The engines take turns at a few queries, so that whatever else the machine does meets all of them alike. The first
    queries are not counted.

    Args:
        corpus: What to search, and for what.
        engines: Keys of `ENGINES`.
        patience: Seconds of searching after which an engine is asked no more.
        builds: How often each engine is built; the median counts.

    Raises:
        ImportError: An engine is not installed.
    """
    seconds: dict[str, list[float]] = {engine: [] for engine in engines}
    built: dict[str, Built] = {}
    for engine in engines:
        ENGINES[engine](corpus.tools[:_WARM_UP])  # what is loaded once is loaded
    for _ in range(builds):
        for engine in engines:
            built.pop(engine, None)
            gc.collect()
            started = perf_counter()
            built[engine] = ENGINES[engine](corpus.tools)
            seconds[engine].append(perf_counter() - started)
    times = _search_times(built, corpus.queries, patience)
    base = times[BASE if BASE in times else engines[0]]
    return [
        _speed(engine, corpus, times[engine], base, median(seconds[engine]), _change_seconds(built[engine], corpus))
        for engine in engines
    ]


def _search_times(built: Mapping[str, Built], queries: Sequence[str], patience: float) -> Mapping[str, list[float]]:
    times: dict[str, list[float]] = {engine: [] for engine in built}
    for first in range(0, len(queries), _AT_A_TURN):
        for engine, index in built.items():
            for query in queries[first : first + _AT_A_TURN]:
                if sum(times[engine]) < patience:
                    started = perf_counter()
                    index.search(query)
                    times[engine].append(perf_counter() - started)
    return times


def _speed(
    engine: str, corpus: Corpus, times: list[float], base: list[float], build: float, change: float | None
) -> Speed:
    milliseconds = [1000 * seconds for seconds in times[_warm_up(times) :]]
    p50, p95 = percentile(milliseconds, 50), percentile(milliseconds, 95)
    both = slice(min(_warm_up(times), _warm_up(base)), min(len(times), len(base)))
    return Speed(
        engine=engine,
        tools=len(corpus.tools),
        queries=len(milliseconds),
        p50_ms=p50.value,
        p95_ms=p95.value,
        p50=p50,
        p95=p95,
        ratio=ratio_of_medians(times[both], base[both]),
        build_seconds=build,
        change_ms=1000 * (build if change is None else change),
    )


def _warm_up(times: list[float]) -> int:
    """Return how many queries do not count: an engine that ran out of time has none to lose."""
    return _WARM_UP if len(times) > 2 * _WARM_UP else 0


def _change_seconds(index: Built, corpus: Corpus) -> float | None:
    """Return what a changed tool and the next search take, less what a search takes; `None` where nothing changes."""
    change = getattr(index, "change", None)
    if change is None:
        return None
    seconds: list[float] = []
    for tool, query in zip(corpus.tools[:_CHANGES], corpus.queries, strict=False):
        started = perf_counter()
        change(_changed(tool))
        index.search(query)
        found = perf_counter()
        index.search(query)
        seconds.append((found - started) - (perf_counter() - found))
    return median(seconds)


def _changed(tool: Tool) -> Tool:
    return tool.model_copy(update={"description": f"Changed. {tool.description or ''}"})
