"""From the text of a request to the terms that are looked up for it, each with what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mcp_ext_tools_search.ranking.postings import Postings, surface
from mcp_ext_tools_search.ranking.spelling import Spelling
from mcp_ext_tools_search.ranking.statistics import Statistics
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS
from mcp_ext_tools_search.ranking.synonyms import related_verbs
from mcp_ext_tools_search.ranking.tokens import words

__all__ = ["LONGEST_QUERY", "QueryTerm", "WeighedQuery", "Weigher"]

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
_SHORTEST_CORRECTED: Final = 4


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One term to look up."""

    number: int
    """Its number in the index."""

    weight: float
    covers: float = 0.0
    """Share of a word of the query that a tool with this term covers: 1 for the word itself, 0 for a mere relative."""


@dataclass(frozen=True, slots=True)
class WeighedQuery:
    """A query in the terms of one index, seen with the statistics of one set of visible tools."""

    terms: tuple[QueryTerm, ...]
    total_idf: float
    """Sum of the idf of the words of the query, whether the catalogue knows them or not."""


class Weigher:
    """Weighs queries against one index."""

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        self._spelling = Spelling(term for term in postings.terms if term.isalpha() and _may_be_misspelt(term))

    def weigh(self, query: str, statistics: Statistics) -> WeighedQuery:
        """Return what to look up for `query`; no term where it shares none with the visible tools."""
        counts = Counter(islice(words(query[:LONGEST_QUERY]), LONGEST_QUERY))
        stems = Counter[str]()
        written = dict[str, int]()
        for word, count in counts.items():
            if word not in STOP_WORDS and len(written) < MOST_WORDS:
                stems[stem(word)] += count
                written[word] = count
        if not written:
            return self._of_stop_words(counts, statistics)
        return self._of_words(stems, written, statistics)

    def _of_stop_words(self, counts: Counter[str], statistics: Statistics) -> WeighedQuery:
        """Weigh a query of nothing but stop words, which then count as words."""
        looked_up = [self._known(surface(word), statistics) for word in islice(counts, MOST_WORDS)]
        numbers = [number for number in looked_up if number is not None]
        total = sum(float(statistics.idf[number]) for number in numbers)
        return WeighedQuery(tuple(QueryTerm(number, 1.0, covers=1.0) for number in numbers), total)

    def _of_words(self, stems: Counter[str], written: dict[str, int], statistics: Statistics) -> WeighedQuery:
        weights = {stemmed: _saturated(count) for stemmed, count in stems.items()}
        numbers = {stemmed: self._known(stemmed, statistics) for stemmed in weights}
        known = {stemmed: number for stemmed, number in numbers.items() if number is not None}
        unknown = [stemmed for stemmed in weights if stemmed not in known]
        terms = [QueryTerm(number, weights[stemmed], covers=1.0) for stemmed, number in known.items()]
        for stemmed in filter(_may_be_misspelt, unknown[:MOST_CORRECTIONS]):
            terms.extend(self._corrected(stemmed, weights[stemmed], statistics))
        for stemmed, weight in weights.items():
            related = dict.fromkeys(related_verbs(stemmed), weight * _RELATED_VERB)
            terms.extend(self._relatives(related, statistics))
        as_written = {surface(word): _saturated(count) * _AS_WRITTEN for word, count in written.items()}
        terms.extend(self._relatives(as_written, statistics))
        total = sum(float(statistics.idf[number]) for number in known.values()) + statistics.rarest * len(unknown)
        return WeighedQuery(tuple(terms), total)

    def _relatives(self, weights: Mapping[str, float], statistics: Statistics) -> Iterator[QueryTerm]:
        """Look up terms that add to a tool's score and cover nothing of the query."""
        for term, weight in weights.items():
            if (number := self._known(term, statistics)) is not None:
                yield QueryTerm(number, weight)

    def _corrected(self, stemmed: str, weight: float, statistics: Statistics) -> Iterator[QueryTerm]:
        nearest = self._spelling.nearest(
            stemmed, _CORRECTIONS_PER_WORD, known=lambda word: self._known(word, statistics) is not None
        )
        for known, likeness in nearest:
            share = _CORRECTION * likeness
            yield QueryTerm(self._postings.terms[known], weight * share, covers=share)

    def _known(self, term: str, statistics: Statistics) -> int | None:
        """Return the number of `term` if a visible tool has it."""
        number = self._postings.terms.get(term)
        return number if number is not None and statistics.idf[number] > 0 else None


def _saturated(count: int) -> float:
    """Return the query-side saturation of Okapi BM25 with k3 = 1: a word said twice counts for less than two."""
    return 2 * count / (count + 1)


def _may_be_misspelt(stemmed: str) -> bool:
    return len(stemmed) >= _SHORTEST_CORRECTED
