"""The terms of an index: their keys, their numbers, and the nearest ones to a misspelled word.

Terms are words as written, their stems, and terms of the draft's matching floor that are not words in the ranking.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import compress
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.language import SAME_START, may_be_misspelled, nearest
from mcp_ext_tools_search.ranking.query import index_terms
from numpy.typing import NDArray

from tools_search_ranking.postings import MAX_TERMS

NO_STEM: Final = -1
"""Marks a term without a stem."""

_MAX_EXAMINED: Final = 40
"""Maximum number of candidates with the same start, and of those with similar letters, that are compared closely."""

_LETTERS: Final = 32
_MAX_LENGTH: Final = 32
_MAX_CHANGED: Final = 2
"""Maximum number of bits in a word's shape that one typo changes: two letters, or one letter and the length."""


def term_key(term: str) -> str:
    """Return the key of a draft term that is not a word in the ranking, such as `café`, which it reads as `cafe`."""
    return "~" + term


class Vocabulary:
    """Numbers of terms: stems, and words as written.

    It only grows, so indexes can share it with those derived from them, and other threads can read it. Numbers beyond
    those at an index's creation are terms that the index lacks.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.stems = array("i")
        """The number of a term's stem (a stem's own number), or `NO_STEM`, by the term's number."""
        self.lock = Lock()
        """Must be held while adding words."""
        self._beginning: dict[str, list[str]] = {}
        """Stems that a misspelled word can be corrected to, by their first letters."""
        self._spellable: list[str] = []
        """The same stems in the order of their numbers."""
        self._shape_table = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)
        """The numbers and shapes of these stems, extended on demand."""

    def __len__(self) -> int:
        return len(self.stems)

    def add(self, word: str) -> int:
        """Add a word. Return the number of its written form, or that of its stem if only the stem is stored.

        Raises:
            ValueError: There are more terms than one index can hold.
        """
        *stems, key = index_terms(word)
        if (number := self.numbers.get(key)) is not None:
            return number
        if not stems:
            return self.add_key(key) if key != word else self._new(key, len(self))
        of_stem = self.numbers.get(stems[0])
        return self._new(key, self._new(stems[0], len(self)) if of_stem is None else of_stem)

    def add_key(self, key: str) -> int:
        """Add a term without a stem by its key, and return its number. Raises the same errors as `add`."""
        number = self.numbers.get(key)
        return self._new(key, NO_STEM) if number is None else number

    def subset(self, kept: NDArray[np.bool_]) -> Vocabulary:
        """Return a vocabulary of the `kept` terms, by number, in the same order. A kept word needs its stem."""
        vocabulary = Vocabulary()
        new: list[int] = (np.cumsum(kept) - 1).tolist()
        with self.lock:
            known = list(zip(self.numbers, self.stems, strict=True))
        for term, of_stem in compress(known, kept.tolist()):
            vocabulary._new(term, of_stem if of_stem == NO_STEM else new[of_stem])
        return vocabulary

    def nearest(self, word: str, known: NDArray[np.bool_]) -> Sequence[tuple[str, float]]:
        """Return the stems that are nearest to an unknown one, best first, with their similarities.

        `known` says by number whether each term may be found. Terms beyond its end may not. The number of candidates
        that are compared closely is limited, and so is the cost.
        """
        if not may_be_misspelled(word):
            return []
        begun = [
            other
            for other in self._beginning.get(word[:SAME_START], ())
            if (number := self.numbers[other]) < len(known) and known[number]
        ]
        numbers, shapes = self._shapes()
        numbers = numbers[: numbers.searchsorted(len(known))]
        changed = np.bitwise_count(shapes[: len(numbers)] ^ _shape(word))
        like: list[int] = (known[numbers] & (changed <= _MAX_CHANGED)).nonzero()[0].tolist()
        return nearest(word, {*_examined(word, begun), *_examined(word, [self._spellable[place] for place in like])})

    def _new(self, term: str, of_stem: int) -> int:
        number = len(self)
        if number >= MAX_TERMS:
            raise ValueError(f"these tools have more than {MAX_TERMS} different words")
        self.stems.append(of_stem)
        self.numbers[term] = number
        if of_stem == number and may_be_misspelled(term) and term.isalpha():
            # After the number is set, as other threads may be reading: a word that they find here has a number.
            self._beginning.setdefault(term[:SAME_START], []).append(term)
            self._spellable.append(term)
        return number

    def _shapes(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the numbers and shapes of the stems that a misspelled word can be corrected to."""
        numbers, shapes = self._shape_table
        if more := self._spellable[len(numbers) :]:
            numbers = np.append(numbers, [self.numbers[word] for word in more])
            shapes = np.append(shapes, np.array(list(map(_shape, more)), dtype=np.uint64))
            self._shape_table = numbers, shapes
        return numbers, shapes


def _examined(word: str, others: list[str]) -> Iterable[str]:
    """Return at most `_MAX_EXAMINED` of `others`, preferring those nearest in length.

    Ties are broken alphabetically, so the order of `others` does not matter.
    """
    if len(others) <= _MAX_EXAMINED:
        return others
    return nsmallest(_MAX_EXAMINED, others, key=lambda other: (abs(len(other) - len(word)), other))


def _shape(word: str) -> np.uint64:
    """Return a bit for each letter in a word (letters may share bits), and above them a bit for each character."""
    bits = (1 << min(len(word), _MAX_LENGTH)) - 1 << _LETTERS
    for letter in word:
        bits |= 1 << ord(letter) % _LETTERS
    return np.uint64(bits)
