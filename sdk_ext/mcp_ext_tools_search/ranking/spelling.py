"""Known words that look like an unknown one: what a typing error most likely meant."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spelling", "trigrams"]

_LEAST_ALIKE = 0.55


def trigrams(word: str) -> frozenset[str]:
    """Return the runs of three characters of `word`, its two ends marked."""
    padded = f"^{word}$"
    return frozenset(padded[start : start + 3] for start in range(len(padded) - 2))


class Spelling:
    """A vocabulary that finds the nearest of its words by the trigrams that they share (Dice's coefficient)."""

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
        """Return up to `most` words that are `known` and alike enough, each with its likeness in (0, 1], best first."""
        grams = trigrams(word)
        shared = [self._having[gram] for gram in grams if gram in self._having]
        if not shared:
            return []
        likeness = self._likeness(np.concatenate(shared), len(grams))
        found: list[tuple[str, float]] = []
        alike = int(np.count_nonzero(likeness >= _LEAST_ALIKE))
        numbers: list[int] = np.argsort(-likeness, kind="stable")[:alike].tolist()
        for number in numbers:
            if len(found) < most and known(self._words[number]):
                found.append((self._words[number], float(likeness[number])))
        return found

    def _likeness(self, sharing: NDArray[np.int32], size: int) -> NDArray[np.float64]:
        return 2 * np.bincount(sharing, minlength=len(self._words)) / (self._sizes + size)
