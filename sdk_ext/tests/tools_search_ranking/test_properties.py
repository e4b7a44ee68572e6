"""What holds for every ranking of every catalog, checked over generated ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_ext_tools_search.ranking.floor import floored, terms, tool_terms, trimmed
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from tools_search_ranking import FieldedRanker

_VOCABULARY: list[str] = [
    "get", "list", "delete", "remove", "user", "users", "file", "files", "issue", "weather", "wether",
    "Weather", "report", "getUserInfo", "v2", "the", "a", "café", "cafe", "天气预报", "查询天气", "погода", "рейс",
    "كتاب", "हिन्दी", "हि", "로그", "データ", "sending", "send", "mail", "mails", "🚀", "-",
    "tHe", "THE", "GetUserInfo", "aB1", "ab1", "x²", "½", "Ⅷ", "ﬁle", "İstanbul", "stanbul", "Straße", "iPhone手机",
    "手机", "天", "x" * 64, "X" * 65, "e\u0301", "get\u200cuser",
]  # fmt: skip
_WORD = st.sampled_from(_VOCABULARY)
_TEXT = st.lists(_WORD, max_size=6).map(" ".join)
_QUERY = st.one_of(st.lists(_WORD, min_size=1, max_size=5).map(" ".join), st.text(min_size=1, max_size=20))
_PROPERTY = st.fixed_dictionaries({"description": _TEXT})
_SCHEMA = st.dictionaries(_WORD, _PROPERTY, max_size=2)
_GROUP = st.none() | st.sampled_from(["mail", "weather service"])
_RANKERS = pytest.mark.parametrize(
    "ranker",
    [FieldedRanker(), FieldedRanker(least_confidence=0.5), FieldedRanker(least_confidence=1.0), SimpleRanker()],
    ids=["fielded", "fielded that may find nothing", "fielded that finds nothing if it can", "simple"],
)


@st.composite
def _tools(draw: st.DrawFn) -> list[Tool]:
    names = draw(st.lists(st.lists(_WORD, min_size=1, max_size=3).map("_".join), max_size=8, unique=True))
    return [_tool(name, draw(_TEXT), draw(st.none() | _TEXT), draw(_SCHEMA), draw(_GROUP)) for name in names]


def _tool(
    name: str, description: str, title: str | None, properties: Mapping[str, Mapping[str, str]], group: str | None
) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema={"type": "object", "properties": properties},
        _meta={EXTENSION_ID: {"group": group}} if group else None,
    )


def _only(tools: Sequence[Tool], visible: Collection[str]) -> list[Tool]:
    return [tool for tool in tools if tool.name in visible]


@_RANKERS
@given(tools=_tools(), query=_QUERY, data=st.data())
def test_neither_a_hidden_tool_nor_the_order_in_which_tools_come_changes_a_hit_a_score_or_the_order(
    ranker: Ranker, tools: list[Tool], query: str, data: st.DataObject
):
    visible = data.draw(st.sets(st.sampled_from([tool.name for tool in tools]))) if tools else set[str]()
    shuffled = data.draw(st.permutations(tools))
    index = floored(ranker)(tools)
    assert list(index.search(query, visible=visible)) == list(floored(ranker)(_only(tools, visible)).search(query))
    assert list(index.search(query)) == list(floored(ranker)(shuffled).search(query))


@_RANKERS
@given(tools=_tools(), query=_QUERY)
def test_hits_are_sound_and_none_is_missing_that_the_matching_floor_demands(
    ranker: Ranker, tools: list[Tool], query: str
):
    hits = list(floored(ranker)(tools).search(query))
    names = [hit.name for hit in hits]
    assert len(set(names)) == len(names)
    assert set(names) <= {tool.name for tool in tools}
    assert all(hit.matched and 0 < hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    for tool in tools:
        if tool.name == trimmed(query):
            assert names[0] == tool.name
        wanted = frozenset(terms(query))
        if wanted and wanted <= frozenset[str]().union(*tool_terms(tool).values()):
            assert tool.name in names
