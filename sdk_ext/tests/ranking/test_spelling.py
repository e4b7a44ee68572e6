from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.spelling import Spelling, is_one_slip

_SHORT_TEXT = st.text(st.sampled_from("abc"), max_size=6)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("wether", "weather"), ("weaather", "weather"), ("weathor", "weather"), ("sned", "send"), ("x", ""), ("ba", "ab")],
)
def test_a_slip_is_a_letter_too_many_too_few_or_wrong_or_two_swapped(typed: str, meant: str):
    assert is_one_slip(typed, meant)
    assert is_one_slip(meant, typed)


@pytest.mark.parametrize(("typed", "meant"), [("mail", "mail"), ("", ""), ("cat", "dog"), ("abc", "cab"), ("ab", "cd")])
def test_what_is_equal_or_further_apart_is_no_slip(typed: str, meant: str):
    assert not is_one_slip(typed, meant)


@given(_SHORT_TEXT, st.data())
def test_every_single_slip_is_seen(word: str, data: st.DataObject):
    place = data.draw(st.integers(0, len(word)))
    letter = data.draw(st.sampled_from("abcd"))
    assert is_one_slip(word, word[:place] + letter + word[place:])
    wrong = word[:place] + letter + word[place + 1 :]
    assert is_one_slip(word, wrong) or wrong == word
    swapped = word[:place] + word[place : place + 2][::-1] + word[place + 2 :]
    assert is_one_slip(word, swapped) or swapped == word


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
