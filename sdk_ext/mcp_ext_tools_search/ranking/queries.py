"""From the text of a request to the terms that are looked up for it, each with what it is worth."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, cast

from mcp_ext_tools_search.ranking.corrections import Corrections
from mcp_ext_tools_search.ranking.lookups import Lookup, Lookups
from mcp_ext_tools_search.ranking.statistics import Statistics
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS, without_fillers
from mcp_ext_tools_search.ranking.tokens import is_character, words
from mcp_ext_tools_search.ranking.vocabulary import Vocabulary, surface

__all__ = ["LONGEST_QUERY", "WeighedQuery", "Weigher"]

LONGEST_QUERY: Final = 8_192
"""Characters of a query that are read."""

MOST_WORDS: Final = 128
"""Distinct words of a query that are looked up: a request needs no more, and an attack gets no more."""

MOST_CORRECTIONS: Final = 12
"""Unknown words of a query for which similar ones are looked up."""

_AS_WRITTEN: Final = 0.5
_RELATED: Final = 0.3
_SPELLED_OUT: Final = 0.5
_JOINED: Final = 0.5
_SHORTEST_JOINED: Final = 5
_FILLER: Final = 0.5
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

    def __init__(self, vocabulary: Vocabulary, lookups: Lookups, statistics: Statistics) -> None:
        self._lookups = lookups
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._rarest = statistics.rarest
        self._rarest_of_distinct = statistics.rarest_of_distinct
        self._corrections = Corrections(vocabulary, statistics.idf)

    def weigh(self, query: str) -> WeighedQuery:
        """Return what to look up for `query`; no term where it shares none with the visible tools."""
        counts: dict[str, int] = {}
        query = query[:LONGEST_QUERY]
        spoken = list(islice(words(query), LONGEST_QUERY))
        for word in spoken:
            counts[word] = counts.get(word, 0) + 1
        # Of a long request rather all pairs of characters than half of them and their characters.
        ordered = counts if query.isascii() else sorted(counts, key=is_character)
        meant = list(islice((word for word in ordered if word not in STOP_WORDS), MOST_WORDS))
        if meant:
            weighed = self._weigh_words({word: counts[word] for word in meant}, query)
            self._add_joined(weighed, spoken)
            return weighed
        numbers = (self._lookups.number(surface(word)) for word in islice(counts, MOST_WORDS))
        known = [number for number in numbers if number is not None and self._idf[number]]
        idf = [self._idf[number] for number in known]
        return WeighedQuery(known, idf, idf, sum(idf))

    def _weigh_words(self, counts: Mapping[str, int], query: str) -> WeighedQuery:
        found = [(self._lookups.of[word], _saturated(count)) for word, count in counts.items()]
        stems: dict[str, tuple[Lookup, int]] = {}
        for (word, _), count in zip(found, counts.values(), strict=True):
            known = stems.get(word.stem)
            stems[word.stem] = word, count if known is None else known[1] + count
        said = [(word, _saturated(count)) for word, count in stems.values()]
        weighed = WeighedQuery()
        if any(word.is_unspaced for word, _ in found):
            content = frozenset(words(without_fillers(query)))
            found, said = _with_light_fillers(found, content), _with_light_fillers(said, content)
        else:
            weighed.size = len(said) - _GENERIC_SIZE * len([word for word, _ in said if word.is_generic])
        unknown = self._add_stems(weighed, said)
        weighed.total_idf = sum(weighed.covered) + self._rarest * len(unknown)
        if unknown:
            self._add_corrections(weighed, [word for word in unknown if not word[0].is_unspaced][:MOST_CORRECTIONS])
        self._add_relatives(weighed, [(number, weight * _RELATED) for word, weight in said for number in word.related])
        self._add_relatives(
            weighed, [(number, weight * _SPELLED_OUT) for word, weight in said for number in word.spelled_out]
        )
        as_written = [(word.as_written, weight * _AS_WRITTEN) for word, weight in found if word.as_written is not None]
        self._add_relatives(weighed, as_written)
        return weighed

    def _add_stems(self, weighed: WeighedQuery, stems: Iterable[tuple[Lookup, float]]) -> list[tuple[Lookup, float]]:
        """Look up stems, each with its weight; return those that no visible tool has."""
        unknown: list[tuple[Lookup, float]] = []
        for word, weight in stems:
            if word.number is not None and (idf := self._idf[word.number]):
                weighed.terms.append(word.number)
                weighed.values.append(weight * idf)
                weighed.covered.append(idf)
                weighed.evidence.append(self._evidence(idf, word.is_generic))
            elif not word.is_character:
                unknown.append((word, weight))
        return unknown

    def _add_corrections(self, weighed: WeighedQuery, unknown: Sequence[tuple[Lookup, float]]) -> None:
        """Look up what unknown stems may have meant."""
        for word, weight in unknown:
            for number, share, is_generic in self._corrections.of(word.stem):
                idf = self._idf[number]
                weighed.terms.append(number)
                weighed.values.append(weight * share * idf)
                weighed.covered.append(share * idf)
                weighed.evidence.append(share * self._evidence(idf, is_generic))

    def _evidence(self, idf: float, is_generic: bool) -> float:
        return min(idf / self._rarest_of_distinct, 1.0) * (_GENERIC_EVIDENCE if is_generic else 1.0)

    def _add_joined(self, weighed: WeighedQuery, spoken: Sequence[str]) -> None:
        """Look up neighbours as one word: who writes `log out` may mean what another calls `logout`."""
        pairs = (first + second for first, second in islice(pairwise(spoken), MOST_WORDS))
        written = dict.fromkeys(pair for pair in pairs if self._lookups.is_written(pair))
        joined = [self._lookups.of[pair].number for pair in written if len(pair) >= _SHORTEST_JOINED and pair.isascii()]
        said = set(weighed.terms)
        self._add_relatives(
            weighed, [(number, _JOINED) for number in joined if number is not None and number not in said]
        )

    def _add_relatives(self, weighed: WeighedQuery, weights: Iterable[tuple[int, float]]) -> None:
        """Look up terms that cover nothing of the query, those of them that a visible tool has."""
        for number, weight in weights:
            if idf := self._idf[number]:
                weighed.terms.append(number)
                weighed.values.append(weight * idf)


def _with_light_fillers(weights: Iterable[tuple[Lookup, float]], content: Container[str]) -> list[tuple[Lookup, float]]:
    """Return the words with less weight for those of scripts without spaces that are not in `content`."""
    return [
        (word, weight * _FILLER if word.is_unspaced and word.stem not in content else weight)
        for word, weight in weights
    ]


def _saturated(count: int) -> float:
    """Return the query-side saturation of Okapi BM25 with k3 = 1: a word said twice counts for less than two."""
    return 2 * count / (count + 1)
