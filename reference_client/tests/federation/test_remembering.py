"""A ranker that keeps what it read answers as one that does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_types import Tool
from tools_search_client.federation.merging import RememberingRanker
from tools_search_ranking import FieldedRanker
from tools_search_ranking.ranker import FieldedIndex

_WORDS = ("read", "mail", "send", "chart", "weather", "forecast", "mailbox")
_catalogs = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from(_WORDS), max_size=5), max_size=6)


def tools(catalog: dict[str, list[str]]) -> list[Tool]:
    return [
        Tool(name=name, description=" ".join(words), input_schema={"type": "object"}) for name, words in catalog.items()
    ]


@pytest.mark.parametrize("ranker", [FieldedRanker(), SimpleRanker()])
@settings(deadline=None, max_examples=40)
@given(catalogs=st.lists(_catalogs, max_size=6), most_kept=st.sampled_from([4, 100]))
def test_it_answers_as_if_it_had_seen_nothing_before(
    ranker: Ranker, catalogs: list[dict[str, list[str]]], most_kept: int
):
    remembering = RememberingRanker(ranker, most_kept=most_kept)
    for catalog in map(tools, catalogs):
        for query in ("mail", "read the forecast", "wether"):
            fresh = ranker(catalog)
            assert list(remembering(catalog).search(query)) == list(fresh.search(query))
            assert list(remembering(catalog).search(query, visible=["a", "x"])) == list(
                fresh.search(query, visible={"a", "x"} & {tool.name for tool in catalog})
            )


def test_what_it_has_seen_is_not_read_again():
    read: list[int] = []

    def counting(catalog: Sequence[Tool]) -> FieldedIndex:
        read.append(len(catalog))
        return FieldedRanker()(catalog)

    remembering = RememberingRanker(counting, most_kept=5)
    for catalog in ({"a": ["read"], "b": ["mail"]}, {"b": ["mail"], "c": ["chart"]}, {"a": ["read"]}):
        remembering(tools(catalog))
    assert read == [2]
    remembering(tools({name: ["send"] for name in "defgh"}))
    assert read == [2, 5], "with more than it keeps it begins anew"
