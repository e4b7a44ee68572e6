"""How sure a figure over requests is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bounded", "Estimate", "estimate", "mean_of_means", "percentile", "ratio_of_medians"]

_RESAMPLES: Final = 1_000
_SEED: Final = 2026


@dataclass(frozen=True)
class Estimate:
    """A mean, and between which bounds it lies in 95 % of samples of as many values (bootstrap)."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Bounded:
    """A figure that is no mean, and between which bounds it lies in 95 % of samples of as many values (bootstrap)."""

    value: float
    low: float
    high: float


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of `values`, of which there is at least one; equal values give equal bounds."""
    low, high = _bounds(np.asarray(values)[_drawn(len(values))].mean(axis=1))
    return Estimate(fmean(values), low, high)


def mean_of_means(groups: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean of the means of `groups`, each of which has a value at least; samples keep their sizes."""
    means = [np.asarray(own)[_drawn(len(own), group)].mean(axis=1) for group, own in enumerate(groups)]
    low, high = _bounds(np.mean(means, axis=0))
    return Estimate(fmean(map(fmean, groups)), low, high)


def percentile(values: Sequence[float], percent: float) -> Bounded:
    """Return the percentile of `values`, of which there is at least one."""
    own = np.asarray(values)
    low, high = _bounds(np.percentile(own[_drawn(len(own))], percent, axis=1))
    return Bounded(float(np.percentile(own, percent)), low, high)


def ratio_of_medians(values: Sequence[float], base: Sequence[float]) -> Bounded:
    """Return how many times the median of `base` that of `values` is; what was taken at one turn is drawn together.

    Raises:
        ValueError: They are not of one length.
    """
    if len(values) != len(base):
        raise ValueError(f"{len(values)} values cannot be paired with {len(base)}")
    drawn = _drawn(len(base))
    own, other = np.asarray(values), np.asarray(base)
    low, high = _bounds(np.median(own[drawn], axis=1) / np.median(other[drawn], axis=1))
    return Bounded(float(np.median(own) / np.median(other)), low, high)


def _drawn(number: int, group: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(_SEED + group).integers(number, size=(_RESAMPLES, number))


def _bounds(figures: NDArray[Any]) -> tuple[float, float]:
    low, high = np.percentile(figures, [2.5, 97.5])
    return float(low), float(high)
