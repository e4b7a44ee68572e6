"""From the text of a request to the terms that are looked up for it, each with what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mcp_ext_tools_search.ranking.statistics import Statistics
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS
from mcp_ext_tools_search.ranking.synonyms import related_verbs
from mcp_ext_tools_search.ranking.tokens import words
from mcp_ext_tools_search.ranking.vocabulary import Vocabulary, may_be_misspelt, surface

__all__ = ["LONGEST_QUERY", "WeighedQuery", "weigh"]

LONGEST_QUERY: Final = 8_192
"""Characters of a query that are read."""

MOST_WORDS: Final = 128
"""Distinct words of a query that are looked up: a request needs no more, and an attack gets no more."""

MOST_CORRECTIONS: Final = 12
"""Unknown words of a query for which similar ones are looked up."""

_AS_WRITTEN: Final = 0.5
_RELATED_VERB: Final = 0.3
_CORRECTION: Final = 0.8
_CORRECTIONS_PER_WORD: Final = 2


@dataclass(slots=True)
class WeighedQuery:
    """A query in the terms of one index, seen with the statistics of one set of visible tools."""

    terms: list[int] = field(default_factory=list[int])
    """Numbers of the terms to look up."""

    weights: list[float] = field(default_factory=list[float])
    """What each of them is worth."""

    covers: list[float] = field(default_factory=list[float])
    """Shares of a word of the query that a tool with a term covers: 1 for the word itself.

    There are fewer of them than terms: the later terms are mere relatives, and cover nothing.
    """

    total_idf: float = 0.0
    """Sum of the idf of the words of the query, whether the catalogue knows them or not."""


def weigh(query: str, vocabulary: Vocabulary, statistics: Statistics) -> WeighedQuery:
    """Return what to look up for `query`; no term where it shares none with the visible tools."""
    counts = Counter(islice(words(query[:LONGEST_QUERY]), LONGEST_QUERY))
    written = list(islice((word for word in counts if word not in STOP_WORDS), MOST_WORDS))
    weighing = _Weighing(vocabulary, statistics)
    if written:
        weighing.weigh_words(written, counts)
    else:
        weighing.weigh_stop_words(islice(counts, MOST_WORDS))
    return weighing.weighed


class _Weighing:
    """The weighing of one query."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self.weighed = WeighedQuery()
        self._vocabulary = vocabulary
        self._numbers = vocabulary.numbers
        self._statistics = statistics
        self._idf = statistics.idf_of

    def weigh_stop_words(self, said: Iterable[str]) -> None:
        """Weigh a query of nothing but stop words, which then count as words."""
        for word in said:
            self._add_word(surface(word), 1.0)

    def weigh_words(self, written: Iterable[str], counts: Counter[str]) -> None:
        """Weigh a query of these words; the terms that cover words come first."""
        stems: dict[str, int] = {}
        for word in written:
            stemmed = stem(word)
            stems[stemmed] = stems.get(stemmed, 0) + counts[word]
        unknown = [stemmed for stemmed, count in stems.items() if not self._add_word(stemmed, _saturated(count))]
        for stemmed in unknown[:MOST_CORRECTIONS]:
            if may_be_misspelt(stemmed):
                self._add_corrections(stemmed, _saturated(stems[stemmed]))
        self.weighed.total_idf += self._statistics.rarest * len(unknown)
        for stemmed, count in stems.items():
            for verb in related_verbs(stemmed):
                self._add_relative(verb, _saturated(count) * _RELATED_VERB)
        for word in written:
            self._add_relative(surface(word), _saturated(counts[word]) * _AS_WRITTEN)

    def _add_word(self, term: str, weight: float) -> bool:
        """Look up a term that covers a word of the query, and tell whether a visible tool has it."""
        number = self._known(term)
        if number is None:
            return False
        self._add_covering(number, weight, 1.0)
        self.weighed.total_idf += self._idf[number]
        return True

    def _add_corrections(self, stemmed: str, weight: float) -> None:
        """Look up the terms that an unknown word may be a slip for."""
        nearest = self._vocabulary.spelling.nearest(
            stemmed, _CORRECTIONS_PER_WORD, known=lambda word: self._known(word) is not None
        )
        for known, likeness in nearest:
            share = _CORRECTION * likeness
            self._add_covering(self._numbers[known], weight * share, share)

    def _add_covering(self, number: int, weight: float, share: float) -> None:
        self.weighed.terms.append(number)
        self.weighed.weights.append(weight)
        self.weighed.covers.append(share)

    def _add_relative(self, term: str, weight: float) -> None:
        """Look up a term that adds to a tool's score and covers nothing of the query."""
        number = self._known(term)
        if number is not None:
            self.weighed.terms.append(number)
            self.weighed.weights.append(weight)

    def _known(self, term: str) -> int | None:
        """Return the number of `term` if a visible tool has it."""
        number = self._numbers.get(term)
        return number if number is not None and number < len(self._idf) and self._idf[number] > 0 else None


def _saturated(count: int) -> float:
    """Return the query-side saturation of Okapi BM25 with k3 = 1: a word said twice counts for less than two."""
    return 2 * count / (count + 1)
