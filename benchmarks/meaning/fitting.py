"""Fits a linear map of query vectors by gradient descent (Adam; Kingma and Ba, 2015)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.meaning.examples import Examples, standard_scores

_BATCH: Final = 64
_TOOLS: Final = 800
"""Number of tools that a batch is ranked among."""

_WORDS, _MEANING = np.float32(0.4), np.float32(1.5)
"""Weights of both standard scores in the probability that a tool serves a request."""

_RATE: Final = 5e-4
_WARM_UP: Final = 30
_LEAST_RATE: Final = 0.05
_DECAY: Final = 2e-2
"""How strongly each step pulls the map towards no change."""

_MEAN, _SQUARE = 0.9, 0.98


def fit(examples: Examples, steps: int, seed: int) -> NDArray[np.float32]:
    """Return the matrix whose product with a query's vector is added to it.

    It makes it probable that the tool that serves a request comes first. The probability is the softmax of words and
    meaning together, so the map learns what words do not say already.
    """
    chance = np.random.default_rng(seed)
    size = examples.queries.shape[1]
    found, mean, square = (np.zeros((size, size), dtype=np.float32) for _ in range(3))
    for step in range(1, steps + 1):
        slope = _slope(examples, found, *_drawn(examples, chance)) + np.float32(_DECAY) * found
        mean = np.float32(_MEAN) * mean + np.float32(1 - _MEAN) * slope
        square = np.float32(_SQUARE) * square + np.float32(1 - _SQUARE) * slope * slope
        rate = _RATE * min(1, step / _WARM_UP) * max(_LEAST_RATE, 1 - step / steps)
        found -= np.float32(rate / (1 - _MEAN**step)) * mean / (np.sqrt(square / np.float32(1 - _SQUARE**step)) + 1e-8)
    return found


def _drawn(examples: Examples, chance: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return some requests, and the tools that serve them among others."""
    count = len(examples.texts)
    requests = chance.choice(len(examples.queries), min(_BATCH, len(examples.queries)), replace=False)
    return requests, np.union1d(examples.tools[requests], chance.choice(count, min(_TOOLS, count), replace=False))


def _slope(
    examples: Examples, found: NDArray[np.float32], requests: NDArray[np.intp], tools: NDArray[np.intp]
) -> NDArray[np.float32]:
    """Return the derivative of the mean negative log probability with respect to the map."""
    queries = examples.queries[requests]
    texts, summaries = examples.texts[tools], examples.summaries[tools]
    mapped = queries + queries @ found
    lengths = np.sqrt((mapped * mapped).sum(axis=1, keepdims=True))
    units = mapped / lengths
    cosines, of_summaries = units @ texts.T, units @ summaries.T
    is_text = cosines >= of_summaries
    nearest: NDArray[np.float32] = np.maximum(cosines, of_summaries)
    meant, spread = standard_scores(nearest)
    total = _WORDS * examples.words[np.ix_(requests, tools)] + _MEANING * meant
    share = np.exp(total - total.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(len(requests)), np.searchsorted(tools, examples.tools[requests])] -= 1
    share *= _MEANING / len(requests)
    centered = share - share.mean(axis=1, keepdims=True) - meant * (share * meant).mean(axis=1, keepdims=True)
    by_cosine = centered / spread
    by_unit = (by_cosine * is_text) @ texts + (by_cosine * ~is_text) @ summaries
    return queries.T @ ((by_unit - units * (units * by_unit).sum(axis=1, keepdims=True)) / lengths)
