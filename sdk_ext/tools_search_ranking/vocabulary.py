"""The terms of an index and their numbers."""

from __future__ import annotations

from array import array
from itertools import compress
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.language import is_character, is_unspaced, stem
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS
from numpy.typing import NDArray

from tools_search_ranking.layout import MOST
from tools_search_ranking.spelling import Spelling

__all__ = ["NO_TERM", "Vocabulary", "lookup_key", "may_be_misspelt", "surface"]

NO_TERM: Final = -1
"""Stands where a word has no stem."""

_SHORTEST_CORRECTED: Final = 4
_AS_WRITTEN: Final = "="


def surface(word: str) -> str:
    """Return the key of `word` as it is written, which no stem can be."""
    return _AS_WRITTEN + word


def lookup_key(word: str) -> str:
    """Return the key by which queries find `word` as it is written: its stem, if that is no other word's as well."""
    return word if is_unspaced(word) and not is_character(word) else surface(word)


def may_be_misspelt(stemmed: str) -> bool:
    """Tell whether a word is long enough for a slip in it to be told from another word, and no number."""
    return len(stemmed) >= _SHORTEST_CORRECTED and not stemmed.isdigit()


class Vocabulary:
    """Numbers of terms: of stems, and of words as they are written.

    It only grows, so indexes of which one was made from another share it; a number that is greater than those that an
    index was made with is that of a term that the index does not have.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.spelling = Spelling()
        """Stems that a request may have meant."""
        self.spelled = array("i")
        """By number of a word in `spelling`, the number of the term."""
        self.lock = Lock()
        """Held by whoever adds words."""
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
        if of_stem == number and may_be_misspelt(term) and term.isalpha():
            # In this order, as other threads may be looking: what has a number can be found.
            self.spelling.add(term)
            self.spelled.append(number)
        return number
