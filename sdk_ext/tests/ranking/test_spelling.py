from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.spelling import Spelling, edits

_SHORT_TEXT = st.text(st.sampled_from("abc"), max_size=8)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("", "", 0),
        ("mail", "mail", 0),
        ("", "abc", 3),
        ("wether", "weather", 1),
        ("sned", "send", 1),
        ("cat", "dog", 3),
    ],
)
def test_edits_are_the_slips_of_a_typist(left: str, right: str, expected: int):
    assert edits(left, right) == expected


@given(_SHORT_TEXT, _SHORT_TEXT)
def test_edits_are_symmetric_and_bounded(left: str, right: str):
    assert edits(left, right) == edits(right, left)
    assert abs(len(left) - len(right)) <= edits(left, right) <= max(len(left), len(right))
    assert (edits(left, right) == 0) == (left == right)


def _near(word: str, *known: str) -> list[str]:
    spelling = Spelling(["weather", "leather", "forecast", "forecasting", "translat"])
    return [found for found, _ in spelling.nearest(word, 2, known=lambda one: not known or one in known)]


def test_the_nearest_words_come_best_first():
    assert _near("weathr") == ["weather"]
    assert _near("forecst") == ["forecast"]
    assert _near("tranlsat") == ["translat"]


def test_a_word_unlike_all_others_is_near_none():
    assert _near("qqqq") == []
    assert _near("market") == []


def test_words_that_are_not_known_are_not_offered():
    assert _near("weathr", "forecast") == []


def test_an_empty_vocabulary_knows_no_word():
    assert Spelling([]).nearest("weather", 2, known=lambda _: True) == []
