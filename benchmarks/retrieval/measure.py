"""A ranking's quality on a dataset: metrics, variants with harder requests, and one run over them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import log2
from random import Random
from statistics import fmean
from string import ascii_lowercase
from typing import Final

from mcp_ext_tools_search.ranking import Ranker

from benchmarks.datasets import Dataset, Query

DEPTH: Final = 10
"""Number of ranks to judge."""

_LONG_WORD: Final = re.compile(r"[A-Za-z]{5,}")
_SLIPS: Final = 0.3
"""Share of the long words that get a typo."""
_SEED: Final = 5


@dataclass(frozen=True)
class Quality:
    """Figures in [0, 1]; 1 is best."""

    ndcg_at_10: float
    """Discounted cumulative gain relative to that of the ideal list (Järvelin and Kekäläinen, 2002)."""

    recall_at_1: float
    recall_at_5: float
    recall_at_10: float
    reciprocal_rank: float
    """1 / rank of the first right tool within the depth, or 0."""


def quality(ranked: Sequence[str], relevant: Collection[str]) -> Quality:
    """Judge `ranked`, best first, by the `relevant` ids, which must not be empty."""
    wanted = frozenset(relevant)
    places = [place for place, tool in enumerate(ranked[:DEPTH], start=1) if tool in wanted]
    gain, best = (sum(1 / log2(place + 1) for place in own) for own in (places, range(1, min(DEPTH, len(wanted)) + 1)))
    recall = [sum(place <= depth for place in places) / len(wanted) for depth in (1, 5, DEPTH)]
    return Quality(gain / best, recall[0], recall[1], recall[2], 1 / places[0] if places else 0.0)


def mean_quality(qualities: Sequence[Quality]) -> Quality:
    """Return the mean of each figure; zeros if there are none."""
    columns = zip(*map(astuple, qualities), strict=True)
    return Quality(*map(fmean, columns)) if qualities else Quality(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Answer:
    """The answer to one query."""

    query: Query
    ranked: Sequence[str]
    """Ids of the tools found, best first, up to the depth."""

    quality: Quality | None
    """`None` for a query that no tool serves."""


@dataclass(frozen=True)
class Measurement:
    """All of a ranking's answers for a dataset."""

    dataset: str
    tools: int
    answers: Sequence[Answer]

    @property
    def qualities(self) -> Sequence[Quality]:
        """The qualities for queries that a tool serves."""
        return [answer.quality for answer in self.answers if answer.quality is not None]

    @property
    def slices(self) -> Mapping[str, Sequence[Answer]]:
        """The answers by kind of query, if the dataset has several."""
        slices: dict[str, list[Answer]] = {}
        for answer in self.answers:
            if answer.query.slice is not None:
                slices.setdefault(answer.query.slice, []).append(answer)
        return slices

    def silent(self, *, is_served: bool) -> Sequence[float]:
        """For each query that a tool serves (or that none serves), return 1 if the answer is empty and otherwise 0."""
        return [float(not answer.ranked) for answer in self.answers if (answer.quality is not None) == is_served]


def measure(dataset: Dataset, ranker: Ranker, *, depth: int = DEPTH) -> Measurement:
    """Index the catalog with `ranker`, and run every query; the first `depth` hits are read."""
    index = ranker(dataset.tools)
    answers: list[Answer] = []
    for query in dataset.queries:
        ranked = [dataset.ids[hit.name] for hit in index.search(query.query)[:depth]]
        answers.append(Answer(query, ranked, quality(ranked, query.relevant) if query.relevant else None))
    return Measurement(dataset.name, len(dataset.tools), answers)


def with_foreign_requests(datasets: Sequence[Dataset], number: int) -> list[Dataset]:
    """Return the datasets, each with up to `number` requests from each other dataset with different tools.

    Few datasets have requests that no tool serves. Some of the added ones fit by chance (many catalogs can tell the
    time); they are kept, and count as errors.
    """

    def foreign(own: Dataset, other: Dataset) -> list[Query]:
        if not set(own.ids.values()).isdisjoint(other.ids.values()):
            return []
        served = [query for query in other.queries if query.relevant]
        drawn = Random(_SEED).sample(served, min(number, len(served)))  # noqa: S311 - the same in every run
        return [query.model_copy(update={"relevant": ()}) for query in drawn]

    return [
        replace(own, queries=[*own.queries, *(query for other in datasets for query in foreign(own, other))])
        for own in datasets
    ]


def with_slips(dataset: Dataset) -> Dataset:
    """Return the dataset with typos in its requests."""
    slipped = [query.model_copy(update={"query": mistyped(query.query, query.id)}) for query in dataset.queries]
    return replace(dataset, queries=slipped)


def mistyped(text: str, seed: str) -> str:
    """Return `text` with one edit in each of 30 % of its words of five letters or more, drawn by `seed`.

    An edit deletes, inserts or replaces a letter, or swaps two neighbors (Damerau, 1964).
    """
    random = Random(seed)  # noqa: S311 - the same in every run

    def edited(word: str) -> str:
        place, letter = random.randrange(len(word) - 1), random.choice(ascii_lowercase)
        before, here, after = word[:place], word[place], word[place + 1 :]
        edits = (after, letter + here + after, letter + after, after[0] + here + after[1:])
        return before + random.choice(edits)

    return _LONG_WORD.sub(lambda word: edited(word[0]) if random.random() < _SLIPS else word[0], text)
