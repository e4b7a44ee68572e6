"""The matching floor under any ranking, and under the default one, which keeps it without an index of all terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Hit, Ranker, SimpleRanker, ToolIndex
from mcp_ext_tools_search.ranking.floor import Floor, floored, terms, tool_terms
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.hits import LazyHits

_LETTERS = "aBeE12 -_.\u0301\u0130\u00e9\u00df\ufb01\u00b2\u2167天气手詢询ก\u0e31हि한국"
_TEXT = st.text(st.sampled_from(_LETTERS), max_size=12)


class _Fixed:
    """A ranking that always finds the same."""

    def __init__(self, *hits: Hit) -> None:
        self._hits = hits

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return [hit for hit in self._hits if visible is None or hit.name in visible]


def _ranker(*hits: Hit) -> Ranker:
    def index(_: Sequence[Tool], /) -> ToolIndex:
        return _Fixed(*hits)

    return index


@pytest.fixture(scope="module")
def tools(make_tool: Callable[..., Tool]) -> list[Tool]:
    return [
        make_tool("search_code", "Find code in a repository."),
        make_tool("search", "Search everything.", title="Code search"),
        make_tool("Search", "Another one."),
        make_tool("zip", "Compress the code of a repository."),
    ]


def test_the_tool_of_that_name_comes_first(tools: Sequence[Tool]):
    hits = [Hit("search_code", 1.0, ("name",)), Hit("search", 0.5, ("title",))]
    assert Floor(tools).under(" search\u3000", hits)[:2] == [Hit("search", 1.0, ("name", "title")), hits[0]]


def test_control_characters_around_a_name_are_no_white_space(tools: Sequence[Tool]):
    hits = [Hit("search_code", 1.0, ("name",))]
    assert Floor(tools).under("\x1csearch\x1f", hits)[0] == hits[0]


def test_a_name_that_is_the_query_as_it_stands_goes_before_one_without_its_white_space(make_tool: Callable[..., Tool]):
    tools = [make_tool(name, "Prints.") for name in ("print", " print ", "print ", "?!")]
    for ranker in (FieldedRanker(), floored(SimpleRanker()), floored(_ranker())):
        index = ranker(tools)
        for query, name in ((" print ", " print "), ("print ", "print "), ("  print ", "print"), ("print", "print")):
            assert index.search(query)[0].name == name
        assert index.search(" print ", visible={"print", "print "})[0].name == "print"
        assert [hit.name for hit in index.search("?!", visible={"?!"})] == ["?!"]


def test_letter_case_tells_names_apart(tools: Sequence[Tool]):
    assert Floor(tools).under("Search", [])[0].name == "Search"


def test_a_name_that_was_not_found_comes_first_too(tools: Sequence[Tool]):
    for visible in (None, {"zip", "search"}):
        found = Floor(tools).under("zip", [Hit("search", 1.0)], visible)
        assert found == [Hit("zip", 1.0, ("name",)), Hit("search", 1.0)]


def test_tools_with_every_term_are_among_the_matches(tools: Sequence[Tool]):
    found = Floor(tools).under("repository CODE", [Hit("search", 0.7)])
    assert found == [
        Hit("search", 0.7),
        Hit("search_code", 0.7, ("name", "description")),
        Hit("zip", 0.7, ("description",)),
    ]


def test_tools_that_the_ranking_missed_follow_in_the_order_of_their_names(make_tool: Callable[..., Tool]):
    tools = [make_tool(f"zip_{number}", "Compress.") for number in (5, 2, 8, 1, 7, 3, 6, 4)]
    assert [hit.name for hit in Floor(tools).under("compress", [])] == [f"zip_{number}" for number in range(1, 9)]


def test_terms_may_be_spread_over_name_title_and_description(tools: Sequence[Tool]):
    assert Floor(tools).under("everything code", []) == [Hit("search", 1.0, ("title", "description"))]


@pytest.mark.parametrize("query", ["repository zebra", "?!", "zebra"])
def test_a_tool_without_one_of_the_terms_is_not_added(tools: Sequence[Tool], query: str):
    assert Floor(tools).under(query, []) == []


def test_what_keeps_the_floor_is_left_as_it_is(tools: Sequence[Tool]):
    floor = Floor(tools)
    names = ["zip", "search_code"]
    hits = LazyHits(2, lambda: names, lambda places: [Hit(names[place], 1.0, ("name",)) for place in places])
    assert floor.under("repository", hits) is hits
    assert floor.under("zip", hits) is hits


def test_a_hidden_tool_is_not_added(tools: Sequence[Tool]):
    index = floored(_ranker())(tools)
    assert [hit.name for hit in index.search("search", visible={"search_code", "zip"})] == ["search_code"]
    assert list(index.search("zip", visible={"search"})) == []


def test_scores_never_rise(tools: Sequence[Tool]):
    hits = [Hit("Search", 0.9), Hit("search", 0.2, ("name",))]
    found = floored(_ranker(*hits))(tools).search("search")
    assert [(hit.name, hit.score) for hit in found] == [("search", 1.0), ("Search", 0.9), ("search_code", 0.2)]


def test_no_other_floor_is_put_under_it():
    ranker = FieldedRanker()
    assert floored(ranker) is ranker


@pytest.mark.parametrize(
    "text",
    [
        "Get the user's info — quickly!",
        "查询天气 for iPhone手机",
        "погода",
        "查詢資料",
        "café",
        "हिन्दी",
        "x" * 64,
        "x" * 65,
        "x " * 20_000 + "last",
    ],
)
def test_each_term_of_a_name_a_title_or_a_description_finds_its_tool_though_the_ranking_reads_other_words(
    make_tool: Callable[..., Tool], text: str
):
    tools = [make_tool("described", text), make_tool(text), make_tool("titled", title=text)]
    index = FieldedRanker(least_confidence=1.0)(tools)
    for term in set(terms(text)):
        assert {hit.name for hit in index.search(term)} == {"described", text, "titled"}
        assert [hit.name for hit in index.search(term, visible={"titled"})] == ["titled"]


def test_tools_whose_term_the_ranking_does_not_read_follow_its_last_hit_with_its_score(make_tool: Callable[..., Tool]):
    unread = "x " * 20_000 + "last"
    tools = [make_tool("last"), make_tool("read", "The last one."), make_tool("far", unread), make_tool("away", unread)]
    hits = FieldedRanker()(tools).search("last")
    assert [hit.name for hit in hits] == ["last", "read", "away", "far"]
    assert hits[0].score > hits[1].score
    assert {(hit.score, hit.matched) for hit in hits[1:]} == {(hits[1].score, ("description",))}


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
