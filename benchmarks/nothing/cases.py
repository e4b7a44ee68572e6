"""Requests that a catalog serves, and requests that it does not, with what the ranking makes of them.

Few sets have requests that no tool serves. So the requests of each set are also put to the tools of the others. Some of
these pairs fit by chance (the time is to be had in many catalogs); they stay, and count as errors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools_search_ranking.confidence import confidence

from benchmarks.nothing.judges import Judge, Judging, Numbers, Weights
from benchmarks.retrieval.datasets import Dataset, Query
from benchmarks.retrieval.metrics import DEPTH, Quality, quality

__all__ = ["Case", "cases_of"]

_SEED = 5


@dataclass(frozen=True)
class Case:
    """One request that was put to one catalog."""

    catalog: str
    source: str
    """The set that the request is from."""

    query: str
    quality: Quality | None
    """How good the answer is, were all of it given; `None` for a request that no tool of the catalog serves."""

    found: bool
    """Whether the tools have any of the words at all."""

    signs: Numbers | None

    def confidence(self, weights: Weights) -> float:
        """Return how sure the ranking is: 0 where it found nothing anyway."""
        return confidence(self.signs, weights) if self.found else 0.0


def cases_of(datasets: Sequence[Dataset], pairs: int, judge: Judge) -> list[Case]:
    """Put the requests of each set to its tools, and up to `pairs` of each other set that has other tools."""
    found: list[Case] = []
    for catalog in datasets:
        index = judge.index(catalog.tools)
        found += [_case(catalog, index, catalog.name, query) for query in catalog.queries]
        for other in datasets:
            if set(catalog.ids.values()).isdisjoint(other.ids.values()):
                found += [_case(catalog, index, other.name, query) for query in _sample(other, pairs)]
    return found


def _sample(dataset: Dataset, pairs: int) -> Iterator[Query]:
    served = [query for query in dataset.queries if query.relevant]
    for query in random.Random(_SEED).sample(served, min(pairs, len(served))):  # noqa: S311  # the same in every run
        yield query.model_copy(update={"relevant": ()})


def _case(catalog: Dataset, index: Judging, source: str, query: Query) -> Case:
    hits = index.search(query.query)[:DEPTH]
    ranked = [catalog.ids[hit.name] for hit in hits]
    judged = quality(ranked, query.relevant) if query.relevant else None
    return Case(catalog.name, source, query.query, judged, bool(hits), index.signs(query.query))
