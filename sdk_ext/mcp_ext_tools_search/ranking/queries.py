"""From the text of a request to the terms that are looked up for it, each with what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from mcp_ext_tools_search.ranking.memo import Memo
from mcp_ext_tools_search.ranking.statistics import Statistics
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS
from mcp_ext_tools_search.ranking.synonyms import related_verbs
from mcp_ext_tools_search.ranking.tokens import words
from mcp_ext_tools_search.ranking.vocabulary import Vocabulary, may_be_misspelt, surface

__all__ = ["LONGEST_QUERY", "WeighedQuery", "Weigher"]

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

    values: list[float] = field(default_factory=list[float])
    """What each of them is worth: its weight in the query times its idf."""

    covered: list[float] = field(default_factory=list[float])
    """The idf that a tool with a term covers of the query.

    There are fewer of them than terms: the later terms are mere relatives, and cover nothing.
    """

    total_idf: float = 0.0
    """Sum of the idf of the words of the query, whether the catalogue knows them or not."""


class _Term(NamedTuple):
    """A term that a visible tool has."""

    number: int
    idf: float


class Weigher:
    """Weighs queries by the statistics of one set of visible tools, and remembers the words that it has met."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self._vocabulary = vocabulary
        self._idf = statistics.idf.data
        self._rarest = statistics.rarest
        self._known = Memo(self._look_up)
        self._written = Memo(self._look_up_written)
        self._verbs = Memo(self._look_up_verbs)
        self._corrections = Memo(self._correct)

    def weigh(self, query: str) -> WeighedQuery:
        """Return what to look up for `query`; no term where it shares none with the visible tools."""
        counts = Counter(islice(words(query[:LONGEST_QUERY]), LONGEST_QUERY))
        meant = list(islice((word for word in counts if word not in STOP_WORDS), MOST_WORDS))
        return self._weigh_words(meant, counts) if meant else self._weigh_stop_words(islice(counts, MOST_WORDS))

    def _weigh_stop_words(self, said: Iterable[str]) -> WeighedQuery:
        """Weigh a query of nothing but stop words, which then count as words."""
        known = [*filter(None, map(self._written.__getitem__, said))]
        idf = [term.idf for term in known]
        return WeighedQuery([term.number for term in known], idf, idf, sum(idf))

    def _weigh_words(self, meant: Sequence[str], counts: Mapping[str, int]) -> WeighedQuery:
        said: dict[str, int] = {}
        for word in meant:
            stemmed = stem(word)
            said[stemmed] = said.get(stemmed, 0) + counts[word]
        weights = {stemmed: _saturated(count) for stemmed, count in said.items()}
        weighed = WeighedQuery()
        terms, values = weighed.terms, weighed.values
        unknown = self._add_known(weights, weighed)
        for stemmed in unknown[:MOST_CORRECTIONS]:
            for (number, idf), share in self._corrections[stemmed]:
                terms.append(number)
                values.append(weights[stemmed] * share * idf)
                weighed.covered.append(share * idf)
        for stemmed, weight in weights.items():
            for number, idf in self._verbs[stemmed]:
                terms.append(number)
                values.append(weight * _RELATED_VERB * idf)
        for word in meant:
            if term := self._written[word]:
                terms.append(term.number)
                values.append(_saturated(counts[word]) * _AS_WRITTEN * term.idf)
        return weighed

    def _add_known(self, weights: Mapping[str, float], weighed: WeighedQuery) -> list[str]:
        """Add the stems that are known, and return the others."""
        unknown: list[str] = []
        for stemmed, weight in weights.items():
            if term := self._known[stemmed]:
                weighed.terms.append(term.number)
                weighed.values.append(weight * term.idf)
                weighed.covered.append(term.idf)
            else:
                unknown.append(stemmed)
        weighed.total_idf = sum(weighed.covered) + self._rarest * len(unknown)
        return unknown

    def _look_up(self, term: str) -> _Term | None:
        """Return `term` if a visible tool has it."""
        number = self._vocabulary.numbers.get(term)
        if number is None or number >= len(self._idf) or not self._idf[number]:
            return None
        return _Term(number, self._idf[number])

    def _look_up_written(self, word: str) -> _Term | None:
        return self._look_up(surface(word))

    def _look_up_verbs(self, stemmed: str) -> list[_Term]:
        """Return the verbs of the same operation that visible tools have."""
        return [*filter(None, map(self._look_up, related_verbs(stemmed)))]

    def _correct(self, stemmed: str) -> list[tuple[_Term, float]]:
        """Return the terms that an unknown word may be a slip for, each with what it is worth."""
        if not may_be_misspelt(stemmed):
            return []
        nearest = self._vocabulary.spelling.nearest(
            stemmed, _CORRECTIONS_PER_WORD, known=lambda word: self._look_up(word) is not None
        )
        return [(term, _CORRECTION * likeness) for word, likeness in nearest if (term := self._look_up(word))]


def _saturated(count: int) -> float:
    """Return the query-side saturation of Okapi BM25 with k3 = 1: a word said twice counts for less than two."""
    return 2 * count / (count + 1)
