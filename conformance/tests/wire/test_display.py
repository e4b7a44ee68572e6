"""Values of a target are shown in brief, and their memory is known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tools_search_conformance.wire.display import abridged, cut_within, memory, plain


def test_a_large_value_is_shown_by_its_beginning_and_says_so():
    value: dict[str, Any] = {"text": "x" * 1_000_000, "items": list(range(100_000)), "n" * 1000: {"deep": [[[[]]]]}}
    shown = abridged(value)
    assert len(json.dumps(shown)) < 10_000
    assert shown["text"].endswith("(1000000 characters)")
    assert "more items" in shown["items"][-1]


def test_a_long_message_keeps_its_end_which_says_what_is_wrong():
    shown = cut_within(f"{'W' * 3000} is listed otherwise", 100)
    assert shown.startswith("WWW")
    assert "… (3020 characters) …" in shown
    assert shown.endswith("W is listed otherwise")
    assert len(shown) == 100
    assert cut_within("short", 100) == "short"


def test_a_small_value_is_shown_whole():
    value: dict[str, Any] = {"a": [1, 2.5, None, True, "text"], "b": {"c": {}}}
    assert abridged(value) == value


def test_memory_grows_with_what_a_value_holds():
    assert memory({"a": "x" * 1000}) < memory({"a": "x" * 100_000}) < memory({"a": "\U0001f527" + "x" * 100_000})
    assert memory([[]] * 1000) > 50_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain — ü 检索", "plain — ü 检索"), ("a\nb", "a\\u000ab"), ("\U000e0001", "\\U000e0001"), ("\u2028", "\\u2028")],
)
def test_text_is_shown_on_one_line(text: str, shown: str):
    assert plain(text) == shown


def test_long_text_is_cut():
    assert plain("x" * 50, most=10) == "xxxxxxxxxx… (50 characters)"
