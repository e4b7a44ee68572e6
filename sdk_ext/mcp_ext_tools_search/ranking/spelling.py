"""Known words that look like an unknown one: what a typing error most likely meant."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spelling", "edits", "trigrams"]

_LEAST_ALIKE: Final = 0.55
_LEAST_EXAMINED: Final = 0.3
_MOST_EXAMINED: Final = 12


def trigrams(word: str) -> frozenset[str]:
    """Return the runs of three characters of `word`, its two ends marked."""
    padded = f"^{word}$"
    return frozenset(padded[start : start + 3] for start in range(len(padded) - 2))


def edits(left: str, right: str) -> int:
    """Return how many insertions, deletions, replacements and swaps of neighbours make `left` into `right`.

    The optimal string alignment distance (Damerau 1964): the four slips of a typist, none applied twice to one place.
    """
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, character in enumerate(left, start=1):
        current = [row]
        for column, other in enumerate(right, start=1):
            cost = min(above[column] + 1, current[-1] + 1, above[column - 1] + (character != other))
            if row > 1 and column > 1 and character == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, above = above, current
    return above[-1]


class Spelling:
    """A vocabulary that finds the nearest of its words.

    Words are near that share most of their trigrams (Dice's coefficient), or that one slip of a typist sets apart. The
    cost of a look-up is bounded: few candidates are compared letter by letter.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._words = sorted(vocabulary)
        sizes = array("i")
        having: dict[str, array[int]] = {}
        for number, word in enumerate(self._words):
            grams = trigrams(word)
            sizes.append(len(grams))
            for gram in grams:
                having.setdefault(gram, array("i")).append(number)
        self._having = {gram: np.array(numbers, dtype=np.int32) for gram, numbers in having.items()}
        self._sizes = np.array(sizes, dtype=np.int32)

    def nearest(self, word: str, most: int, known: Callable[[str], bool]) -> list[tuple[str, float]]:
        """Return up to `most` words that are `known` and near, each with its likeness in (0, 1], best first."""
        alike = [(candidate, _likeness(word, candidate, shared)) for candidate, shared in self._examined(word, known)]
        near = [(candidate, likeness) for candidate, likeness in alike if likeness >= _LEAST_ALIKE]
        return sorted(near, key=lambda found: (-found[1], found[0]))[:most]

    def _examined(self, word: str, known: Callable[[str], bool]) -> list[tuple[str, float]]:
        """Return the known words that share most trigrams with `word`, each with the share."""
        grams = trigrams(word)
        sharing = [self._having[gram] for gram in grams if gram in self._having]
        if not sharing:
            return []
        shares = self._shares(np.concatenate(sharing), len(grams))
        numbers: list[int] = np.flatnonzero(shares >= _LEAST_EXAMINED).tolist()
        found = [(self._words[number], float(shares[number])) for number in numbers if known(self._words[number])]
        return sorted(found, key=lambda candidate: (-candidate[1], candidate[0]))[:_MOST_EXAMINED]

    def _shares(self, sharing: NDArray[np.int32], size: int) -> NDArray[np.float64]:
        return 2 * np.bincount(sharing, minlength=len(self._words)) / (self._sizes + size)


def _likeness(word: str, candidate: str, shared: float) -> float:
    one_slip = edits(word, candidate) == 1
    return max(shared, 1 - 1 / max(len(word), len(candidate))) if one_slip else shared
