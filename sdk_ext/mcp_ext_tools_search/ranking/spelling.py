"""Known words that look like an unknown one: what a typing error most likely meant."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import groupby
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
    return frozenset(padded[start : start + 3] for start in range(len(padded) - 2))


def is_one_slip(left: str, right: str) -> bool:
    """Tell whether one slip of a typist sets the two apart: a letter too many, too few or wrong, or two swapped."""
    same = _shared_start(left, right)
    left, right = left[same:], right[same:]
    same = _shared_start(left[::-1], right[::-1])
    left, right = left[: len(left) - same], right[: len(right) - same]
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])


def _shared_start(left: str, right: str) -> int:
    """Return how many characters the two have in common from the start."""
    differing = (place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)
    return next(differing, min(len(left), len(right)))


class Spelling:
    """A vocabulary that finds the nearest of its words, and that may grow while it is asked.

    Words are near that share most of their trigrams (Dice's coefficient), or that one slip of a typist sets apart. The
    cost of a look-up is bounded: few candidates are looked at closely.
    """

    def __init__(self, vocabulary: Iterable[str] = ()) -> None:
        self._words: list[str] = []
        self._sizes = array("i")
        self._having: dict[str, array[int]] = {}
        for word in vocabulary:
            self.add(word)

    def add(self, word: str) -> None:
        """Take in a word that is not there; one thread may add while others ask."""
        grams = trigrams(word)
        number = len(self._words)
        self._words.append(word)
        self._sizes.append(len(grams))
        # Last, so that whoever finds the number finds the word and its size too.
        for gram in grams:
            self._having.setdefault(gram, array("i")).append(number)

    def nearest(self, word: str, most: int, known: Callable[[str], bool]) -> list[tuple[str, float]]:
        """Return up to `most` words that are `known` and near, each with its likeness in (0, 1], best first."""
        alike = [(candidate, _likeness(word, candidate, shared)) for candidate, shared in self._examined(word, known)]
        near = [(candidate, likeness) for candidate, likeness in alike if likeness >= _LEAST_ALIKE]
        return sorted(near, key=lambda found: (-found[1], found[0]))[:most]

    def _examined(self, word: str, known: Callable[[str], bool]) -> list[tuple[str, float]]:
        """Return the known words that share most trigrams with `word`, each with the share; ties go by the word."""
        grams = trigrams(word)
        # Copied, as an array that is being read cannot grow.
        sharing = [np.frombuffer(self._having[gram][:], dtype=np.int32) for gram in grams if gram in self._having]
        if not sharing:
            return []
        shares = self._shares(np.concatenate(sharing), len(grams))
        alike = np.flatnonzero(shares >= _LEAST_EXAMINED)
        alike = alike[np.argsort(-shares[alike])]
        examined: list[tuple[str, float]] = []
        for share, numbers in groupby(alike.tolist(), key=shares.__getitem__):
            if len(examined) >= _MOST_EXAMINED:
                break
            words = sorted(filter(known, map(self._words.__getitem__, numbers)))
            examined.extend((found, float(share)) for found in words)
        return examined[:_MOST_EXAMINED]

    def _shares(self, sharing: NDArray[np.int32], size: int) -> NDArray[np.float64]:
        sizes = np.frombuffer(self._sizes[:], dtype=np.int32)
        return 2 * np.bincount(sharing, minlength=len(sizes)) / (sizes + size)


def _likeness(word: str, candidate: str, shared: float) -> float:
    return max(shared, 1 - 1 / max(len(word), len(candidate))) if is_one_slip(word, candidate) else shared
