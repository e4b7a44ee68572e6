"""The terms of an index: their keys, their numbers, and the nearest ones to a misspelled word.

Terms are words as they are written, their stems, and terms of the draft's matching floor that are not words here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import chain, compress
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.language import (
    SAME_START,
    STRETCH,
    may_be_misspelled,
    nearest,
    pairs,
    simplified,
)
from mcp_ext_tools_search.ranking.query import index_terms
from numpy.typing import NDArray

from tools_search_ranking.postings import MAX_TERMS

NO_STEM: Final = -1
"""Stands where a term has no stem."""

_MAX_EXAMINED: Final = 40
"""Words that begin alike, and as many that have like letters, that are looked at closely."""

_LETTERS: Final = 32
_MAX_LENGTH: Final = 32
_MAX_CHANGED: Final = 2
"""The most bits of a word's shape that one typo changes: two letters, or one and the length."""


def term_key(term: str) -> str:
    """Return the key of a term of the draft that is no word of the ranking, as `café`, which it reads as `cafe`."""
    return "~" + term


class Vocabulary:
    """Numbers of terms: of stems, and of words as they are written.

    It only grows, so an index and those derived from it share one, and threads may read it meanwhile. A number beyond
    those an index was built with is a term it lacks.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.stems = array("i")
        """By number, the number of the term's stem, which a stem is itself; `NO_STEM` where there is none."""
        self.lock = Lock()
        """Held while words are added."""
        self._beginning: dict[str, list[str]] = {}
        """Stems that a request may have meant, by their first letters."""
        self._spellable: list[str] = []
        """The same in the order of their numbers."""
        self._shape_table = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)
        """Their numbers, and their shapes, of as many of them as were looked for."""

    def __len__(self) -> int:
        return len(self.stems)

    def add(self, word: str) -> int:
        """Return the number of `word` as it is written, or that of its stem where it is kept as nothing else.

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
        """Return the number of the term with this key, which has no stem; raises what `add` raises."""
        number = self.numbers.get(key)
        return self._new(key, NO_STEM) if number is None else number

    def subset(self, kept: NDArray[np.bool_]) -> Vocabulary:
        """Return a vocabulary of the terms that are `kept`, by number, in their order; a word is kept with its stem."""
        vocabulary = Vocabulary()
        new: list[int] = (np.cumsum(kept) - 1).tolist()
        with self.lock:
            known = list(zip(self.numbers, self.stems, strict=True))
        for term, of_stem in compress(known, kept.tolist()):
            vocabulary._new(term, of_stem if of_stem == NO_STEM else new[of_stem])
        return vocabulary

    def nearest(self, word: str, known: NDArray[np.bool_]) -> Sequence[tuple[str, float]]:
        """Return the stems that are nearest to an unknown one, best first, each with its likeness.

        Few candidates are looked at closely, so that the cost is bounded.

        Args:
            word: The stem.
            known: By number of a term, whether it may be found; none from its end on.
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
            # In this order, as other threads may be looking: a word that is found here has a number.
            self._beginning.setdefault(term[:SAME_START], []).append(term)
            self._spellable.append(term)
        return number

    def _shapes(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the numbers and the shapes of the stems that a request may have meant."""
        numbers, shapes = self._shape_table
        if more := self._spellable[len(numbers) :]:
            numbers = np.append(numbers, [self.numbers[word] for word in more])
            shapes = np.append(shapes, np.array(list(map(_shape, more)), dtype=np.uint64))
            self._shape_table = numbers, shapes
        return numbers, shapes


def _examined(word: str, others: list[str]) -> Iterable[str]:
    """Return at most `_MAX_EXAMINED` of `others`: of more than that, those nearest in length.

    Ties go by spelling, so that the order of arrival does not matter.
    """
    if len(others) <= _MAX_EXAMINED:
        return others
    return nsmallest(_MAX_EXAMINED, others, key=lambda other: (abs(len(other) - len(word)), other))


def _shape(word: str) -> np.uint64:
    """Return which letters a word has, some of which share a bit, and above them as many bits as it has letters."""
    bits = (1 << min(len(word), _MAX_LENGTH)) - 1 << _LETTERS
    for letter in word:
        bits |= 1 << ord(letter) % _LETTERS
    return np.uint64(bits)


def wholes(run: str) -> Iterable[str]:
    """Return the words that a folded run of letters and digits has in common with itself written in any letter case.

    These are its words without the parts that it is written in, and with those that are longer than `MAX_WORD_LENGTH`.
    """
    if run.isascii():
        return (run,)
    stretches = STRETCH.finditer(simplified(run))
    return chain.from_iterable(pairs(found.group()) if found.group(1) else (found.group(),) for found in stretches)
