"""Statistics over requests, with bootstrap confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

_RESAMPLES: Final = 1_000
_SEED: Final = 2026
_Samples: TypeAlias = NDArray[Any]
"""An array of samples by values; a value can be a row of figures."""


@dataclass(frozen=True)
class Estimate:
    """A figure with the bounds of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def bootstrap(figure: Callable[[Sequence[_Samples]], _Samples], *groups: Sequence[Any]) -> Estimate:
    """Estimate a figure of non-empty groups of values; resampled groups keep their sizes.

    Args:
        figure: Takes the samples of each group, and returns one figure per sample.
        groups: The values. A row of several figures is drawn as one value.
    """
    values = [np.asarray(group, dtype=np.float64) for group in groups]
    drawn = [own[_random(place, len(own))] for place, own in enumerate(values)]
    low, high = np.percentile(figure(drawn), [2.5, 97.5]).tolist()
    return Estimate(float(figure([own[np.newaxis] for own in values])[0]), low, high)


def mean(*groups: Sequence[float]) -> Estimate:
    """Return the mean of one group, or the mean of several groups' means."""
    return bootstrap(lambda drawn: np.mean([own.mean(axis=1) for own in drawn], axis=0), *groups)


def percentile(values: Sequence[float], percent: float) -> Estimate:
    """Return a percentile of one group."""
    return bootstrap(lambda drawn: np.percentile(drawn[0], percent, axis=1), values)


def ratio_of_medians(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """Return the ratio of the medians of `values` and `base`; the two figures from one turn are drawn together.

    Raises:
        ValueError: Their lengths differ.
    """
    pairs = list(zip(values, base, strict=True))
    return bootstrap(lambda drawn: np.median(drawn[0][..., 0], axis=1) / np.median(drawn[0][..., 1], axis=1), pairs)


def _random(group: int, number: int) -> NDArray[np.int64]:
    return np.random.default_rng(_SEED + group).integers(number, size=(_RESAMPLES, number))
