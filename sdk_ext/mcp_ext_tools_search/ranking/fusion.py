"""One order out of the rankings of several servers, by rank alone.

Scores of different servers cannot be compared (draft: Hit Metadata), and a server could claim any score. A rank only
says which of its own tools a server prefers. Ranks alone do not say whose first tool fits better, and seventy servers
would yield seventy first places, so `fuse_and_rerank` also gives votes to a ranking of all candidates together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

RANK_CONSTANT: Final = 60  # damps the difference between the first ranks; the usual value of the method

RERANK_VOTES: Final = 2
"""Weight of the local ranking, in servers. Only this ranking compares tools of different servers."""

Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Item]]) -> list[tuple[Item, float]]:
    """Fuse rankings, each best first, into one of every item with its weight, best first.

    An item's weight is the sum of `1 / (RANK_CONSTANT + rank)` over the rankings that contain it, with ranks from 1. A
    second occurrence in the same ranking has no effect, neither on the item nor on the ranks of those after it. Ties
    keep the order of first appearance, reading the rankings rank by rank, so equal input gives equal output.
    """
    weights: dict[Item, float] = {}
    appearance: dict[Item, tuple[int, int]] = {}
    for position, ranking in enumerate(rankings):
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            weights[item] = weights.get(item, 0.0) + 1.0 / (RANK_CONSTANT + rank)
            appearance[item] = min(appearance.get(item, (rank, position)), (rank, position))
    return sorted(weights.items(), key=lambda entry: (-entry[1], appearance[entry[0]]))


def fuse_and_rerank(
    rankings: Sequence[Sequence[Item]], rank: Callable[[Sequence[Item]], Sequence[Item]], *, depth: int | None = None
) -> list[tuple[Item, float]]:
    """Fuse rankings of several servers, each best first, and one of their items together.

    `rank` orders the first `depth` items of each ranking (all by default) and may omit some; its order counts as
    `RERANK_VOTES` rankings.
    """
    candidates = list(dict.fromkeys(item for ranking in rankings for item in ranking[:depth]))
    return reciprocal_rank_fusion([*rankings, *[rank(candidates)] * RERANK_VOTES])
