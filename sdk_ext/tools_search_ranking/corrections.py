"""What the unknown words of queries may have meant, remembered for one set of visible tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.generic_words import GENERIC_STEMS
from tools_search_ranking.memo import Memo
from tools_search_ranking.vocabulary import Vocabulary, may_be_misspelt

__all__ = ["Correction", "Corrections"]

_WORTH: Final = 0.8
_PER_WORD: Final = 2

_MOST_REMEMBERED: Final = 4_096
"""Unknown words, for each set of visible tools."""


class Correction(NamedTuple):
    """A term that an unknown word may be a slip for."""

    number: int
    idf: float
    worth: float
    """What it counts, where the word itself would count 1."""

    is_generic: bool


class Corrections:
    """The nearest stems that a visible tool has; `of[word]` is what an unknown word may have meant, mostly nothing.

    Args:
        vocabulary: The terms.
        idf: By number, 0 for a term that no visible tool has; none for what is not in the index.
    """

    def __init__(self, vocabulary: Vocabulary, idf: NDArray[np.float64]) -> None:
        self._spelling = vocabulary.spelling
        numbers = np.frombuffer(vocabulary.spelled[:], dtype=np.int32)
        self._numbers = numbers[: numbers.searchsorted(len(idf))]
        self._known = idf[self._numbers] > 0
        self._idf = idf
        self._generic = frozenset(vocabulary.numbers[word] for word in GENERIC_STEMS if word in vocabulary.numbers)
        self.of = Memo(self._found, _MOST_REMEMBERED)

    def _found(self, word: str) -> Sequence[Correction]:
        if not may_be_misspelt(word):
            return ()
        nearest = self._spelling.nearest(word, _PER_WORD, self._known)
        numbers = [(int(self._numbers[place]), likeness) for place, likeness in nearest]
        return [
            Correction(number, float(self._idf[number]), _WORTH * likeness, number in self._generic)
            for number, likeness in numbers
        ]
