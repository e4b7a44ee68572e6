"""What the words of queries are in one index, looked up once for each word."""

from __future__ import annotations

from typing import NamedTuple

from mcp_ext_tools_search.ranking.generic_words import GENERIC_STEMS
from mcp_ext_tools_search.ranking.memo import Memo
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.synonyms import related_words, spelled_out
from mcp_ext_tools_search.ranking.tokens import is_character, is_unspaced
from mcp_ext_tools_search.ranking.vocabulary import Vocabulary, lookup_key, surface

__all__ = ["Lookup", "Lookups"]


class Lookup(NamedTuple):
    """What a word of a query is in one index, whoever sees how much of it."""

    stem: str

    number: int | None
    """Of the stem; `None` where the index does not have it."""

    as_written: int | None
    """The number of the word as it is written, likewise; `None` too where that is the stem."""

    related: tuple[int, ...]
    """Numbers of the stems of words that mean the same."""

    spelled_out: tuple[int, ...]
    """Numbers of the stems of what it abbreviates, or of its abbreviation."""

    is_generic: bool
    is_unspaced: bool
    is_character: bool


class Lookups:
    """Looks up words in a vocabulary; `of[word]` is what a word is.

    Args:
        vocabulary: Numbers the terms.
        size: The first number that has been given since the index was made: to it, such terms are unknown.
    """

    def __init__(self, vocabulary: Vocabulary, size: int) -> None:
        self._vocabulary = vocabulary
        self._size = size
        self.of = Memo(self._look_up)

    def number(self, term: str) -> int | None:
        """Return the number of a term that the index has."""
        number = self._vocabulary.numbers.get(term)
        return None if number is None or number >= self._size else number

    def is_written(self, word: str) -> bool:
        """Tell for little whether a tool may have `word` as it is written."""
        return surface(word) in self._vocabulary.numbers

    def _look_up(self, word: str) -> Lookup:
        stemmed = stem(word)
        key = lookup_key(word)
        return Lookup(
            stem=stemmed,
            number=self.number(stemmed),
            as_written=None if key == stemmed else self.number(key),
            related=self._numbers(related_words(stemmed)),
            spelled_out=self._numbers(spelled_out(stemmed)),
            is_generic=stemmed in GENERIC_STEMS,
            is_unspaced=is_unspaced(stemmed),
            is_character=is_character(stemmed),
        )

    def _numbers(self, stems: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(number for word in stems if (number := self.number(word)) is not None) if stems else ()
