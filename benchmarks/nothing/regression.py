"""Logistic regression, for the handful of numbers that the ranking's confidence is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mcp_ext_tools_search.ranking.confidence import Signs
from numpy.typing import NDArray

from benchmarks.nothing.cases import Case

__all__ = ["fitted"]

_RIDGE = 0.003
_STEPS = 50


def fitted(cases: Sequence[Case]) -> tuple[float, Signs]:
    """Return intercept and weights that tell requests which are served from those which are not.

    Each catalogue counts the same, and so do both kinds of request in it. A request whose right tool is not among the
    first five is left out, since little is lost with it. Newton's method on standardised signs, with a ridge penalty.
    """
    used = [case for case in cases if case.signs and (case.quality is None or case.quality.recall_at_5 > 0)]
    signs = np.array([case.signs for case in used])
    served = np.array([case.quality is not None for case in used], dtype=np.float64)
    groups = [(case.catalogue, case.quality is not None) for case in used]
    weights = np.array([1 / groups.count(group) for group in groups])
    weights /= weights.sum()
    means, deviations = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    inputs = np.column_stack((np.ones(len(used)), (signs - means) / deviations))
    penalty = _RIDGE * np.diag([0.0] + [1.0] * signs.shape[1])
    slopes: NDArray[np.float64] = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        likely: NDArray[np.float64] = 1 / (1 + np.exp(-inputs @ slopes))
        gradient: NDArray[np.float64] = inputs.T @ (weights * (served - likely)) - penalty @ slopes
        curvature: NDArray[np.float64] = (inputs.T * (weights * likely * (1 - likely))) @ inputs + penalty
        slopes = slopes + np.linalg.solve(curvature, gradient)
    own: list[float] = (slopes[1:] / deviations).tolist()
    intercept = float(slopes[0]) - float(np.dot(own, means))
    return round(intercept, 3), Signs(*(round(slope, 3) for slope in own))
