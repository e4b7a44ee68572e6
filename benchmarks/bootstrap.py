"""How sure a mean over requests is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

__all__ = ["Estimate", "estimate"]

_RESAMPLES: Final = 1_000
_SEED: Final = 2026


@dataclass(frozen=True)
class Estimate:
    """A mean, and between which bounds it lies in 95 % of samples of as many values (bootstrap)."""

    mean: float
    low: float
    high: float


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of `values`, of which there is at least one; equal values give equal bounds."""
    drawn = np.random.default_rng(_SEED).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.asarray(values)[drawn].mean(axis=1), [2.5, 97.5])
    return Estimate(fmean(values), float(low), float(high))
