"""Fits what changes the model for queries, by gradient descent (Adam; Kingma and Ba, 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.meaning.examples import Examples
from benchmarks.meaning.model import (
    LAYERS,
    Factors,
    Model,
    Tensors,
    after,
    embedded,
    jax,
    jnp,
    pooled,
    unchanged,
    units,
)

_BATCH: Final = 64
_TOOLS: Final = 600
"""Number of other tools that a batch is ranked among."""

_FIRST: Final = 3
"""The first of the layers that are changed. What is below them is computed once for each request."""

_RANK: Final = 8
_WORDS, _MEANING = 0.4, 1.5
"""Weights of both standard scores in the probability that a tool serves a request."""

_RATE: Final = 1e-3
_MAP_RATE: Final = 5e-4
_WARM_UP: Final = 30
_LEAST_PART: Final = 0.05
_MAP_DECAY: Final = 2e-2
"""How strongly each step pulls the map towards no change."""

_MEAN, _SQUARE = 0.9, 0.98


class Fitted(NamedTuple):
    """What changes the vector that the model makes for a query."""

    factors: Factors
    """What is added to the matrices of the upper layers."""

    map: Any
    """A matrix whose product with the vector is added to it."""


@dataclass(frozen=True)
class _Batch:
    """Some requests, and the tools that serve them among others."""

    states: NDArray[np.float32]
    mask: NDArray[np.float32]
    words: NDArray[np.float32]
    texts: NDArray[np.float32]
    summaries: NDArray[np.float32]
    right: NDArray[np.intp]
    """The place of the tool that serves each request."""


jax.tree_util.register_dataclass(_Batch)

_State: TypeAlias = list[tuple[Any, Any, Any]]
"""For each array: its value, the mean of its slopes, and that of their squares."""


def fit(model: Model, examples: Examples, steps: int, seed: int) -> Fitted:
    """Return the changes that make it probable that the tool that serves a request comes first.

    The probability is the softmax of words and meaning together, so the model learns what words do not say already.
    """
    chance = np.random.default_rng(seed)
    size = examples.texts.shape[1]
    start = Fitted(unchanged(model, _FIRST, _RANK, chance), jnp.zeros((size, size)))
    arrays, shape = jax.tree.flatten(start)
    of_map = [each is start.map for each in arrays]

    @jax.jit
    def step(state: _State, tensors: Tensors, batch: _Batch, number: float, part: float) -> _State:
        now = jax.tree.unflatten(shape, [array for array, _, _ in state])
        slopes = jax.tree.leaves(jax.grad(_loss)(now, tensors, batch))
        found: _State = []
        for (array, mean, square), slope, is_map in zip(state, slopes, of_map, strict=True):
            pulled = slope + _MAP_DECAY * array if is_map else slope
            mean = _MEAN * mean + (1 - _MEAN) * pulled
            square = _SQUARE * square + (1 - _SQUARE) * pulled * pulled
            move = mean / (1 - _MEAN**number) / (jnp.sqrt(square / (1 - _SQUARE**number)) + 1e-8)
            found.append((array - (_MAP_RATE if is_map else _RATE) * part * move, mean, square))
        return found

    state = [(array, jnp.zeros_like(array), jnp.zeros_like(array)) for array in arrays]
    below = _states_below(model.tensors, examples.pieces)
    with click.progressbar(range(1, steps + 1), label="Fitting") as bar:
        for number in bar:
            part = min(1, number / _WARM_UP) * max(_LEAST_PART, 1 - number / steps)
            state = step(state, model.tensors, _drawn(examples, below, chance), float(number), part)
    return jax.tree.unflatten(shape, [array for array, _, _ in state])


def query_vectors(tensors: Tensors, fitted: Fitted, states: Any, mask: Any) -> Any:
    """Return the vectors of length 1 for queries, from the states before the first layer that is changed."""
    rows = pooled(after(tensors, range(_FIRST, LAYERS), fitted.factors, states, mask), mask)
    return units(rows + rows @ fitted.map)


def _states_below(tensors: Tensors, pieces: NDArray[np.int32]) -> NDArray[np.float16]:
    """Return the states before the first layer that is changed."""

    @jax.jit
    def states(tensors: Tensors, rows: Any, mask: Any) -> Any:
        return after(tensors, range(_FIRST), {}, embedded(tensors, rows), mask)

    parts = (pieces[start : start + _BATCH] for start in range(0, len(pieces), _BATCH))
    return np.concatenate([np.asarray(states(tensors, part, part > 0), dtype=np.float16) for part in parts])


def _drawn(examples: Examples, below: NDArray[np.float16], chance: np.random.Generator) -> _Batch:
    requests = chance.choice(len(below), min(_BATCH, len(below)), replace=False, p=examples.shares)
    right, count = examples.tools[requests], len(examples.texts)
    others = np.setdiff1d(np.arange(count), right)
    # The number is the same in each batch, since otherwise each is compiled again.
    more = min(_TOOLS + len(requests), count) - len(np.unique(right))
    tools = np.union1d(right, chance.choice(others, more, replace=False))
    return _Batch(
        states=below[requests].astype(np.float32),
        mask=(examples.pieces[requests] > 0).astype(np.float32),
        words=examples.words[np.ix_(requests, tools)],
        texts=examples.texts[tools],
        summaries=examples.summaries[tools],
        right=np.searchsorted(tools, right),
    )


def _loss(fitted: Fitted, tensors: Tensors, batch: _Batch) -> Any:
    """Return the mean negative log probability of the tools that serve the requests."""
    queries = query_vectors(tensors, fitted, batch.states, batch.mask)
    cosines = jnp.maximum(queries @ batch.texts.T, queries @ batch.summaries.T)
    spread = cosines.std(axis=1, keepdims=True) + 1e-6
    meant = (cosines - cosines.mean(axis=1, keepdims=True)) / spread
    likely = jax.nn.log_softmax(_WORDS * batch.words + _MEANING * meant, axis=1)
    return -likely[jnp.arange(len(batch.right)), batch.right].mean()
