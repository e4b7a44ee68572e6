"""Configuration files as people keep them, and texts that are made to keep a reader busy."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from tools_search_hosts.lenient_json import load_lenient_json


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": [1, 2,], /* two, */ }', {"a": [1, 2]}),
        ('["a,]", "//", "/*", "\\",]",]', ["a,]", "//", "/*", '",]']),
        ('["a", // see [1]\n "b" /* } */, ]', ["a", "b"]),
        ('["a", /* one */ // two\n ]', ["a"]),
    ],
)
def test_comments_and_trailing_commas_count_for_nothing(text: str, means: Any) -> None:
    assert load_lenient_json(text) == means


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1} /* the end', "line 1 column 10"),
        ('{\n// why\n  "a": nil}', "line 3 column 8"),
        ('["a', "line 1 column 2"),
        ("[1 / 2]", "line 1 column 4"),
        ("[1 /* , */ 2, ]", "line 1 column 12"),
    ],
)
def test_what_is_wrong_even_so_is_refused_at_its_place(text: str, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        load_lenient_json(text)


@pytest.mark.parametrize(
    "text",
    [",/*" * 20_000, "[1" + ",//\n" * 20_000, "/*" * 50_000, '"' + '\\"' * 50_000 + "\\", "[1" + ",/**/" * 20_000],
    ids=["commas before comments", "comments after commas", "open comments", "escaped quotes", "commas and comments"],
)
def test_a_text_without_end_is_refused_at_once(text: str) -> None:
    started = process_time()
    with pytest.raises(ValueError, match=r"line [12] column"):
        load_lenient_json(text)
    assert process_time() - started < 1
