"""From the text of a request to the terms that are looked up for it, each with what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import add
from typing import Final

from mcp_ext_tools_search.ranking.language import is_character, runs, without_fillers, words
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS

from tools_search_ranking.corrections import Corrections
from tools_search_ranking.lookups import Lookups, Word
from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import Vocabulary, surface

__all__ = ["LONGEST_QUERY", "WeighedQuery", "Weigher"]

LONGEST_QUERY: Final = 8_192
"""Characters of a query that are read."""

MOST_WORDS: Final = 128
"""Distinct words of a query that are looked up: a request needs no more, and an attack gets no more."""

MOST_CORRECTIONS: Final = 12
"""Unknown words of a query for which similar ones are looked up."""

_JOINED: Final = 0.5
_SHORTEST_JOINED: Final = 5
_FILLER: Final = 0.5
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
    """Sum of the idf of the words of the query, whether the catalog knows them or not."""

    evidence: list[float] = field(default_factory=list[float])
    """How much it tells of a tool that it has the term: for each of `covered`, 1 at most."""

    size: float | None = None
    """Number of words, generic ones for half; `None` where words cannot be told apart or there are but stop words."""


class Weigher:
    """Weighs queries by the statistics of one set of visible tools, and remembers what unknown words may have meant."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self._lookups = Lookups(vocabulary, statistics)
        self._corrections = Corrections(vocabulary, statistics.idf)
        self._rarest = statistics.rarest

    def weigh(self, query: str) -> WeighedQuery:
        """Return what to look up for `query`; no term where it shares none with the visible tools."""
        query = query[:LONGEST_QUERY]
        if query.isascii():
            of_run = self._lookups.of_run
            found = [of_run[run] for run in runs(query)]
            spoken, meant = [run.written for run in found], [word for run in found for word in run.words]
        else:
            spoken = list(words(query))
            # Of a long request rather all pairs of characters than half of them and their characters.
            content = sorted([word for word in spoken if word not in STOP_WORDS], key=is_character)
            meant = [self._lookups.of_word[word] for word in content]
        if not meant:
            return self._weigh_stop_words(spoken)
        weighed = self._weigh_words(meant if len(meant) <= MOST_WORDS else _first_distinct(meant), query)
        self._add_joined(weighed, spoken)
        return weighed

    def _weigh_stop_words(self, spoken: Iterable[str]) -> WeighedQuery:
        asked = islice(dict.fromkeys(spoken), MOST_WORDS)
        known = [term for word in asked if (term := self._lookups.term(surface(word))) is not None]
        idf = [idf for _, idf in known]
        return WeighedQuery([number for number, _ in known], idf, idf, sum(idf))

    def _weigh_words(self, meant: Sequence[Word], query: str) -> WeighedQuery:
        weighed = WeighedQuery()
        stems = _weights([word.stem for word in meant], meant)
        written = stems if len(stems) == len(meant) else _weights([word.text for word in meant], meant)
        if not query.isascii() and any(word.is_unspaced for word in meant):
            content = frozenset(words(without_fillers(query)))
            stems, written = _with_light_fillers(stems, content), _with_light_fillers(written, content)
        else:
            weighed.size = len(stems) - _GENERIC_SIZE * len([word for word, _ in stems if word.is_generic])
        self._add_stems(weighed, stems)
        for word, weight in written:
            if word.as_written is not None:
                weighed.terms.append(word.as_written)
                weighed.values.append(weight * word.value)
        return weighed

    def _add_stems(self, weighed: WeighedQuery, stems: Iterable[tuple[Word, float]]) -> None:
        """Look up stems, each with its weight: or what else they may mean, and their relatives."""
        terms, values, covered, evidence = weighed.terms, weighed.values, weighed.covered, weighed.evidence
        relatives: list[int] = []
        worth: list[float] = []
        unknown: list[tuple[Word, float]] = []
        for word, weight in stems:
            if word.number is not None:
                terms.append(word.number)
                values.append(weight * word.idf)
                covered.append(word.idf)
                evidence.append(word.evidence)
            elif not word.is_character:
                unknown.append((word, weight))
            if word.relatives:
                relatives += word.relatives
                worth += [weight * value for value in word.values]
        weighed.total_idf = sum(covered) + self._rarest * len(unknown)
        if unknown:
            self._add_corrections(weighed, [word for word in unknown if not word[0].is_unspaced][:MOST_CORRECTIONS])
        terms += relatives
        values += worth

    def _add_corrections(self, weighed: WeighedQuery, unknown: Iterable[tuple[Word, float]]) -> None:
        """Look up what unknown stems may have meant."""
        for word, weight in unknown:
            for number, idf, share, is_generic in self._corrections.of[word.stem]:
                weighed.terms.append(number)
                weighed.values.append(weight * share * idf)
                weighed.covered.append(share * idf)
                weighed.evidence.append(share * self._lookups.evidence(idf, is_generic=is_generic))

    def _add_joined(self, weighed: WeighedQuery, spoken: Sequence[str]) -> None:
        """Look up neighbours as one word: who writes `log out` may mean what another calls `logout`."""
        written = self._lookups.are_written(map(add, spoken, islice(spoken, 1, MOST_WORDS)))
        for pair in dict.fromkeys(written):
            if len(pair) < _SHORTEST_JOINED or not pair.isascii():
                continue
            word = self._lookups.of_word[pair]
            if word.number is not None and word.number not in weighed.terms:
                weighed.terms.append(word.number)
                weighed.values.append(_JOINED * word.idf)


def _first_distinct(meant: Sequence[Word]) -> list[Word]:
    """Return those of the first `MOST_WORDS` words, as often as they are said."""
    first = frozenset(islice(dict.fromkeys(word.text for word in meant), MOST_WORDS))
    return [word for word in meant if word.text in first]


def _weights(keys: Sequence[str], meant: Sequence[Word]) -> list[tuple[Word, float]]:
    """Return a word for each different key, in the order in which they come, with its weight in the query.

    That has the query-side saturation of Okapi BM25, k3 = 1: a word said twice counts for less than two.
    """
    words = dict(zip(keys, meant, strict=True))
    if len(words) == len(meant):
        return [(word, 1.0) for word in meant]
    counts = Counter(keys)
    return [(word, 2 * counts[key] / (counts[key] + 1)) for key, word in words.items()]


def _with_light_fillers(weights: Iterable[tuple[Word, float]], content: Container[str]) -> list[tuple[Word, float]]:
    """Return the words with less weight for those of scripts without spaces that are not in `content`."""
    return [
        (word, weight * _FILLER if word.is_unspaced and word.stem not in content else weight)
        for word, weight in weights
    ]
