"""One order out of words and meaning, by how far each tool stands out among those that the caller may see.

Both kinds of score become z-scores over the visible tools (Fox and Shaw's fusion by sums, "Combination of Multiple
Searches", 1994, with standard scores): a query that words tell apart well is ranked by its words, any other by its
meaning. All sums are of whole numbers, so that they are the same in any order of the tools.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.semantic.embedder import STEPS, Vectors

__all__ = ["UNIT", "cosines", "standard_scores"]

UNIT: Final = 1 << 20
"""Steps from 0 to 1 in scores that are whole numbers."""


def cosines(vectors: NDArray[np.float32], queries: Vectors) -> NDArray[np.int64]:
    """Return for each vector a row of its cosines with `queries`, in `UNIT`: exactly the same on any machine."""
    products = vectors @ queries.T.astype(np.float32)
    return products.astype(np.int64) // (STEPS * STEPS // UNIT)


def standard_scores(scores: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many standard deviations each of these is above their mean; zeros where all are equal.

    Scores are at most a few times `UNIT`, and fewer than a million.
    """
    count, total, squares = len(scores), int(scores.sum()), int((scores * scores).sum())
    spread = count * squares - total * total
    return (scores * count - total) / sqrt(spread) if spread > 0 else np.zeros(count)
