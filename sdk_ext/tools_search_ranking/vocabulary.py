"""The terms of an index: their keys, their numbers, and the nearest ones to a misspelled word.

Terms are words as they are written, their stems, and those terms of the draft's matching floor that are no words here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import nsmallest
from itertools import compress
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.language import is_character, is_one_slip, is_unspaced, stem, trigram_overlap
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS
from numpy.typing import NDArray

from tools_search_ranking.postings import MOST

NO_TERM: Final = -1
"""Stands where a word has no stem."""

_SHORTEST_CORRECTED: Final = 4

_MIN_ALIKE: Final = 0.55
_START: Final = 4
"""Letters with which words begin that are forms of one another: `visually` and `visual`."""

_MAX_EXAMINED: Final = 40
"""Words that begin alike, and as many that have like letters, that are looked at closely."""

_LETTERS: Final = 32
_MAX_LENGTH: Final = 32
_MAX_CHANGED: Final = 2
"""Bits of its shape in which a word changes by one slip, at most: two letters, or one and its length."""


def surface(word: str) -> str:
    """Return the key of `word` as it is written, which no stem can be."""
    return "=" + word


def lookup_key(word: str) -> str:
    """Return the key by which queries find `word` as it is written: its stem, if that is no other word's as well."""
    return word if is_unspaced(word) and not is_character(word) else surface(word)


def term_key(term: str) -> str:
    """Return the key of a term of the draft that is no word of the ranking, as `café`, which it reads as `cafe`."""
    return "~" + term


def may_be_misspelled(stemmed: str) -> bool:
    """Return whether a word is long enough for a slip in it to differ from other words, and is no number."""
    return len(stemmed) >= _SHORTEST_CORRECTED and not stemmed.isdigit()


class Vocabulary:
    """Numbers of terms: of stems, and of words as they are written.

    It only grows, so indexes of which one was made from another share it; a number greater than those that an index was
    made with belongs to a term that the index does not have.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.spelling = Spelling()
        """Stems that a request may have meant."""
        self.spelled = array("i")
        """By number of a word in `spelling`, the number of the term."""
        self.lock = Lock()
        """Held while words are added."""
        self.stems = array("i")
        """By number, the number of the term's stem, which a stem is itself; `NO_TERM` where there is none."""

    def __len__(self) -> int:
        return len(self.stems)

    def add(self, word: str) -> int:
        """Return the number of `word` as it is written, which is that of its stem if no other word has that.

        A stop word has no stem: it is kept as it is written, for queries of nothing else. Nor has a character, which is
        counted in the pairs that it is in. These pairs are kept as stems alone, as nobody writes them otherwise.

        Raises:
            ValueError: There are more terms than one index can hold.
        """
        key = lookup_key(word)
        number = self.numbers.get(key)
        if number is not None:
            return number
        if key == word:
            return self._new(key, len(self))
        if word in STOP_WORDS or is_character(word):
            return self._new(key, NO_TERM)
        stemmed = stem(word)
        of_stem = self.numbers.get(stemmed)
        return self._new(key, self._new(stemmed, len(self)) if of_stem is None else of_stem)

    def add_key(self, key: str) -> int:
        """Return the number of the term with this key, which has no stem.

        Raises:
            ValueError: There are more terms than one index can hold.
        """
        number = self.numbers.get(key)
        return self._new(key, NO_TERM) if number is None else number

    def only(self, kept: NDArray[np.bool_]) -> Vocabulary:
        """Return a vocabulary that has the terms `kept` alone, numbered in their order; a word is kept with its stem.

        Args:
            kept: By number; none from its end on.
        """
        vocabulary = Vocabulary()
        new: list[int] = (np.cumsum(kept) - 1).tolist()
        with self.lock:
            known = list(zip(self.numbers, self.stems, strict=True))
        for term, of_stem in compress(known, kept.tolist()):
            vocabulary._new(term, of_stem if of_stem == NO_TERM else new[of_stem])
        return vocabulary

    def _new(self, term: str, of_stem: int) -> int:
        number = len(self)
        if number >= MOST:
            raise ValueError(f"these tools have more than {MOST} different words")
        self.stems.append(of_stem)
        self.numbers[term] = number
        if of_stem == number and may_be_misspelled(term) and term.isalpha():
            # In this order, as other threads may be looking: a word that has a number can be found.
            self.spelling.add(term)
            self.spelled.append(number)
        return number


class Spelling:
    """A vocabulary that finds the nearest of its words, and that may grow while it is asked.

    Words are near that one slip of a typist sets apart, or that begin alike and share most of their trigrams (Dice's
    coefficient). The cost of a look-up is bounded: few candidates are looked at closely.
    """

    def __init__(self, vocabulary: Iterable[str] = ()) -> None:
        self._words: list[str] = []
        self._beginning: dict[str, list[int]] = {}
        self._shapes = np.zeros(0, dtype=np.uint64)
        self._lock = Lock()
        for word in vocabulary:
            self.add(word)

    def add(self, word: str) -> None:
        """Add a word that is not there, which gets the next number from 0 on."""
        self._beginning.setdefault(word[:_START], []).append(len(self._words))
        self._words.append(word)

    def nearest(self, word: str, most: int, known: NDArray[np.bool_]) -> list[tuple[int, float]]:
        """Return the numbers of up to `most` words that are near, best first, each with its likeness in (0, 1].

        Args:
            word: An unknown word.
            most: The number of words that are returned at most.
            known: By number, which words may be found; none from its end on.
        """
        alike = self._beginning_alike(word, known)
        changed = np.bitwise_count(self._shapes_of(len(known)) ^ _shape(word))
        like = (known & (changed <= _MAX_CHANGED)).nonzero()[0]
        for number in self._examined(word, like.tolist()):
            if is_one_slip(word, self._words[number]):
                alike[number] = 1 - 1 / max(len(word), len(self._words[number]))
        best = sorted([(-likeness, self._words[number], number) for number, likeness in alike.items()])
        return [(number, -likeness) for likeness, _, number in best[:most]]

    def _beginning_alike(self, word: str, known: NDArray[np.bool_]) -> dict[int, float]:
        """Return the numbers of the known words that begin like `word`, with the share of trigrams, which is high."""
        begun = [number for number in self._beginning.get(word[:_START], ()) if number < len(known) and known[number]]
        if not begun:
            return {}
        shares = [(number, trigram_overlap(word, self._words[number])) for number in self._examined(word, begun)]
        return {number: share for number, share in shares if share >= _MIN_ALIKE}

    def _examined(self, word: str, numbers: list[int]) -> list[int]:
        """Return few of these words, chosen by their spelling: their numbers depend on the order in which they came."""
        if len(numbers) <= _MAX_EXAMINED:
            return numbers
        length, words = len(word), self._words
        return nsmallest(_MAX_EXAMINED, numbers, key=lambda number: (abs(len(words[number]) - length), words[number]))

    def _shapes_of(self, count: int) -> NDArray[np.uint64]:
        """Return the shapes of the first `count` words."""
        if len(self._shapes) < count:
            with self._lock:
                more = [_shape(word) for word in self._words[len(self._shapes) :]]
                self._shapes = np.concatenate((self._shapes, np.array(more, dtype=np.uint64)))
        return self._shapes[:count]


def _shape(word: str) -> np.uint64:
    """Return which letters a word has, some of which share a bit, and above them as many bits as it has letters."""
    bits = (1 << min(len(word), _MAX_LENGTH)) - 1 << _LETTERS
    for letter in word:
        bits |= 1 << ord(letter) % _LETTERS
    return np.uint64(bits)
