"""Words that definitions of every domain have, for the ranking's list of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from tools_search_ranking.documents import Documents

from benchmarks.retrieval.datasets import Dataset

__all__ = ["generic_stems"]

_LEAST_SHARE: Final = 0.02
_LEAST_SETS: Final = 2
_BRANDS: Final = frozenset({"azur", "microsoft"})
"""Common in a set of one vendor, and generic nowhere else."""


def generic_stems(datasets: Sequence[Dataset]) -> list[str]:
    """Return the stems of English letters that 2 % of the tools have, in the mean over the sets."""
    shares = [_shares(dataset) for dataset in datasets]
    candidates = {stem for own in shares for stem in own if stem.isascii() and stem.isalpha()} - _BRANDS
    return sorted(
        stem
        for stem in candidates
        if fmean(own.get(stem, 0.0) for own in shares) >= _LEAST_SHARE
        and sum(stem in own for own in shares) >= _LEAST_SETS
    )


def _shares(dataset: Dataset) -> dict[str, float]:
    """Return for each stem the part of the tools that have it."""
    documents = Documents.of(dataset.tools)
    containing: list[int] = documents.containing.tolist()
    return {term: containing[number] / len(dataset.tools) for term, number in documents.vocabulary.numbers.items()}
