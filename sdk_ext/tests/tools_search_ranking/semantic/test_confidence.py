"""Words and meaning together say that nothing fits; where meaning gives no sign, words alone do."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking import FieldedRanker, UpdatableIndex
from tools_search_ranking.confidence import Signs, confidence
from tools_search_ranking.semantic import Embedder, SemanticRanker
from tools_search_ranking.semantic.embedder import SemanticSigns
from tools_search_ranking.semantic.index import SemanticIndex

from .conftest import SECONDS

_NEAR_ALONE = (-5.0, SemanticSigns(0, 0, 0, 0, cosine=10, first_by_words=0, elsewhere=0))
"""Even from a cosine of one half on, for any words."""

_NEVER = (-50.0, _NEAR_ALONE[1])
_UNFIT = "Which parts of the manual should I read this week?"
_FITS = "Should I read of a used limousine, or another limousine?"


def test_the_signs_of_words_come_first_and_in_their_order():
    assert SemanticSigns._fields[: len(Signs._fields)] == Signs._fields


def _meanings(texts: Sequence[str], /) -> NDArray[np.float64]:
    """Embed by counting words, each with a meaning of its own but `limousine`, which is a car."""
    rows = np.full((len(texts), 500), 0.001)
    for row, text in zip(rows, texts, strict=True):
        for word in re.findall("[a-z]+", text.lower().replace("limousine", "car")):
            row[zlib.crc32(word.encode()) % 500] += 1
    return rows


def _failing(_texts: Sequence[str]) -> NDArray[np.float64]:
    raise RuntimeError("out of memory")


def _unknown(_query: str) -> bool:
    return False


@pytest.fixture
def judging() -> Embedder:
    return Embedder("meanings", _meanings, least_cosine=0.5, weights=_NEAR_ALONE)


@pytest.fixture
def tools(make_tool: Callable[..., Tool]) -> list[Tool]:
    return [
        make_tool("rent_car", "A car, of all cars the best car."),
        make_tool("mail_box", "Read the current mail."),
        make_tool("read_text"),
        *(make_tool(f"letter_{place}", "letter letter letter") for place in range(20)),
    ]


def ready(embedder: Embedder, tools: list[Tool], least_confidence: float = 0.5) -> SemanticIndex:
    """Return an index whose tools have their vectors."""
    ranker = SemanticRanker(embedder, lexical=FieldedRanker(least_confidence=least_confidence))
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    return index


def test_a_request_that_no_tool_comes_near_to_finds_nothing(judging: Embedder, tools: list[Tool]) -> None:
    assert ready(judging, tools, least_confidence=0).search(_UNFIT)
    assert list(ready(judging, tools).search(_UNFIT)) == []


def test_a_request_that_is_near_in_meaning_is_answered_as_if_nothing_were_held_back(
    judging: Embedder, tools: list[Tool]
) -> None:
    answer = ready(judging, tools, least_confidence=0.6).search(_FITS)
    assert answer[0].name == "rent_car"
    assert list(answer) == list(ready(judging, tools, least_confidence=0).search(_FITS))
    assert not FieldedRanker(least_confidence=0.6)(tools).search(_FITS)


def test_a_request_without_a_common_word_is_judged_too(judging: Embedder, tools: list[Tool]) -> None:
    assert ready(judging, tools).search("limousine")[0].name == "rent_car"
    assert list(ready(replace(judging, weights=_NEVER), tools).search("limousine")) == []


@pytest.mark.parametrize("query", ["mail_box", "of the current mail", "read"])
def test_what_the_matching_floor_holds_is_never_held_back(judging: Embedder, tools: list[Tool], query: str) -> None:
    ranker = SemanticRanker(replace(judging, weights=_NEVER), lexical=FieldedRanker(least_confidence=1.0))
    index = floored(ranker)([*tools, Tool(name="of_the", description="Current mail.", input_schema={})])
    assert ranker.settle(SECONDS)
    assert "mail_box" in [hit.name for hit in index.search(query)]


@pytest.mark.parametrize("change", [{"knows": _unknown}, {"embed": _failing}, {"embed_queries": _failing}])
def test_words_alone_hold_back_where_nothing_is_known_of_meaning(
    judging: Embedder, tools: list[Tool], change: dict[str, Callable[..., object]]
) -> None:
    index = ready(replace(judging, **change), tools, least_confidence=0.7)
    by_words = FieldedRanker(least_confidence=0.7)(tools)
    for query in (_FITS, _UNFIT, "the best car of all"):
        assert list(index.search(query)) == list(by_words.search(query))
        assert index.signs(query) is None


def test_an_embedder_without_weights_leaves_what_words_find_to_the_words(judging: Embedder, tools: list[Tool]) -> None:
    index = ready(replace(judging, weights=None), tools, least_confidence=1.0)
    assert list(index.search(_UNFIT)) == []
    assert [hit.name for hit in index.search("limousine")] == ["rent_car"]


def test_a_ranking_of_words_that_knows_no_signs_holds_nothing_back(judging: Embedder, tools: list[Tool]) -> None:
    ranker = SemanticRanker(replace(judging, weights=_NEVER), lexical=SimpleRanker())
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert index.search(_UNFIT)
    assert index.signs(_UNFIT) is None


def test_hidden_tools_make_nobody_surer(judging: Embedder, tools: list[Tool]) -> None:
    seen = {"mail_box", "letter_1", "read_text"}
    only = ready(judging, [tool for tool in tools if tool.name in seen])
    index = ready(judging, tools)
    assert index.signs(_FITS, visible=seen) == only.signs(_FITS) != index.signs(_FITS)
    assert list(index.search(_FITS, visible=seen)) == []


def test_the_signs_of_meaning_are_the_nearest_of_the_first_tools_and_the_first_by_words(
    judging: Embedder, tools: list[Tool]
) -> None:
    index = ready(judging, tools)
    fits, unfit, two = map(index.signs, [_FITS, _UNFIT, f"{_UNFIT} {_FITS}"])
    assert fits is not None
    assert unfit is not None
    assert two is not None
    assert fits.cosine > 0.5 > unfit.cosine
    assert two.cosine == pytest.approx(fits.cosine)
    by_words = FieldedRanker()(tools)
    assert by_words.search(_FITS)[0].name == "read_text"
    assert fits.first_by_words < 0.5 < fits.cosine
    assert fits[: len(Signs._fields)] == by_words.signs(_FITS)
    assert confidence(fits, _NEAR_ALONE) > 0.5 > confidence(unfit, _NEAR_ALONE)
    no_word = index.signs("limousine")
    assert no_word is not None
    assert no_word.first_by_words == no_word.cosine > 0.5


def test_a_query_that_is_nearer_to_tools_of_other_domains_is_less_likely_to_be_served(
    judging: Embedder, tools: list[Tool]
) -> None:
    apart = replace(judging, weights=(0.0, _NEAR_ALONE[1]._replace(elsewhere=-20)))
    others = ["sell a limousine", *("boil an egg" for _ in range(20))]
    compared = replace(apart, others=lambda: judging.vectors(others[:1]))
    compared_with_many = replace(apart, others=lambda: judging.vectors(others))
    alone, beside, among_many = (
        ready(embedder, tools, least_confidence=0.1) for embedder in (apart, compared, compared_with_many)
    )
    signs = [found for index in (alone, beside, among_many) if (found := index.signs("limousine"))]
    assert [round(found.elsewhere, 1) for found in signs] == [0, 0.6, 0.1]
    assert [hit.name for hit in alone.search("limousine")] == ["rent_car"]
    assert list(beside.search("limousine")) == []


def test_the_bound_outlives_a_change(judging: Embedder, tools: list[Tool]) -> None:
    index = ready(judging, tools)
    assert isinstance(index, UpdatableIndex)
    changed = index.updated(["letter_1"], [])
    assert list(changed.search(_UNFIT)) == []
    assert changed.search(_FITS)[0].name == "rent_car"
