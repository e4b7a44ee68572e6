"""Known words that look like an unknown one: what a typing error most likely meant."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spelling", "is_one_slip", "trigrams"]

_LEAST_ALIKE: Final = 0.55
_LEAST_EXAMINED: Final = 0.2
_MOST_EXAMINED: Final = 40


def trigrams(word: str) -> frozenset[str]:
    """Return the runs of three characters of `word`, its two ends marked."""
    padded = f"^{word}$"
    return frozenset([padded[start : start + 3] for start in range(len(padded) - 2)])


def is_one_slip(left: str, right: str) -> bool:
    """Tell whether one slip of a typist sets the two apart: a letter too many, too few or wrong, or two swapped."""
    shorter, longer = sorted((left, right), key=len)
    same = _shared_start(shorter, longer)
    if len(longer) > len(shorter):
        return longer[same + 1 :] == shorter[same:]
    after = same + 2
    swapped = left[same:after] == right[same:after][::-1] and left[after:] == right[after:]
    return left != right and (swapped or left[same + 1 :] == right[same + 1 :])


def _shared_start(left: str, right: str) -> int:
    """Return how many characters the two have in common from the start."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


class Spelling:
    """A vocabulary that finds the nearest of its words, and that may grow while it is asked.

    Words are near that share most of their trigrams (Dice's coefficient), or that one slip of a typist sets apart. The
    cost of a look-up is bounded: few candidates are looked at closely.
    """

    def __init__(self, vocabulary: Iterable[str] = ()) -> None:
        self._words: list[str] = []
        self._having: defaultdict[str, array[int]] = defaultdict(lambda: array("i"))
        self._measures = array("i")
        self._measured = np.zeros((0, 2), dtype=np.int32)
        for word in vocabulary:
            self.add(word)

    def add(self, word: str) -> None:
        """Take in a word that is not there; one thread may add while others ask."""
        grams = trigrams(word)
        number = len(self._words)
        self._words.append(word)
        self._measures.extend((len(word), len(grams)))
        # Last, so that whoever finds the number finds the word and its measures too.
        for gram in grams:
            self._having[gram].append(number)

    def nearest(self, word: str, most: int, known: Callable[[str], bool]) -> list[tuple[str, float]]:
        """Return up to `most` words that are `known` and near, each with its likeness in (0, 1], best first."""
        examined = islice((found for found in self._alike(word) if known(found[0])), _MOST_EXAMINED)
        alike = [(candidate, _likeness(word, candidate, shared)) for candidate, shared in examined]
        near = [(candidate, likeness) for candidate, likeness in alike if likeness >= _LEAST_ALIKE]
        return sorted(near, key=lambda found: (-found[1], found[0]))[:most]

    def _alike(self, word: str) -> list[tuple[str, float]]:
        """Return the words that may be near, each with the share of trigrams, most alike first."""
        grams = trigrams(word)
        # Copied, as an array that is being read cannot grow.
        sharing = [np.frombuffer(self._having[gram][:], dtype=np.int32) for gram in grams if gram in self._having]
        if not sharing:
            return []
        counts = np.bincount(np.concatenate(sharing))
        numbers = (counts >= _least_shared(len(grams))).nonzero()[0]
        if not len(numbers):
            return []
        lengths, sizes = self._measures_of(numbers)
        shares = 2 * counts.take(numbers) / (sizes + len(grams))
        # A slip makes a word longer or shorter by one letter at most.
        near = (shares >= _LEAST_ALIKE) | ((shares >= _LEAST_EXAMINED) & (np.abs(lengths - len(word)) <= 1))
        candidates: list[int] = numbers[near].tolist()
        of_candidates: list[float] = shares[near].tolist()
        alike = zip([self._words[number] for number in candidates], of_candidates, strict=True)
        return sorted(alike, key=lambda one: (-one[1], one[0]))

    def _measures_of(self, numbers: NDArray[np.intp]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the lengths of words and how many trigrams they have."""
        measured = self._measured
        if len(measured) < len(self._words):
            measured = self._measured = np.frombuffer(self._measures[:], dtype=np.int32).reshape(-1, 2)
        found = measured[numbers]
        return found[:, 0], found[:, 1]


def _least_shared(size: int) -> int:
    """Return how many of its `size` trigrams a word has in common with any that is near.

    A slip changes four of them at most; and Dice's coefficient is below 2 * shared / (size + shared).
    """
    return max(1, min(size - 4, ceil(size * _LEAST_ALIKE / (2 - _LEAST_ALIKE))))


def _likeness(word: str, candidate: str, shared: float) -> float:
    """Return how like two words are that share this part of their trigrams."""
    of_slip = 1 - 1 / max(len(word), len(candidate))
    return of_slip if shared < of_slip and is_one_slip(word, candidate) else shared
