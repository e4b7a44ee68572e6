"""Definitions and queries made to break or to stall a ranking."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker, ToolIndex
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from tools_search_ranking import FieldedRanker

_LONG = 100_000
_SECONDS = 5.0
_RANKERS = pytest.mark.parametrize("ranker", [FieldedRanker(), SimpleRanker()], ids=["fielded", "simple"])


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": "core"}
    for _ in range(depth):
        schema = {"properties": {"x": schema}, "items": {"$ref": "#"}}
    return schema


def _gibberish(words: int) -> str:
    letters = random.Random(1)  # noqa: S311  # the same words in every run
    return " ".join("".join(letters.choices(string.ascii_lowercase, k=8)) for _ in range(words))


_DESCRIPTIONS = [
    "a" * _LONG,
    "invoice " * (_LONG // 8),
    "\u0301" * _LONG,
    "天" * _LONG,
    "\u0130" * _LONG,
    "\ufdfa" * _LONG,
    "aB" * (_LONG // 2),
    "1a" * (_LONG // 2),
    "." * _LONG,
    ". " * (_LONG // 2),
    _gibberish(_LONG // 9),
    "\x00\ud800\u202e",
]


@_RANKERS
@pytest.mark.parametrize("description", _DESCRIPTIONS, ids=range(len(_DESCRIPTIONS)))
def test_no_description_is_too_long_or_too_strange(ranker: Ranker, make_tool: Callable[..., Tool], description: str):
    started = process_time()
    index = floored(ranker)([make_tool("victim", "Send an invoice."), make_tool("hostile", description)])
    assert index.search("victim")[0].name == "victim"
    assert all(hit.score <= 1 for hit in index.search(description[:10_000]))
    assert process_time() - started < _SECONDS


@pytest.fixture(scope="module")
def wordy(make_tool: Callable[..., Tool]) -> ToolIndex:
    """400 tools with 20,000 words."""
    vocabulary = _gibberish(20_000).split()
    tools = [make_tool(f"tool_{place}", " ".join(vocabulary[place::400])) for place in range(400)]
    return floored(FieldedRanker())(tools)


@pytest.mark.parametrize("query", _DESCRIPTIONS, ids=range(len(_DESCRIPTIONS)))
def test_the_work_for_a_query_is_bounded(wordy: ToolIndex, query: str):
    started = process_time()
    list(wordy.search(query[:_LONG]))
    assert process_time() - started < _SECONDS / 2


def test_a_deep_schema_is_read_as_far_as_is_sensible(make_tool: Callable[..., Tool]):
    tool = make_tool("deep", schema=_nested(20_000))
    assert list(FieldedRanker()([tool]).search("core")) == []
    assert FieldedRanker()([tool]).search("deep")[0].name == "deep"


def test_a_wide_schema_is_read_as_far_as_is_sensible(make_tool: Callable[..., Tool]):
    wide: dict[str, Any] = {"anyOf": [{"anyOf": [{}] * 300, "enum": ["x"] * 300}] * 3_000}
    started = process_time()
    FieldedRanker()([make_tool("wide", schema=wide)])
    assert process_time() - started < _SECONDS
