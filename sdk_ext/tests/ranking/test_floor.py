from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_types import Tool
from tools_search_ranking import Floor, floored, with_floor
from tools_search_ranking.hits import LazyHits


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
    assert with_floor(" search\u3000", tools, hits)[:2] == [Hit("search", 1.0, ("name", "title")), hits[0]]


def test_letter_case_tells_names_apart(tools: Sequence[Tool]):
    assert with_floor("Search", tools, [])[0].name == "Search"


def test_a_name_that_was_not_found_comes_first_too(tools: Sequence[Tool]):
    assert with_floor("zip", tools, [Hit("search", 1.0)]) == [Hit("zip", 1.0, ("name",)), Hit("search", 1.0)]


def test_tools_with_every_term_are_among_the_matches(tools: Sequence[Tool]):
    found = with_floor("repository CODE", tools, [Hit("search", 0.7)])
    assert found == [
        Hit("search", 0.7),
        Hit("search_code", 0.7, ("name", "description")),
        Hit("zip", 0.7, ("description",)),
    ]


def test_terms_may_be_spread_over_name_title_and_description(tools: Sequence[Tool]):
    assert with_floor("everything code", tools, []) == [Hit("search", 1.0, ("title", "description"))]


@pytest.mark.parametrize("query", ["repository zebra", "?!", "zebra"])
def test_a_tool_without_one_of_the_terms_is_not_added(tools: Sequence[Tool], query: str):
    assert with_floor(query, tools, []) == []


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
