"""Logistic regression, for the handful of numbers that the ranking's confidence is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.nothing.cases import Case
from benchmarks.nothing.judges import Weights

__all__ = ["fitted"]

_RIDGE = 0.003
_STEPS = 50


def fitted(cases: Sequence[Case]) -> Weights:
    """Return intercept and weights that tell requests which are served from those which are not.

    Each catalog counts the same, and so do both kinds of request in it. A request whose right tool is not among the
    first five is left out, since little is lost with it. Newton's method on standardised signs, with a ridge penalty.
    """
    used = [case for case in cases if case.signs and (case.quality is None or case.quality.recall_at_5 > 0)]
    signs = np.array([case.signs for case in used])
    served = np.array([case.quality is not None for case in used], dtype=np.float64)
    groups = [(case.catalog, case.quality is not None) for case in used]
    weights = np.array([1 / groups.count(group) for group in groups])
    means, deviations = np.mean(signs, axis=0), np.std(signs, axis=0) + 1e-9
    slopes = _newton((signs - means) / deviations, served, weights / weights.sum()).tolist()
    own = [slope / deviation for slope, deviation in zip(slopes[1:], deviations.tolist(), strict=True)]
    intercept = slopes[0] - sum(slope * mean for slope, mean in zip(own, means.tolist(), strict=True))
    return round(intercept, 3), tuple(round(slope, 3) for slope in own)


def _newton(
    signs: NDArray[np.float64], served: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the intercept and the weights of standardised signs."""
    inputs = np.column_stack((np.ones(len(signs)), signs))
    penalty = np.diag([0.0] + [_RIDGE] * signs.shape[1])
    slopes = np.zeros(signs.shape[1] + 1)
    for _ in range(_STEPS):
        likely = 1 / (1 + np.exp(-inputs @ slopes))
        gradient = inputs.T @ (weights * (served - likely)) - penalty @ slopes
        curvature = (inputs.T * (weights * likely * (1 - likely))) @ inputs + penalty
        slopes += np.linalg.solve(curvature, gradient)
    return slopes
