"""Running a ranking over a dataset, as a server would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from time import perf_counter

from mcp_ext_tools_search.ranking import Ranker
from tools_search_ranking import floored

from benchmarks.bootstrap import Estimate, estimate
from benchmarks.retrieval.datasets import Dataset, Query
from benchmarks.retrieval.metrics import DEPTH, Quality, mean_quality, quality

__all__ = ["Answer", "Measurement", "measure"]


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
