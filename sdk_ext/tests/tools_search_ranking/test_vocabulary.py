from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.language import is_one_slip
from numpy.typing import NDArray
from tools_search_ranking.vocabulary import Vocabulary

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


_WORDS = ["weather", "leather", "forecast", "forecasting", "translat"]


def _vocabulary(words: Sequence[str]) -> Vocabulary:
    """Return a vocabulary of these stems."""
    vocabulary = Vocabulary()
    _add(vocabulary, words)
    return vocabulary


def _add(vocabulary: Vocabulary, stems: Sequence[str]) -> None:
    for stem in stems:
        vocabulary._new(stem, len(vocabulary))  # pyright: ignore[reportPrivateUsage] - words would be stemmed first


def _nearest(word: str, *known: str) -> list[str]:
    may_be_found = np.array([not known or word in known for word in _WORDS])
    return [other for other, _ in _vocabulary(_WORDS).nearest(word, may_be_found)]


def _all_of(count: int) -> NDArray[np.bool_]:
    return np.ones(count, dtype=np.bool_)


def test_the_nearest_words_come_best_first():
    assert _nearest("weathr") == ["weather"]
    assert _nearest("forecst") == ["forecast"]
    assert _nearest("tranlsat") == ["translat"]
    assert _nearest("forecastin") == ["forecasting", "forecast"]


def test_a_word_unlike_all_others_is_near_none():
    assert _nearest("qqqq") == []
    assert _nearest("market") == []


@given(st.text(st.sampled_from("abcdefé天"), min_size=4, max_size=9), st.data())
def test_a_word_is_found_by_any_slip_in_it(word: str, data: st.DataObject):
    place = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("abxy"))
    more, wrong = (word[:place] + letter + word[end:] for end in (place, place + 1))
    swapped = word[:place] + word[place : place + 2][::-1] + word[place + 2 :]
    for slip in {more, wrong, swapped, word[:place] + word[place + 1 :]} - {word}:
        if len(slip) > 3:
            [(other, likeness)] = _vocabulary(["zzzz", word]).nearest(slip, _all_of(2))
            assert other == word
            assert likeness >= 0.75


def test_forms_of_a_word_are_near_and_words_that_merely_end_alike_are_not():
    vocabulary = _vocabulary(["visual", "location", "magnetic"])
    assert [other for other, _ in vocabulary.nearest("visually", _all_of(3))] == ["visual"]
    assert vocabulary.nearest("vacation", _all_of(3)) == []


def test_of_very_many_words_that_are_like_one_few_are_looked_at_whatever_their_numbers():
    alike = [f"weather{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]
    one, other = _vocabulary(alike), _vocabulary(alike[::-1])
    found = one.nearest("weatherxx", _all_of(100))
    assert found == other.nearest("weatherxx", _all_of(100)) != []


def test_words_that_are_not_known_are_not_offered():
    assert _nearest("weathr", "forecast") == []


def test_words_that_came_later_than_the_known_ones_are_not_offered():
    vocabulary = _vocabulary([*_WORDS, "weathe"])
    before, after = (vocabulary.nearest("weathr", _all_of(count)) for count in (5, 6))
    assert [other for other, _ in before] == ["weather"]
    assert sorted(other for other, _ in after) == ["weathe", "weather"]


def test_an_empty_vocabulary_knows_no_word():
    assert Vocabulary().nearest("weather", _all_of(0)) == []


@given(st.lists(st.text("abcdé天", min_size=3, max_size=9), max_size=30, unique=True), st.lists(st.integers(0, 30)))
def test_a_vocabulary_that_grew_finds_what_one_made_at_once_finds(words: Sequence[str], steps: Sequence[int]):
    asked = ["abcd", "bbébb", "天天天天", "dcbadcba"]
    grown = Vocabulary()
    added = 0
    for step in [*sorted(steps), len(words)]:
        _add(grown, words[added:step])
        added = max(added, min(step, len(words)))
        at_once = _vocabulary(words[:added])
        for word in asked:
            found = grown.nearest(word, _all_of(added))
            assert found == at_once.nearest(word, _all_of(added))
            assert all(0.5 < likeness <= 1 for _, likeness in found)
