"""What changes the model for queries: what fitting gives, and the file that the package has."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from tools_search_ranking.semantic import minilm
from tools_search_ranking.semantic.embedder import tool_text

from benchmarks.meaning.catalogs import invented_catalogs
from benchmarks.meaning.examples import EVERY, Examples, read_rows, tool_of

_REQUESTS = (
    "ship it",
    "who broke this",
    "too loud",
    "what's on tonight",
    "feed the cat",
    "lost my keys",
    "it rains",
    "ask",
)


@pytest.mark.rotating
def test_fitted_changes_lead_requests_to_the_tools_that_serve_them(tmp_path: Path):
    """The tools have vectors that the model, as it is, makes for no request."""
    for package in ("jax", "onnx"):
        pytest.importorskip(package, reason="the extra [benchmark] is not installed")
    command, fitting, models = (
        import_module(f"benchmarks.meaning.{name}") for name in ("__main__", "fitting", "model")
    )
    texts = np.random.default_rng(1).normal(size=(len(_REQUESTS), 384))
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    texts = texts.astype(np.float32)
    tools = np.arange(len(texts))
    pieces = np.zeros((len(texts), 16), dtype=np.int32)
    for row, request in zip(pieces, _REQUESTS, strict=True):
        numbers = minilm.pieces(request)
        row[: len(numbers)] = numbers
    words, shares = np.zeros((len(tools), len(tools)), dtype=np.float32), np.full(len(tools), 1 / len(tools))
    model = models.read_model(minilm.model_file())
    examples = Examples(texts, texts, pieces, shares, words, tools)
    fitted = fitting.fit(model, examples, steps=100, seed=0)
    command.write(file := tmp_path / "changes.npz", model, fitted, 1, examples)
    found = [minilm.embed_queries(_REQUESTS, changes) @ texts.T for changes in (minilm.CHANGES, file)]
    assert np.mean(found[0].argmax(axis=1) == tools) < 0.5
    assert np.mean(found[1].argmax(axis=1) == tools) == 1


def test_the_changes_of_the_package_fit_its_model():
    requests = ["is it worth taking an umbrella"]
    changed = minilm.minilm().query_vectors(requests).astype(np.int64)
    unchanged = minilm.minilm().vectors(requests).astype(np.int64)
    cosine = (changed * unchanged).sum() / np.linalg.norm(changed) / np.linalg.norm(unchanged)
    assert 0.3 < cosine < 0.99


def test_the_package_has_the_vectors_of_tools_of_every_domain():
    kept = read_rows()[::EVERY]
    model = minilm.minilm()
    assert model.others is not None
    assert len(others := model.others()) == len(kept)
    assert others[:3].tolist() == model.vectors([tool_text(tool_of(row)) for row in kept[:3]]).tolist()


def test_invented_catalogs_have_requests_that_they_serve_and_as_many_that_they_do_not():
    catalogs = invented_catalogs()
    kept = {row.name for row in read_rows()[::EVERY]}
    for catalog in catalogs:
        served, others = (
            [query for query in catalog.queries if bool(query.relevant) is is_served] for is_served in (True, False)
        )
        assert 8 <= len(served) <= len(others) == 30
        assert {query.id for query in served} <= {*catalog.ids}
        assert {query.id for query in others}.isdisjoint(catalog.ids)
        assert kept.isdisjoint(catalog.ids)
    assert min(len(catalog.tools) for catalog in catalogs) < 20
    assert max(len(catalog.tools) for catalog in catalogs) > 400
