"""What a threshold gives and what it costs, for every threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchmarks.bootstrap import Estimate, mean_of_means
from benchmarks.nothing.cases import Case

__all__ = ["Bounds", "Point", "best_within", "bounds", "curve"]


@dataclass(frozen=True)
class Point:
    """What becomes of requests where nothing is answered below a confidence; means over the catalogs."""

    least_confidence: float
    silent: float
    """Part of the requests that no tool serves which are answered with nothing."""

    recall_lost: float
    """Recall@5 of the requests that a tool serves, less than with all answers."""

    ndcg_lost: float
    wrongly_silent: float
    """Part of the requests that a tool serves which are answered with nothing."""


@dataclass(frozen=True)
class Bounds:
    """Two figures of a point, with the bounds that other requests like these would stay in."""

    least_confidence: float
    silent: Estimate
    recall_lost: Estimate


def bounds(cases: Sequence[Case], confidence: Callable[[Case], float], threshold: float) -> Bounds:
    """Return the bounds of the point at a threshold."""
    silent: dict[str, list[float]] = {}
    lost: dict[str, list[float]] = {}
    for case in cases:
        says_nothing = confidence(case) < threshold or not case.found
        if case.quality is None:
            silent.setdefault(case.catalog, []).append(float(says_nothing))
        else:
            lost.setdefault(case.catalog, []).append(case.quality.recall_at_5 * says_nothing)
    groups = (list(own.values()) or [[0.0]] for own in (silent, lost))
    return Bounds(threshold, *map(mean_of_means, groups))


def curve(cases: Sequence[Case], confidence: Callable[[Case], float]) -> list[Point]:
    """Return a point for each hundredth from 0 on, and for each thousandth below 0.1."""
    confidences = [confidence(case) for case in cases]
    thresholds = sorted({place / 1000 for place in range(100)} | {place / 100 for place in range(100)})
    return [_point(cases, confidences, threshold) for threshold in thresholds]


def best_within(points: Sequence[Point], recall_lost: float) -> Point:
    """Return the point that is silent most of those which lose no more than `recall_lost`."""
    return max((point for point in points if point.recall_lost <= recall_lost), key=lambda point: point.silent)


def _point(cases: Sequence[Case], confidences: Sequence[float], threshold: float) -> Point:
    silent: dict[str, list[bool]] = {}
    lost: dict[str, list[tuple[float, float, float]]] = {}
    for case, confidence in zip(cases, confidences, strict=True):
        says_nothing = confidence < threshold or not case.found
        if case.quality is None:
            silent.setdefault(case.catalog, []).append(says_nothing)
        else:
            own = (case.quality.recall_at_5, case.quality.ndcg_at_10, 1.0) if says_nothing else (0.0, 0.0, 0.0)
            lost.setdefault(case.catalog, []).append(own)
    means = [np.mean(own, axis=0) for own in lost.values()]
    recall_lost, ndcg_lost, wrongly_silent = np.mean(means, axis=0).tolist() if means else (0.0, 0.0, 0.0)
    return Point(
        threshold, fmean(map(fmean, silent.values())) if silent else 0.0, recall_lost, ndcg_lost, wrongly_silent
    )
