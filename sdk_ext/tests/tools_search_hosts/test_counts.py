"""Counts with their nouns."""

from __future__ import annotations

import pytest
from tools_search_hosts.counts import number_of


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 tools"), (1, "1 tool"), (2, "2 tools"), (1_234, "1,234 tools"), (1.0, "1 tool"), (0.5, "0.5 tools")],
)
def test_a_count_agrees_with_its_noun(count: float, text: str) -> None:
    assert number_of(count, "tool") == text


def test_a_noun_may_have_a_plural_of_its_own() -> None:
    assert [number_of(count, "search", "searches") for count in (1, 2)] == ["1 search", "2 searches"]
