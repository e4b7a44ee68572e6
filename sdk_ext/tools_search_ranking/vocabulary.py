"""The terms of an index: their keys, their numbers, and the nearest ones to a misspelled word.

Terms are words as they are written, their stems, and terms of the draft's matching floor that are not words here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import nsmallest
from itertools import compress
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.language import (
    SAME_START,
    STOP_WORDS,
    is_character,
    is_unspaced,
    may_be_misspelled,
    nearest,
    stem,
)
from numpy.typing import NDArray

from tools_search_ranking.postings import MOST_TERMS

NO_TERM: Final = -1
"""Stands where a word has no stem."""

_MAX_EXAMINED: Final = 40
"""Words that begin alike, and as many that have like letters, that are looked at closely."""

_LETTERS: Final = 32
_MAX_LENGTH: Final = 32
_MAX_CHANGED: Final = 2
"""The most bits of a word's shape that one typo changes: two letters, or one and the length."""


def surface(word: str) -> str:
    """Return the key of `word` as it is written, which no stem can be."""
    return "=" + word


def lookup_key(word: str) -> str:
    """Return the key by which queries find `word` as it is written: its stem, unless another word shares it."""
    return word if is_unspaced(word) and not is_character(word) else surface(word)


def term_key(term: str) -> str:
    """Return the key of a term of the draft that is no word of the ranking, as `café`, which it reads as `cafe`."""
    return "~" + term


class Vocabulary:
    """Numbers of terms: of stems, and of words as they are written.

    It only grows, so indexes of which one was made from another share it, and threads may look at it meanwhile; a
    number greater than those that an index was made with belongs to a term that the index does not have.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.stems = array("i")
        """By number, the number of the term's stem, which a stem is itself; `NO_TERM` where there is none."""
        self.lock = Lock()
        """Held while words are added."""
        self._beginning: dict[str, list[str]] = {}
        """Stems that a request may have meant, by their first letters."""
        self._spellable: list[str] = []
        self._spelled = array("i")
        """The same in their order, and the number of each."""
        self._shapes = np.zeros(0, dtype=np.uint64)

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

    def nearest(self, word: str, known: NDArray[np.bool_]) -> list[tuple[int, float]]:
        """Return the numbers of the stems that are nearest to an unknown one, best first, each with its likeness.

        Few candidates are looked at closely, so that the cost is bounded.

        Args:
            word: The stem.
            known: By number of a term, whether it may be found; none from its end on.
        """
        if not may_be_misspelled(word):
            return []
        numbers = self.numbers
        begun = [
            other
            for other in self._beginning.get(word[:SAME_START], ())
            if (number := numbers[other]) < len(known) and known[number]
        ]
        spelled = np.frombuffer(self._spelled[:], dtype=np.int32)
        spelled = spelled[: spelled.searchsorted(len(known))]
        changed = np.bitwise_count(self._shapes_of(len(spelled)) ^ _shape(word))
        like: list[int] = (known[spelled] & (changed <= _MAX_CHANGED)).nonzero()[0].tolist()
        examined = {*_examined(word, begun), *_examined(word, [self._spellable[place] for place in like])}
        return [(numbers[other], likeness) for other, likeness in nearest(word, examined)]

    def _new(self, term: str, of_stem: int) -> int:
        number = len(self)
        if number >= MOST_TERMS:
            raise ValueError(f"these tools have more than {MOST_TERMS} different words")
        self.stems.append(of_stem)
        self.numbers[term] = number
        if of_stem == number and may_be_misspelled(term) and term.isalpha():
            # In this order, as other threads may be looking: a word that has a number can be found.
            self._beginning.setdefault(term[:SAME_START], []).append(term)
            self._spellable.append(term)
            self._spelled.append(number)
        return number

    def _shapes_of(self, count: int) -> NDArray[np.uint64]:
        """Return the shapes of the first `count` stems that a request may have meant."""
        shapes = self._shapes
        if len(shapes) < count:
            more = [_shape(word) for word in self._spellable[len(shapes) : count]]
            shapes = self._shapes = np.concatenate((shapes, np.array(more, dtype=np.uint64)))
        return shapes[:count]


def _examined(word: str, others: list[str]) -> Iterable[str]:
    """Return few of these words, chosen by their spelling: their order is that in which they came."""
    if len(others) <= _MAX_EXAMINED:
        return others
    return nsmallest(_MAX_EXAMINED, others, key=lambda other: (abs(len(other) - len(word)), other))


def _shape(word: str) -> np.uint64:
    """Return which letters a word has, some of which share a bit, and above them as many bits as it has letters."""
    bits = (1 << min(len(word), _MAX_LENGTH)) - 1 << _LETTERS
    for letter in word:
        bits |= 1 << ord(letter) % _LETTERS
    return np.uint64(bits)
