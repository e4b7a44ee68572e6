from __future__ import annotations

from collections.abc import Callable

import pytest
from mcp_ext_tools_search.ranking import Hit, SimpleRanker, ToolIndex
from mcp_types import Tool


@pytest.fixture(scope="module")
def index(make_tool: Callable[..., Tool]) -> ToolIndex:
    return SimpleRanker()(
        [
            make_tool("get_weather", "Weather of a city."),
            make_tool("send_mail", "Send a message.", title="Mail"),
            make_tool("read_file", "Read a text file."),
            make_tool("write_file", "Write a text to a file."),
        ]
    )


def test_the_best_tool_comes_first_with_score_one(index: ToolIndex):
    hits = index.search("send mail")
    assert hits[0] == Hit("send_mail", 1.0, ("name", "title", "description"))


def test_only_tools_that_share_a_word_are_found(index: ToolIndex):
    assert [hit.name for hit in index.search("weather")] == ["get_weather"]
    assert list(index.search("zebra")) == []
    assert list(index.search("?!")) == []


def test_scores_fall(index: ToolIndex):
    scores = [hit.score for hit in index.search("write a text file to the city")]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0


def test_equal_tools_are_ordered_by_name_in_whatever_order_they_come(make_tool: Callable[..., Tool]):
    tools = [make_tool(f"send_{noun}", "Send a message.") for noun in ("mail", "card", "note", "memo")]
    for listed in (tools, tools[::-1]):
        hits = SimpleRanker()(listed).search("message")
        assert [hit.name for hit in hits] == ["send_card", "send_mail", "send_memo", "send_note"]


def test_a_hidden_tool_changes_nothing(index: ToolIndex, make_tool: Callable[..., Tool]):
    visible = {"read_file", "send_mail"}
    alone = SimpleRanker()(
        [make_tool("read_file", "Read a text file."), make_tool("send_mail", "Send a message.", title="Mail")]
    )
    assert index.search("text message", visible=visible) == alone.search("text message")
    assert list(index.search("weather", visible=visible)) == []


def test_words_are_counted_where_their_idf_is_zero(make_tool: Callable[..., Tool]):
    # Each word is in half of the tools, where Okapi's idf is log(1).
    index = SimpleRanker()([make_tool("alpha", "one two"), make_tool("beta", "three four")])
    assert [hit.name for hit in index.search("two three one")] == ["alpha", "beta"]


def test_a_catalog_without_words_finds_nothing(make_tool: Callable[..., Tool]):
    assert list(SimpleRanker()([]).search("anything")) == []
    assert list(SimpleRanker()([make_tool("_")]).search("anything")) == []


def test_a_stop_word_that_is_written_as_two_is_passed_over(make_tool: Callable[..., Tool]):
    index = SimpleRanker()([make_tool("send_mail", "Please send a message.")])
    assert [hit.name for hit in index.search("pl ease send")] == ["send_mail"]


def test_in_a_catalog_of_stop_words_they_are_found(make_tool: Callable[..., Tool]):
    index = SimpleRanker()([make_tool("the"), make_tool("of")])
    assert index.search("the") == [Hit("the", 1.0, ("name",))]
