"""One order out of several, by rank alone.

Scores of different servers cannot be compared (draft: Hit Metadata), and a server could claim any score it likes. A
rank says only which of its own tools a server thinks better than which.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

__all__ = ["RANK_CONSTANT", "reciprocal_rank_fusion"]

RANK_CONSTANT: Final = 60
"""Damps the difference between the first ranks; the usual value of the method."""

Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Item]], *, constant: float = RANK_CONSTANT
) -> list[tuple[Item, float]]:
    """Fuse rankings into one, best first.

    An item's weight is the sum of `1 / (constant + rank)` over the rankings that hold it, with ranks from 1. A second
    occurrence in the same ranking counts for nothing, neither for the item nor for the ranks of those after it. Ties
    keep the order of first appearance, reading the rankings rank by rank, so equal input gives equal output.

    Args:
        rankings: Each best first.
        constant: Not negative; the larger, the more agreement counts against a single high rank.

    Returns:
        Every item once, with its weight.
    """
    weights: dict[Item, float] = {}
    appearance: dict[Item, tuple[int, int]] = {}
    for position, ranking in enumerate(rankings):
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            weights[item] = weights.get(item, 0.0) + 1.0 / (constant + rank)
            appearance[item] = min(appearance.get(item, (rank, position)), (rank, position))
    return _heaviest_first(weights, appearance)


def _heaviest_first(
    weights: Mapping[Item, float], appearance: Mapping[Item, tuple[int, int]]
) -> list[tuple[Item, float]]:
    return sorted(weights.items(), key=lambda entry: (-entry[1], appearance[entry[0]]))
