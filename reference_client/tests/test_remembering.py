"""A ranker that keeps what it read answers as one that does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import FieldedRanker, PlainRanker, Ranker
from mcp_ext_tools_search.ranking.fielded import FieldedIndex
from mcp_types import Tool
from tools_search_client.remembering import RememberingRanker

_WORDS = ("read", "mail", "send", "chart", "weather", "forecast", "mailbox")
_catalogues = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from(_WORDS), max_size=5), max_size=6)


def tools(catalogue: dict[str, list[str]]) -> list[Tool]:
    return [
        Tool(name=name, description=" ".join(words), input_schema={"type": "object"})
        for name, words in catalogue.items()
    ]


@pytest.mark.parametrize("ranker", [FieldedRanker(), PlainRanker()])
@settings(deadline=None, max_examples=40)
@given(catalogues=st.lists(_catalogues, max_size=6), most_kept=st.sampled_from([4, 100]))
def test_it_answers_as_if_it_had_seen_nothing_before(
    ranker: Ranker, catalogues: list[dict[str, list[str]]], most_kept: int
):
    remembering = RememberingRanker(ranker, most_kept=most_kept)
    for catalogue in map(tools, catalogues):
        for query in ("mail", "read the forecast", "wether"):
            fresh = ranker(catalogue)
            assert list(remembering(catalogue).search(query)) == list(fresh.search(query))
            assert list(remembering(catalogue).search(query, visible=["a", "x"])) == list(
                fresh.search(query, visible={"a", "x"} & {tool.name for tool in catalogue})
            )


def test_what_it_has_seen_is_not_read_again():
    read: list[int] = []

    def counting(catalogue: Sequence[Tool]) -> FieldedIndex:
        read.append(len(catalogue))
        return FieldedRanker()(catalogue)

    remembering = RememberingRanker(counting, most_kept=5)
    for catalogue in ({"a": ["read"], "b": ["mail"]}, {"b": ["mail"], "c": ["chart"]}, {"a": ["read"]}):
        remembering(tools(catalogue))
    assert read == [2]
    remembering(tools({name: ["send"] for name in "defgh"}))
    assert read == [2, 5], "with more than it keeps it begins anew"
