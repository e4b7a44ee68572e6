"""The default ranking keeps the matching floor itself, without an index of the terms of all tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.terms import terms, tool_terms
from mcp_types import Tool
from tools_search_ranking import FieldedRanker, floored
from tools_search_ranking.own_floor import is_plain

_LETTERS = "aBeE12 -_.\u0301\u0130\u00e9\u00df\ufb01\u00b2\u2167天气手詢询ก\u0e31हि한국"
_TEXT = st.text(st.sampled_from(_LETTERS), max_size=12)


def test_no_other_floor_is_put_under_it():
    ranker = FieldedRanker()
    assert floored(ranker) is ranker


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Get the user's info — quickly!", True),
        ("查询天气 for iPhone手机", True),
        ("погода", True),
        ("查詢資料", True),
        ("café", False),
        ("हिन्दी", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("x " * 20_000, False),
    ],
)
def test_a_tool_is_plain_whose_terms_are_words_of_the_ranking(make_tool: Callable[..., Tool], text: str, plain: bool):
    assert is_plain(make_tool("tool", text)) is plain
    assert is_plain(make_tool(text)) is plain
    assert is_plain(make_tool("tool", title=text)) is plain


@given(texts=st.lists(_TEXT, min_size=1, max_size=4), query=_TEXT, cased=st.sampled_from([str, str.upper, str.title]))
def test_every_tool_with_all_terms_is_found_in_any_script_and_letter_case(
    texts: Sequence[str], query: str, cased: Callable[[str], str]
):
    tools = [Tool(name=f"t{place}", description=text, input_schema={}) for place, text in enumerate(texts)]
    for asked in (query, *texts):
        wanted = frozenset(terms(cased(asked)))
        having = {tool.name for tool in tools if wanted <= frozenset[str]().union(*tool_terms(tool).values())}
        for least_confidence in (0.0, 1.0):
            found = FieldedRanker(least_confidence=least_confidence)(tools).search(cased(asked))
            assert not wanted or having <= {hit.name for hit in found}


def test_a_tool_that_becomes_plain_is_found_by_its_new_words_alone(make_tool: Callable[..., Tool]):
    index = FieldedRanker()([make_tool("brew", "Brew café."), make_tool("other", "Something else.")])
    changed = index.updated(["brew"], [make_tool("brew", "Brew tea.")])
    assert [hit.name for hit in index.search("café")] == ["brew"]
    assert list(changed.search("café")) == []
    assert [hit.name for hit in changed.updated(["brew"], [make_tool("brew", "Naïve.")]).search("naïve")] == ["brew"]


def test_an_answer_that_is_held_back_keeps_the_tools_with_every_term(make_tool: Callable[..., Tool]):
    tools = [make_tool("one", "getuserinfo"), make_tool("two", "get the user"), make_tool("three", "info café")]
    ranker = FieldedRanker(least_confidence=1.0)
    assert [(hit.name, hit.score, hit.matched) for hit in ranker(tools).search("getUserInfo")] == [
        ("one", 1.0, ("description",))
    ]
    assert list(ranker(tools).search("getUserInfo", visible={"two", "three"})) == []
