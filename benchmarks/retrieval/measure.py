"""The quality of a ranking over a data set: metrics, and the run that yields them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from math import log2
from statistics import fmean, median, quantiles
from time import perf_counter
from typing import Final

from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import floored

from benchmarks.bootstrap import Estimate, estimate
from benchmarks.retrieval.datasets import Dataset, Query

DEPTH: Final = 10
"""Places of a list that are looked at."""


@dataclass(frozen=True)
class Quality:
    """Figures in [0, 1]; 1 is best."""

    ndcg_at_10: float
    """Discounted cumulative gain over that of the best list (Järvelin and Kekäläinen, 2002)."""

    recall_at_1: float
    recall_at_5: float
    recall_at_10: float
    reciprocal_rank: float
    """1 / place of the first right tool within the depth, or 0."""


def quality(ranked: Sequence[str], relevant: Collection[str]) -> Quality:
    """Judge `ranked`, best first, by the `relevant` ids, of which there is at least one."""
    wanted = frozenset(relevant)
    places = [place for place, tool in enumerate(ranked[:DEPTH], start=1) if tool in wanted]
    best = range(1, min(DEPTH, len(wanted)) + 1)
    recall = {depth: sum(place <= depth for place in places) / len(wanted) for depth in (1, 5, DEPTH)}
    return Quality(
        ndcg_at_10=_gain(places) / _gain(best),
        recall_at_1=recall[1],
        recall_at_5=recall[5],
        recall_at_10=recall[DEPTH],
        reciprocal_rank=1 / places[0] if places else 0.0,
    )


def mean_quality(qualities: Sequence[Quality]) -> Quality:
    """Return the mean of each figure; of nothing, zeros."""
    columns = zip(*map(astuple, qualities), strict=True)
    return Quality(*map(fmean, columns)) if qualities else Quality(0.0, 0.0, 0.0, 0.0, 0.0)


def _gain(places: Sequence[int]) -> float:
    return sum(1 / log2(place + 1) for place in places)


@dataclass(frozen=True)
class Answer:
    """What one query got."""

    query: Query
    ranked: Sequence[str]
    """Ids of the tools found, best first, as far down as was asked for."""

    seconds: float


@dataclass(frozen=True)
class Measurement:
    """What a ranking made of one dataset."""

    dataset: str
    tools: int
    queries: int
    """Those that a tool serves."""

    quality: Quality
    ndcg: Estimate
    """The first figure of `quality`, with its bounds."""

    unservable: int
    """Queries that no tool serves."""

    silent: float
    """Part of them that was answered with nothing."""

    build_seconds: float
    p50_ms: float
    p95_ms: float
    answers: Sequence[Answer]


def measure(dataset: Dataset, ranker: Ranker, *, depth: int = DEPTH, has_floor: bool = True) -> Measurement:
    """Index the catalog with `ranker`, by default with the draft's matching floor, and put every query to it.

    The time of a query is that of the search and of the first `depth` hits, which make a page.
    """
    started = perf_counter()
    index = (floored(ranker) if has_floor else ranker)(dataset.tools)
    built = perf_counter() - started
    answers: list[Answer] = []
    for query in dataset.queries:
        started = perf_counter()
        page = index.search(query.query)[:depth]
        seconds = perf_counter() - started
        answers.append(Answer(query, [dataset.ids[hit.name] for hit in page], seconds))
    served = [answer for answer in answers if answer.query.relevant]
    qualities = [quality(answer.ranked, answer.query.relevant) for answer in served]
    silent = [not answer.ranked for answer in answers if not answer.query.relevant]
    milliseconds = [answer.seconds * 1000 for answer in answers]
    return Measurement(
        dataset=dataset.name,
        tools=len(dataset.tools),
        queries=len(served),
        quality=mean_quality(qualities),
        ndcg=estimate([one.ndcg_at_10 for one in qualities] or [0.0]),
        unservable=len(silent),
        silent=fmean(silent) if silent else 0.0,
        build_seconds=built,
        p50_ms=median(milliseconds or [0.0]),
        p95_ms=quantiles(milliseconds, n=20)[-1] if len(milliseconds) > 1 else sum(milliseconds),
        answers=answers,
    )
