"""The engine ranks as the readable ranker of the port does, which shares with it words, fields and terms, and no more.

They find the same tools with the same scores, up to rounding. By design they differ in catalogs of so
many similar words that the engine looks closely at some of them only, and in holding answers back.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Hit, SimpleRanker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.translation import in_english

_WORDS = """
    get list delete remove removing file files filed user users weather wether forecast report reports log out logout
    sending send mail e-mail getUserInfo sha256 v2 repo repository config pr pull request create new the of please
    café cafe naïve погода рейс 天气预报 查询天气 查 请帮我查天气 发送訊息 로그 검색 データ हिन्दी x² visual visually
    2024 lösche die nicht dateien Wetterbericht mañana удали
    """
WORD = st.sampled_from(_WORDS.split())
_TEXT = st.lists(WORD, max_size=10).map(" ".join)
NAME = st.lists(WORD, min_size=1, max_size=3).map("_".join)
_PARAMETERS = st.dictionaries(WORD, WORD, max_size=3)
PARTS = {"title": st.none() | _TEXT, "description": _TEXT, "group": st.none() | WORD, "parameters": _PARAMETERS}
_CATALOG = st.dictionaries(NAME, st.fixed_dictionaries(PARTS), min_size=1, max_size=8)
QUERY = st.lists(WORD, min_size=1, max_size=6).map(" ".join)
_SAME_SCORE = 1e-6


def tool_of(name: str, parts: Mapping[str, Any]) -> Tool:
    parameters = parts["parameters"].items()
    return Tool(
        name=name,
        title=parts["title"],
        description=parts["description"],
        input_schema={"type": "object", "properties": {own: {"description": said} for own, said in parameters}},
        _meta={EXTENSION_ID: {"group": parts["group"]}} if parts["group"] else None,
    )


def assert_alike(own: Sequence[Hit], expected: Sequence[Hit]) -> None:
    assert {hit.name: hit.score for hit in own} == pytest.approx(
        {hit.name: hit.score for hit in expected}, abs=_SAME_SCORE
    )
    assert {hit.name: hit.matched for hit in own} == {hit.name: hit.matched for hit in expected}
    scores = {hit.name: hit.score for hit in expected}
    for before, after in pairwise(own):
        assert scores[before.name] >= scores[after.name] - _SAME_SCORE


@settings(max_examples=150, deadline=None)
@given(catalog=_CATALOG, query=QUERY)
def test_the_same_tools_are_found_in_the_same_order_with_the_same_scores(
    catalog: Mapping[str, Mapping[str, Any]], query: str
):
    tools = [tool_of(name, parts) for name, parts in catalog.items()]
    assert_alike(FieldedRanker()(tools).search(query), floored(SimpleRanker(in_english))(tools).search(query))


@settings(max_examples=60, deadline=None)
@given(catalog=_CATALOG, added=_CATALOG, query=QUERY, data=st.data())
def test_after_a_change_and_for_a_caller_who_sees_a_part_as_well(
    catalog: Mapping[str, Mapping[str, Any]],
    added: Mapping[str, Mapping[str, Any]],
    query: str,
    data: st.DataObject,
):
    removed = data.draw(st.sets(st.sampled_from(sorted(catalog)))) | (catalog.keys() & added.keys())
    left = {
        name: tool_of(name, parts) for name, parts in {**catalog, **added}.items() if name not in removed - added.keys()
    }
    visible: Collection[str] = data.draw(st.sets(st.sampled_from(sorted(left)))) if left else ()
    index = FieldedRanker()([tool_of(name, parts) for name, parts in catalog.items()])
    changed = index.updated(removed, [tool_of(name, parts) for name, parts in added.items()])
    expected = floored(SimpleRanker(in_english))([tool for name, tool in left.items() if name in visible])
    assert_alike(changed.search(query, visible=visible), expected.search(query))


def test_a_large_catalog_is_ranked_alike_whether_its_first_page_is_read_or_all_of_it():
    seeded = random.Random(1)  # noqa: S311 - the same catalog each time
    said = ["get", "list", "delete", "file", "user", "weather", "report", "mail", "repository", "new", "天气", "café"]

    def large(first: int, last: int) -> list[Tool]:
        parts = {"title": None, "group": None, "parameters": {"file": "naïve"}}
        return [
            tool_of(f"{seeded.choice(said)}_{place}", {**parts, "description": " ".join(seeded.choices(said, k=30))})
            for place in range(first, last)
        ]

    old, left, new = large(0, 700), large(700, 1_600), large(1_600, 2_300)
    index = FieldedRanker()(old + left).updated([tool.name for tool in old], new)
    readable = floored(SimpleRanker(in_english))(left + new)
    for query in ("delete file", "get weather café", " ".join(said)):
        found = index.search(query)
        page = list(found[:20])
        assert page == list(found)[:20]
        assert_alike(found, readable.search(query))
