"""From the text of a request to the terms that are looked up for it, each with what it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, cast

from mcp_ext_tools_search.ranking.generic_words import GENERIC_STEMS
from mcp_ext_tools_search.ranking.memo import Memo
from mcp_ext_tools_search.ranking.statistics import Statistics
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS, without_fillers
from mcp_ext_tools_search.ranking.synonyms import related_verbs
from mcp_ext_tools_search.ranking.tokens import is_character, is_unspaced, words
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
_FILLER: Final = 0.5
_CORRECTIONS_PER_WORD: Final = 2
_GENERIC_EVIDENCE: Final = 0.15
_GENERIC_SIZE: Final = 0.5


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

    evidence: list[float] = field(default_factory=list[float])
    """How much it tells of a tool that it has the term: for each of `covered`, 1 at most."""

    size: float | None = None
    """Number of words, generic ones for half; `None` where words cannot be told apart or there are but stop words."""


class Weigher:
    """Weighs queries by the statistics of one set of visible tools, and remembers what unknown words may have meant."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self._vocabulary = vocabulary
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._rarest = statistics.rarest
        self._corrections = Memo(self._correct)
        self._generic = frozenset(vocabulary.numbers[word] for word in GENERIC_STEMS if word in vocabulary.numbers)

    def weigh(self, query: str) -> WeighedQuery:
        """Return what to look up for `query`; no term where it shares none with the visible tools."""
        counts: dict[str, int] = {}
        query = query[:LONGEST_QUERY]
        for word in islice(words(query), LONGEST_QUERY):
            counts[word] = counts.get(word, 0) + 1
        # Of a long request rather all pairs of characters than half of them and their characters.
        ordered = counts if query.isascii() else sorted(counts, key=is_character)
        meant = list(islice((word for word in ordered if word not in STOP_WORDS), MOST_WORDS))
        if meant:
            return self._weigh_words({word: counts[word] for word in meant}, query)
        known, _ = self._known({surface(word): 1.0 for word in islice(counts, MOST_WORDS)})
        idf = [self._idf[number] for number in known]
        return WeighedQuery([*known], idf, idf, sum(idf))

    def _weigh_words(self, counts: Mapping[str, int], query: str) -> WeighedQuery:
        unspaced = frozenset[str]() if query.isascii() else frozenset(filter(is_unspaced, counts))
        characters = frozenset(filter(is_character, unspaced))
        fillers = unspaced.difference(words(without_fillers(query))) if unspaced else unspaced
        said: dict[str, int] = {}
        for word, count in counts.items():
            stemmed = stem(word)
            said[stemmed] = said.get(stemmed, 0) + count
        weights = {stemmed: _saturated(count) for stemmed, count in said.items()}
        weights.update({word: weights[word] * _FILLER for word in fillers})
        weighed = WeighedQuery()
        known, unknown = self._known(
            {stemmed: weight for stemmed, weight in weights.items() if stemmed not in characters}
        )
        self._add(weighed, known.items())
        weighed.covered += [self._idf[number] for number in known]
        weighed.total_idf = sum(weighed.covered) + self._rarest * len(unknown)
        for stemmed in [word for word in unknown if word not in unspaced][:MOST_CORRECTIONS]:
            corrections = self._corrections[stemmed]
            self._add(weighed, [(number, weights[stemmed] * share) for number, share in corrections])
            weighed.covered += [share * self._idf[number] for number, share in corrections]
        self._judge(weighed, weights)
        for stemmed, weight in weights.items():
            if verbs := related_verbs(stemmed):
                self._add(weighed, self._known(dict.fromkeys(verbs, weight * _RELATED_VERB))[0].items())
        as_written = {
            surface(word): (weights[word] if word in characters else _saturated(count)) * _AS_WRITTEN
            for word, count in counts.items()
            if word in characters or word not in unspaced
        }
        self._add(weighed, self._known(as_written)[0].items())
        return weighed

    def _judge(self, weighed: WeighedQuery, stems: Iterable[str]) -> None:
        """Note what the words of a query tell, for knowing when nothing fits."""
        covering = zip(weighed.terms, weighed.covered, strict=False)
        told = [(idf / self._rarest, number in self._generic) for number, idf in covering]
        weighed.evidence = [part * _GENERIC_EVIDENCE if is_generic else part for part, is_generic in told]
        words = list(stems)
        if not any(map(is_unspaced, words)):
            weighed.size = len(words) - _GENERIC_SIZE * sum(word in GENERIC_STEMS for word in words)

    def _add(self, weighed: WeighedQuery, weights: Iterable[tuple[int, float]]) -> None:
        """Look up terms too, each with its weight."""
        for number, weight in weights:
            weighed.terms.append(number)
            weighed.values.append(weight * self._idf[number])

    def _known(self, weights: Mapping[str, float]) -> tuple[dict[int, float], list[str]]:
        """Return the weights of the terms that a visible tool has, by number, and the terms that none has."""
        known: dict[int, float] = {}
        unknown: list[str] = []
        find, idf, size = self._vocabulary.numbers.get, self._idf, len(self._idf)
        for term, weight in weights.items():
            number = find(term)
            # Greater numbers have been given since this index was made.
            if number is not None and number < size and idf[number]:
                known[number] = weight
            else:
                unknown.append(term)
        return known, unknown

    def _correct(self, stemmed: str) -> list[tuple[int, float]]:
        """Return the terms that an unknown word may be a slip for, each with what it is worth."""
        if not may_be_misspelt(stemmed):
            return []
        numbers = self._vocabulary.numbers

        def known(word: str) -> bool:
            return numbers[word] < len(self._idf) and self._idf[numbers[word]] > 0

        nearest = self._vocabulary.spelling.nearest(stemmed, _CORRECTIONS_PER_WORD, known)
        return [(numbers[word], _CORRECTION * likeness) for word, likeness in nearest]


def _saturated(count: int) -> float:
    """Return the query-side saturation of Okapi BM25 with k3 = 1: a word said twice counts for less than two."""
    return 2 * count / (count + 1)
