"""How good one ranked list is, for labels that say yes or no."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from math import log2
from statistics import fmean
from typing import Final

__all__ = ["DEPTH", "Quality", "mean_quality", "quality"]

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
