"""The words of a request that no visible tool mentions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_types import Tool
from tools_search_ranking import FieldedRanker, unknown_words

_WORDS = [
    "invoice",
    "invoices",
    "log",
    "out",
    "logout",
    "getUserInfo",
    "user",
    "erase",
    "слово",
    "the",
    "x",
    "天气",
    "42",
]
_TEXT = st.lists(st.sampled_from(_WORDS), max_size=4).map(" ".join)
_TOOLS = st.lists(_TEXT, min_size=1, max_size=5).map(
    lambda texts: [
        Tool(name=f"tool_{place}", description=text, input_schema={"type": "object"})
        for place, text in enumerate(texts)
    ]
)


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("send an invoice to the pharaoh", ["pharaoh"]),
        ("SENDING invoices to Pharaohs, please", ["pharaohs"]),
        ("sned an invoce", []),  # slips
        ("erase the invoice", []),  # another word for `delete`
        ("log out", []),
        ("deleteInvoice of 2024-11-03 for a b", []),
        ("发票 pharaoh", ["pharaoh"]),
        ("the", []),
    ],
)
def test_words_that_no_tool_has_in_any_form_are_named(make_tool: Callable[..., Tool], query: str, unknown: list[str]):
    tools = [make_tool("send_invoice"), make_tool("delete_invoice"), make_tool("logout")]
    assert list(unknown_words(FieldedRanker()(tools), query)) == unknown


def test_an_index_that_does_not_know_its_words_names_none(make_tool: Callable[..., Tool]):
    assert not unknown_words(SimpleRanker()([make_tool("send_invoice")]), "resurrect a pharaoh")


@given(tools=_TOOLS, query=_TEXT, data=st.data())
def test_words_of_hidden_tools_are_as_unknown_as_if_there_were_no_such_tools(
    tools: list[Tool], query: str, data: st.DataObject
):
    visible = data.draw(st.sets(st.sampled_from([tool.name for tool in tools])))
    alone = FieldedRanker()([tool for tool in tools if tool.name in visible])
    assert list(unknown_words(FieldedRanker()(tools), query, visible=visible)) == list(unknown_words(alone, query))


@given(tools=_TOOLS, query=_TEXT)
def test_what_is_unknown_finds_nothing_alone_and_leaves_out_nothing(tools: list[Tool], query: str):
    index = FieldedRanker()(tools)
    unknown = unknown_words(index, query)
    assert not [word for word in unknown if index.search(word)]
    left = " ".join(word for word in query.split() if word.casefold() not in unknown)
    assert not unknown_words(index, left)
