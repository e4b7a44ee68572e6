"""What the words of queries are to one set of visible tools, looked up once for each word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from mcp_ext_tools_search.ranking.language import is_character, is_unspaced, related_words, spelled_out, stem, words_of
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS

from tools_search_ranking.generic_words import GENERIC_STEMS
from tools_search_ranking.memo import Memo
from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import Vocabulary, lookup_key, surface

__all__ = ["Lookups", "Run", "Word"]

_MOST_REMEMBERED: Final = 4_096
"""Words of queries, for each set of visible tools."""

_AS_WRITTEN: Final = 0.5
_RELATED: Final = 0.3
_SPELLED_OUT: Final = 0.5
_GENERIC_EVIDENCE: Final = 0.15


@dataclass(eq=False, slots=True)
class Word:
    """What a word of a query is: one object that has all, as what a query takes is mostly going from one to another."""

    text: str
    stem: str

    number: int | None
    """Number of the stem; `None` where no visible tool has it."""

    idf: float
    """That of the stem."""

    evidence: float
    """What the stem tells, where a tool has it, of whether the tool serves the request: 1 for the rarest of words."""

    relatives: tuple[int, ...]
    """Numbers of the stems of words that mean the same, and of what it abbreviates or its abbreviation."""

    values: tuple[float, ...]
    """What each of the relatives is worth."""

    as_written: int | None
    """Number of the word as it is written; `None` too where that is the stem."""

    value: float
    """What the word as it is written is worth."""

    is_generic: bool
    is_unspaced: bool
    is_character: bool


class Run(NamedTuple):
    """What a run of letters and digits in a query is."""

    written: str
    """The run as a whole, case folded."""

    words: tuple[Word, ...]
    """Its words but for stop words."""


class Lookups:
    """Looks up words for queries of one set of visible tools.

    `of_word[word]` is what a word is, `of_run[run]` the same for a run of plain letters and digits.
    """

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self._numbers = vocabulary.numbers
        self._size = len(statistics.idf)
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._rarest_of_distinct = statistics.rarest_of_distinct
        self.of_word = Memo(self._word, _MOST_REMEMBERED)
        self.of_run = Memo(self._run, _MOST_REMEMBERED)

    def term(self, key: str) -> tuple[int, float] | None:
        """Return the number and the idf of a term, if a visible tool has it."""
        number = self._numbers.get(key)
        # A greater number has been given since the index was made: to it, the term is unknown.
        if number is None or number >= self._size or not (idf := self._idf[number]):
            return None
        return number, idf

    def evidence(self, idf: float, *, is_generic: bool) -> float:
        """Return what a term of that idf tells of whether a tool that has it serves a request."""
        return min(idf / self._rarest_of_distinct, 1.0) * (_GENERIC_EVIDENCE if is_generic else 1.0)

    def are_written(self, words: Iterable[str]) -> list[str]:
        """Return those of `words` that a tool may have as they are written."""
        return [word for word in words if surface(word) in self._numbers]

    def _run(self, run: str) -> Run:
        words = words_of(run)
        return Run(words[0], tuple([self._word(word) for word in words if word not in STOP_WORDS]))

    def _word(self, word: str) -> Word:
        stemmed, key = stem(word), lookup_key(word)
        is_generic = stemmed in GENERIC_STEMS
        number, idf = self.term(stemmed) or (None, 0.0)
        as_written, own_idf = (None if key == stemmed else self.term(key)) or (None, 0.0)
        relatives, values = self._relatives(related_words(stemmed), spelled_out(stemmed))
        return Word(
            text=word,
            stem=stemmed,
            number=number,
            idf=idf,
            evidence=self.evidence(idf, is_generic=is_generic),
            relatives=relatives,
            values=values,
            as_written=as_written,
            value=_AS_WRITTEN * own_idf,
            is_generic=is_generic,
            is_unspaced=is_unspaced(stemmed),
            is_character=is_character(stemmed),
        )

    def _relatives(
        self, related: Sequence[str], spelled_out: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return the numbers of these stems, those that visible tools have, and what each is worth."""
        if not related and not spelled_out:
            return (), ()  # as for most words
        weights = [*((other, _RELATED) for other in related), *((other, _SPELLED_OUT) for other in spelled_out)]
        known = [(term, weight) for other, weight in weights if (term := self.term(other)) is not None]
        return tuple([number for (number, _), _ in known]), tuple([weight * idf for (_, idf), weight in known])
