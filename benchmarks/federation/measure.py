"""How good and how quick each order is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.bootstrap import Estimate, estimate
from benchmarks.federation.orders import ORDERS, SHIPPED
from benchmarks.federation.servers import Servers
from benchmarks.retrieval.datasets import Query
from benchmarks.retrieval.metrics import DEPTH, Quality, mean_quality, quality

__all__ = ["ONE_INDEX", "Measurement", "measure"]

ONE_INDEX: Final = "one index of all tools"


@dataclass(frozen=True)
class Measurement:
    """What one order came to over all queries."""

    order: str
    queries: int
    quality: Quality
    more: Estimate
    """By how much its nDCG@10 is more than that of the client's order, request by request."""

    p50_ms: float
    """Of making the order; the searches of the servers are not counted, except that of the one index."""


def measure(servers: Servers, queries: Sequence[Query], *, informed: bool = False) -> Sequence[Measurement]:
    """Put every query, of which there is at least one, to the servers, and order what they find in every way.

    Servers that are `informed` put what is labelled as right first among what they find: they understand a request
    better than any ranking of its words, and nothing but their ranks tells.
    """
    qualities: dict[str, list[Quality]] = {name: [] for name in (*ORDERS, ONE_INDEX)}
    seconds: dict[str, list[float]] = {name: [] for name in qualities}

    def judge(order: str, ranked: Sequence[str], query: Query, started: float) -> None:
        seconds[order].append(perf_counter() - started)
        qualities[order].append(quality([servers.ids[name] for name in ranked], query.relevant))

    for query in queries:
        answers = servers.search(query.query, limit=DEPTH, known=query.relevant if informed else ())
        for name, order in ORDERS.items():
            started = perf_counter()
            judge(name, order(query.query, answers, DEPTH), query, started)
        started = perf_counter()
        judge(ONE_INDEX, servers.search_one_index(query.query, limit=DEPTH), query, started)
    return [
        Measurement(
            order=name,
            queries=len(own),
            quality=mean_quality(own),
            more=estimate([a.ndcg_at_10 - b.ndcg_at_10 for a, b in zip(own, qualities[SHIPPED], strict=True)]),
            p50_ms=1000 * median(seconds[name]),
        )
        for name, own in qualities.items()
    ]
