"""The terms of an index and their numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from threading import Lock
from typing import Final

from mcp_ext_tools_search.ranking.layout import MOST
from mcp_ext_tools_search.ranking.spelling import Spelling
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS
from mcp_ext_tools_search.ranking.tokens import is_character, is_unspaced

__all__ = ["NO_TERM", "Vocabulary", "lookup_key", "may_be_misspelt", "surface"]

NO_TERM: Final = -1
"""Stands where a word has no stem, or none but itself as it is written."""

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
        self.is_surface = array("b")
        """By number, whether the term is a word as it is written."""

    def __len__(self) -> int:
        return len(self.is_surface)

    def add(self, word: str) -> tuple[int, int]:
        """Return the numbers of `word` as it is written and of its stem, which may be `NO_TERM`.

        A stop word has no stem: it is kept as it is written, for queries of nothing else. Nor has a character, which is
        counted in the pairs that it is in. These pairs are kept as stems alone, as nobody writes them otherwise.

        Raises:
            ValueError: There are more terms than one index can hold.
        """
        as_written = self._number(lookup_key(word))
        if word in STOP_WORDS or is_character(word):
            return as_written, NO_TERM
        if lookup_key(word) == word:
            return NO_TERM, as_written
        return as_written, self._number(stem(word))

    def _number(self, term: str) -> int:
        number = self.numbers.get(term)
        return self._new(term, is_surface=term.startswith(_AS_WRITTEN)) if number is None else number

    def only(self, kept: Iterable[str]) -> Vocabulary:
        """Return a vocabulary that has the terms `kept` alone, numbered in their order."""
        vocabulary = Vocabulary()
        for term in kept:
            vocabulary._new(term, is_surface=term.startswith(_AS_WRITTEN))
        return vocabulary

    def _new(self, term: str, *, is_surface: bool) -> int:
        number = len(self.is_surface)
        if number >= MOST:
            raise ValueError(f"these tools have more than {MOST} different words")
        self.is_surface.append(is_surface)
        self.numbers[term] = number
        if not is_surface and may_be_misspelt(term) and term.isalpha():
            # In this order, as other threads may be looking: what has a number can be found.
            self.spelling.add(term)
            self.spelled.append(number)
        return number
