"""Fits the weights of the confidence, and finds words that carry little information, from labeled requests: `--fit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, Protocol, TypeAlias

import numpy as np
from mcp_ext_tools_search.ranking import ToolIndex
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking.index import Documents

from benchmarks.datasets import Dataset
from benchmarks.retrieval.measure import quality

Weights: TypeAlias = tuple[float, tuple[float, ...]]
"""A logistic regression's intercept and slopes."""

_RIDGE: Final = 0.003
_STEPS: Final = 50
_MIN_SHARE: Final = 0.02
_MIN_SETS: Final = 2
_BRANDS: Final = frozenset({"azur", "microsoft"})
"""Words that are common in one vendor's dataset, but not generic elsewhere."""


class Judging(ToolIndex, Protocol):
    """An index with a confidence."""

    def signs(self, query: str) -> tuple[float, ...] | None:
        """Return the signs that any tool serves `query`; `None` if there are none."""
        ...


def fitted(datasets: Sequence[Dataset], ranker: Callable[[Sequence[Tool]], Judging]) -> Weights:
    """Return the intercept and weights that separate requests with a tool from those without.

    Catalogs with one name count as one; all names have equal weight, as do both kinds of request in each. Requests
    whose right tool is not among the first five are left out, because little is lost with them. Uses Newton's method on
    standardized signs, with a ridge penalty.
    """
    signs: list[tuple[float, ...]] = []
    groups: list[tuple[str, bool]] = []
    for dataset in datasets:
        index = ranker(dataset.tools)
        for query in dataset.queries:
            ranked = [dataset.ids[hit.name] for hit in index.search(query.query)[:5]]
            is_lost = query.relevant and not quality(ranked, query.relevant).recall_at_5
            if not is_lost and (own := index.signs(query.query)):
                signs.append(own)
                groups.append((dataset.name, bool(query.relevant)))
    served = np.array([is_served for _, is_served in groups], dtype=np.float64)
    sizes = Counter(groups)
    weights = np.array([1 / sizes[group] for group in groups])
    weights /= weights.sum()
    read = np.array(signs)
    means, deviations = np.mean(read, axis=0), np.std(read, axis=0) + 1e-9
    slopes = _newton((read - means) / deviations, served, weights)
    own = slopes[1:] / deviations
    rounded: list[float] = own.round(3).tolist()
    return round(float(slopes[0] - own @ means), 3), tuple(rounded)


def _newton(
    signs: NDArray[np.float64], served: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the intercept and the slopes for standardized signs."""
    inputs = np.column_stack((np.ones(len(signs)), signs))
    penalty = np.diag([0.0] + [_RIDGE] * signs.shape[1])
    slopes = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        likely = 1 / (1 + np.exp(-inputs @ slopes))
        gradient = inputs.T @ (weights * (served - likely)) - penalty @ slopes
        curvature = (inputs.T * (weights * likely * (1 - likely))) @ inputs + penalty
        slopes += np.linalg.solve(curvature, gradient)
    return slopes


def generic_stems(datasets: Sequence[Dataset]) -> list[str]:
    """Return the stems with English letters that on average 2 % of a dataset's tools have."""
    shares: list[dict[str, float]] = []
    for dataset in datasets:
        documents = Documents.of(dataset.tools)
        numbers = documents.vocabulary.numbers.items()
        shares.append({stem: int(documents.containing[number]) / len(dataset.tools) for stem, number in numbers})
    candidates = {stem for own in shares for stem in own if stem.isascii() and stem.isalpha()} - _BRANDS
    return sorted(
        stem
        for stem in candidates
        if fmean(own.get(stem, 0.0) for own in shares) >= _MIN_SHARE and sum(stem in own for own in shares) >= _MIN_SETS
    )
