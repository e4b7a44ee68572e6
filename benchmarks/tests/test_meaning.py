"""The map of query vectors: what fitting it gives, and the file that the package has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tools_search_ranking.semantic.minilm import QUERY_MAP

from benchmarks.meaning.examples import Examples
from benchmarks.meaning.fitting import fit


def _units(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_a_fitted_map_leads_requests_to_the_tools_that_serve_them():
    """Requests are the vectors of their tools with the components in another order, which a map can undo."""
    texts = _units(np.random.default_rng(1).normal(size=(40, 16)))
    queries = np.roll(texts, 1, axis=1)
    tools = np.arange(len(texts))
    found = fit(Examples(texts, texts, queries, np.zeros((40, 40), dtype=np.float32), tools), steps=3_000, seed=0)
    assert np.mean((queries @ texts.T).argmax(axis=1) == tools) < 0.2
    assert np.mean(((queries + queries @ found) @ texts.T).argmax(axis=1) == tools) > 0.9


def test_the_map_of_the_package_fits_the_model():
    found = np.load(QUERY_MAP, allow_pickle=False)
    assert found.shape == (384, 384)
    assert np.isfinite(found).all()
