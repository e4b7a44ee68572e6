"""An index that is reached by changes answers exactly as one that is made at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from mcp_ext_tools_search.ranking import Hit, SimpleRanker, ToolIndex
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from tools_search_ranking import FieldedRanker, UpdatableIndex

_WORDS = ["get", "list", "delete", "user", "users", "file", "files", "weather", "weathr", "getUserInfo", "the", "café"]
_WORD = st.sampled_from([*_WORDS, "cafe", "天气预报", "查询天气", "погода", "sending", "send"])
_TEXT = st.lists(_WORD, max_size=5).map(" ".join)
_NAME = st.builds("{}_{}".format, st.sampled_from(["get", "send", "天气"]), st.sampled_from(["user", "file", "the"]))
_QUERY = st.lists(st.one_of(_WORD, _NAME), min_size=1, max_size=4).map(" ".join)
_RANKER = floored(FieldedRanker())


def _tool(name: str, description: str, parameter: str = "") -> Tool:
    return Tool(name=name, description=description, input_schema={"properties": {parameter: {}}})


def _updatable(index: ToolIndex) -> UpdatableIndex:
    assert isinstance(index, UpdatableIndex)
    return index


class ChangingCatalog(RuleBasedStateMachine):
    """A catalog whose tools come, go and change in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.tools: Mapping[str, Tool] = {}
        self.index = _updatable(_RANKER([]))
        self.before: tuple[ToolIndex, str, Sequence[Hit]] | None = None

    @rule(added=st.dictionaries(_NAME, st.tuples(_TEXT, _WORD), max_size=4), removed=st.sets(_NAME, max_size=3))
    def change(self, added: Mapping[str, tuple[str, str]], removed: Collection[str]) -> None:
        self.before = self.index, "get user file weather", list(self.index.search("get user file weather"))
        new = {name: _tool(name, *texts) for name, texts in added.items()}
        gone = (removed | new.keys()) & self.tools.keys()
        self.tools = {name: tool for name, tool in self.tools.items() if name not in gone} | new
        self.index = _updatable(self.index.updated(gone, list(new.values())))

    @rule(query=_QUERY, hidden=st.none() | st.sets(_NAME))
    def search(self, query: str, hidden: Collection[str] | None) -> None:
        visible = None if hidden is None else self.tools.keys() - hidden
        at_once = _RANKER(list(self.tools.values()))
        own, expected = (index.search(query, visible=visible) for index in (self.index, at_once))
        assert list(own) == list(expected)

    @invariant()
    def what_was_there_before_stays_as_it_was(self) -> None:
        if self.before:
            index, query, hits = self.before
            assert list(index.search(query)) == hits


TestChangingCatalog = ChangingCatalog.TestCase
TestChangingCatalog.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


def test_what_is_left_of_removed_tools_is_tidied_up_and_changes_nothing(make_tool: Callable[..., Tool]):
    tools = [make_tool(f"keep_{place}", f"Keep the weather of city{place}.") for place in range(30)]
    index = _updatable(_RANKER(tools))
    changing: list[Tool] = []
    for version in range(300):
        gone = [tool.name for tool in changing]
        changing = [make_tool(f"changing_{place}", f"weather{version}of{place} forecast") for place in range(2)]
        index = _updatable(index.updated(gone, changing))
    at_once = _RANKER([*tools, *changing])
    for query in ("weather forecast", "weather299of1", "weathers298of1 forcast", "keep city7", "changing"):
        assert list(index.search(query)) == list(at_once.search(query))
    assert list(index.search("weather7of0")) == list(at_once.search("weather7of0"))


def test_indexes_made_from_one_in_different_ways_do_not_disturb_each_other(make_tool: Callable[..., Tool]):
    index = _updatable(_RANKER([make_tool("a", "weather")]))
    own_words = [3 * first + 3 * second for first in "abcdef" for second in "uvwxyz"]

    def grown(word: str) -> ToolIndex:
        return index.updated((), [make_tool("b", f"Zebra {word}.")])

    with ThreadPoolExecutor(max_workers=4) as threads:
        branches = list(threads.map(grown, own_words))
    for branch, own, other in zip(branches, own_words, own_words[1:] + own_words[:1], strict=True):
        assert [hit.name for hit in branch.search("zebras")] == ["b"]
        assert [hit.name for hit in branch.search(own + "q")] == ["b"]
        assert list(branch.search(other)) == []


def test_removing_a_name_that_is_not_there_changes_nothing(make_tool: Callable[..., Tool]):
    index = _updatable(_RANKER([make_tool("a", "weather")]))
    assert [hit.name for hit in index.updated(["b"], []).search("weather")] == ["a"]


@pytest.mark.parametrize("ranker", [SimpleRanker()])
def test_an_index_that_cannot_be_updated_does_not_say_that_it_can(ranker: SimpleRanker):
    assert not isinstance(floored(ranker)([]), UpdatableIndex)
