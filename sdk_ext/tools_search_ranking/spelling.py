"""Known words that look like an unknown one: what a typing error most likely meant."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.language import is_one_slip, trigram_overlap
from numpy.typing import NDArray

__all__ = ["Spelling"]

_LEAST_ALIKE: Final = 0.55
_START: Final = 4
"""Letters with which words begin that are forms of one another: `visually` and `visual`."""

_MOST_EXAMINED: Final = 40
"""Words that begin alike, and as many that have like letters, that are looked at closely."""

_LETTERS: Final = 32
_LONGEST: Final = 32
_MOST_CHANGED: Final = 2
"""Bits of its shape in which a word changes by one slip, at most: two letters, or one and its length."""


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
        """Take in a word that is not there, which gets the next number from 0 on."""
        self._beginning.setdefault(word[:_START], []).append(len(self._words))
        self._words.append(word)

    def nearest(self, word: str, most: int, known: NDArray[np.bool_]) -> list[tuple[int, float]]:
        """Return the numbers of up to `most` words that are near, best first, each with its likeness in (0, 1].

        Args:
            word: What was written.
            most: How many of the nearest are returned.
            known: By number, which words may be found; none from its end on.
        """
        alike = self._beginning_alike(word, known)
        changed = np.bitwise_count(self._shapes_of(len(known)) ^ _shape(word))
        like = (known & (changed <= _MOST_CHANGED)).nonzero()[0]
        for number in self._examined(word, like.tolist()):
            if is_one_slip(word, self._words[number]):
                alike[number] = 1 - 1 / max(len(word), len(self._words[number]))
        best = sorted([(-likeness, self._words[number], number) for number, likeness in alike.items()])
        return [(number, -likeness) for likeness, _, number in best[:most]]

    def _beginning_alike(self, word: str, known: NDArray[np.bool_]) -> dict[int, float]:
        """Return the numbers of the known words that begin like `word` and share most of its trigrams: which part."""
        begun = [number for number in self._beginning.get(word[:_START], ()) if number < len(known) and known[number]]
        if not begun:
            return {}
        shares = [(number, trigram_overlap(word, self._words[number])) for number in self._examined(word, begun)]
        return {number: share for number, share in shares if share >= _LEAST_ALIKE}

    def _examined(self, word: str, numbers: list[int]) -> list[int]:
        """Return few of these words, chosen by what they are and not by their numbers, which say when they came."""
        if len(numbers) <= _MOST_EXAMINED:
            return numbers
        length, words = len(word), self._words
        return nsmallest(_MOST_EXAMINED, numbers, key=lambda number: (abs(len(words[number]) - length), words[number]))

    def _shapes_of(self, count: int) -> NDArray[np.uint64]:
        """Return the shapes of the first `count` words."""
        if len(self._shapes) < count:
            with self._lock:
                more = [_shape(word) for word in self._words[len(self._shapes) :]]
                self._shapes = np.concatenate((self._shapes, np.array(more, dtype=np.uint64)))
        return self._shapes[:count]


def _shape(word: str) -> np.uint64:
    """Return which letters a word has, some of which share a bit, and above them as many bits as it has letters."""
    bits = (1 << min(len(word), _LONGEST)) - 1 << _LETTERS
    for letter in word:
        bits |= 1 << ord(letter) % _LETTERS
    return np.uint64(bits)
