"""From the text of a request to the terms that are looked up for it, each with its weight.

A request is cut into words, a word becomes a `Word` (its stem, its relatives, the word as it is written), and the words
of a request become a `WeighedQuery`. Words are looked up once for each set of visible tools, and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, pairwise
from operator import add
from typing import Final, cast

from mcp_ext_tools_search.ranking.language import (
    STOP_WORDS,
    is_character,
    is_unspaced,
    query_weights,
    related_words,
    runs,
    spelled_out,
    stem,
    words_of,
)

from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import Vocabulary, lookup_key, surface

LONGEST_QUERY: Final = 8_192
"""Characters of a query that are read."""

_MAX_WORDS: Final = 128
"""Distinct words of a query that are looked up: a request needs no more, and an attack gets no more."""

_MAX_CORRECTED: Final = 12
"""Unknown words of a query for which similar ones are looked up."""

_MAX_REMEMBERED: Final = 4_096
"""Words of queries that are remembered, for each set of visible tools; and as many unknown words."""

_SHORTEST_JOINED: Final = 5

# What a term counts, where the stem of a word of the request counts 1.
_AS_WRITTEN: Final = 0.5
_RELATED: Final = 0.3
_SPELLED_OUT: Final = 0.5
_CORRECTED: Final = 0.8
_JOINED: Final = 0.5

_GENERIC_EVIDENCE: Final = 0.15
_GENERIC_SIZE: Final = 0.5

_GENERIC: Final = """
    access account add address after agent ai allow analysis api app array ask availabl bas befor calculat call
    category chang check city cod command complet configuration contain container content count creat current
    dat data databas day dd default delet description detail display document e enabl end endpoint environment
    event exampl exist fetch field fil filter find first format full function g generat get given group guid
    http id identifier imag includ index indicat info information item json key languag level limit link list
    location manag match max maximum mcp messag mm multipl nam new not number omit one open operation option
    optional optionally output pag parameter path plac plan point power profil project property provid query
    rang read region request requir resourc respons result retriev return run s search second server servic set
    shar show singl siz sourc specific specify sql start stat status storag string subscription support system
    tag target tenant text tim titl tool tru typ uniqu updat url use used user using v valu variabl version
    virtual web whether word work yyyy
"""
GENERIC_STEMS: Final = frozenset(_GENERIC.split())
"""Stems that definitions of every domain have: sharing them with a tool says little of whether it fits a request.

The stems that 2 % of all definitions have, in the mean over unlike catalogs (`python -m benchmarks.retrieval --fit`).
"""


@dataclass(slots=True)
class WeighedQuery:
    """A query in the terms of one index, seen with the statistics of one set of visible tools."""

    terms: list[int] = field(default_factory=list[int])
    """Numbers of the terms to look up."""

    values: list[float] = field(default_factory=list[float])
    """The value of each of them: its weight in the query times its idf."""

    covered: list[float] = field(default_factory=list[float])
    """The idf that a tool with a term covers of the query.

    There are fewer of them than terms: the later terms are mere relatives, and cover nothing.
    """

    total_idf: float = 0.0
    """Sum of the idf of the words of the query, whether the catalog knows them or not."""

    evidence: list[float] = field(default_factory=list[float])
    """For each of `covered`, how much it counts as evidence that a tool has the term: 1 at most."""

    size: float | None = None
    """Number of words, generic ones for half; `None` where words cannot be separated or all are stop words."""

    unknown: list[str] = field(default_factory=list[str])
    """Words of the request, case folded, that no visible tool has in any form, nor a word that may be meant by them."""

    unknown_part: float = 0.0
    """The part of its telling words that is unknown, half of a single one; all words tell that are not generic."""


@dataclass(eq=False, slots=True)
class Word:
    """A word of a query. One object has everything, since a query mostly goes from one word to the next."""

    text: str
    stem: str

    number: int | None
    """Number of the stem; `None` where no visible tool has it."""

    idf: float
    """Of the stem."""

    evidence: float
    """How much the stem counts as evidence that a tool serves the request: 1 for the rarest of words."""

    relatives: list[int]
    """Numbers of the stems of words that mean the same, and of what it abbreviates or its abbreviation."""

    values: list[float]
    """The value of each of the relatives."""

    as_written: int | None
    """Number of the word as it is written; `None` too where that is the stem."""

    value: float
    """Of the word as it is written."""

    is_generic: bool
    is_unspaced: bool
    is_character: bool


class Weigher:
    """Weighs queries by the statistics of one set of visible tools."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self.statistics = statistics
        self._vocabulary = vocabulary
        self._size = len(statistics.idf)
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._generic = frozenset(vocabulary.numbers.get(word) for word in GENERIC_STEMS)
        self._word = lru_cache(_MAX_REMEMBERED)(self._look_up)
        self._run = lru_cache(_MAX_REMEMBERED)(self._words_in)
        self._nearest = lru_cache(_MAX_REMEMBERED)(self._corrections)

    def weigh(self, query: str) -> WeighedQuery:
        """Return the terms to look up for `query`; none where it shares none with the visible tools."""
        query = query[:LONGEST_QUERY]
        # Runs of plain text are short enough to be remembered.
        words_in = self._run if query.isascii() else self._words_in
        found = [words_in(run) for run in runs(query)]
        meant = [word for _, _, content in found for word in content]
        if not meant:
            asked = islice(dict.fromkeys(chain.from_iterable(spoken for _, spoken, _ in found)), _MAX_WORDS)
            known = [term for word in asked if (term := self._term(surface(word))) is not None]
            idf = [idf for _, idf in known]
            weighed = WeighedQuery([number for number, _ in known], [*idf], idf, sum(idf))
        else:
            weighed = self._weigh_words(meant, query)
        if any(word.number is None for word in meant):
            self._note_unknown(weighed, [(run, content) for run, _, content in found])
        # Neighbors are looked up as one word, too: a request with `log out` may mean a tool with `logout`.
        written = [run for run, _, _ in found[:_MAX_WORDS]]
        for pair in dict.fromkeys([pair for pair in map(add, written, written[1:]) if self._term(surface(pair))]):
            if len(pair) >= _SHORTEST_JOINED and (term := self._term(stem(pair))) and term[0] not in weighed.terms:
                weighed.terms.append(term[0])
                weighed.values.append(_JOINED * term[1])
        return weighed

    def _weigh_words(self, meant: Sequence[Word], query: str) -> WeighedQuery:
        if not query.isascii():
            # Of a long request rather all pairs of characters than half of them and their characters.
            meant = sorted(meant, key=lambda word: word.is_character)
        if len(meant) > _MAX_WORDS:
            first = frozenset(islice(dict.fromkeys(word.text for word in meant), _MAX_WORDS))
            meant = [word for word in meant if word.text in first]
        stems = _weights([word.stem for word in meant], meant, query)
        as_written = stems if len(stems) == len(meant) else _weights([word.text for word in meant], meant, query)
        weighed, relatives, worth = WeighedQuery(), list[int](), list[float]()
        terms, values, covered, evidence = weighed.terms, weighed.values, weighed.covered, weighed.evidence
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
        weighed.total_idf = sum(covered) + self.statistics.rarest * len(unknown)
        if unknown:
            self._add_corrections(weighed, [one for one in unknown if not one[0].is_unspaced][:_MAX_CORRECTED])
        terms += relatives
        values += worth
        written = [(word.as_written, weight * word.value) for word, weight in as_written if word.as_written is not None]
        terms += [number for number, _ in written]
        values += [value for _, value in written]
        if query.isascii() or not any(word.is_unspaced for word in meant):
            weighed.size = len(stems) - _GENERIC_SIZE * len([word for word, _ in stems if word.is_generic])
        return weighed

    def _note_unknown(self, weighed: WeighedQuery, runs: Sequence[tuple[str, Sequence[Word]]]) -> None:
        """Note which of these runs, each with its words, no visible tool knows; numbers and letters are values."""
        words = {run: content for run, content in runs if content and len(run) > 1 and run.isalpha()}
        words = {run: content for run, content in words.items() if not any(word.is_unspaced for word in content)}
        known = {
            run for run, content in words.items() if any(word.number is not None or word.relatives for word in content)
        }
        new = {run: content for run, content in words.items() if run not in known}
        unknown = [run for run in islice(new, _MAX_CORRECTED) if not any(self._nearest(word.stem) for word in new[run])]
        written = [run for run, _ in runs]
        # Definitions may write two words as one: `log out`, `logout`.
        joined = {part for pair in pairwise(written) if self._term(surface("".join(pair))) for part in pair}
        weighed.unknown = [run for run in unknown if run not in joined]
        telling = [run for run, content in words.items() if not all(word.is_generic for word in content)]
        weighed.unknown_part = len(set(weighed.unknown).intersection(telling)) / max(len(telling), 2)

    def _add_corrections(self, weighed: WeighedQuery, unknown: Sequence[tuple[Word, float]]) -> None:
        """Look up the stems that unknown ones may be slips or forms of."""
        for word, weight in unknown:
            for number, likeness in self._nearest(word.stem):
                idf, part = self._idf[number], _CORRECTED * likeness
                weighed.terms.append(number)
                weighed.values.append(weight * part * idf)
                weighed.covered.append(part * idf)
                weighed.evidence.append(part * self._evidence(idf, is_generic=number in self._generic))

    def _term(self, key: str) -> tuple[int, float] | None:
        """Return the number and the idf of a term, if a visible tool has it."""
        number = self._vocabulary.numbers.get(key)
        # A greater number has been given since the index was made: to it, the term is unknown.
        if number is None or number >= self._size or not (idf := self._idf[number]):
            return None
        return number, idf

    def _evidence(self, idf: float, *, is_generic: bool) -> float:
        return min(idf / self.statistics.rarest_of_distinct, 1.0) * (_GENERIC_EVIDENCE if is_generic else 1.0)

    def _words_in(self, run: str) -> tuple[str, tuple[str, ...], list[Word]]:
        """Return a run of letters and digits, case folded, its words, and those of them that are no stop words."""
        spoken = words_of(run)
        return run.casefold(), spoken, [self._word(word) for word in spoken if word not in STOP_WORDS]

    def _look_up(self, word: str) -> Word:
        stemmed, key = stem(word), lookup_key(word)
        is_generic = stemmed in GENERIC_STEMS
        number, idf = self._term(stemmed) or (None, 0.0)
        as_written, own_idf = (None if key == stemmed else self._term(key)) or (None, 0.0)
        relatives = [(other, _RELATED) for other in related_words(stemmed)]
        relatives += [(other, _SPELLED_OUT) for other in spelled_out(stemmed)]
        known = [(*term, weight) for other, weight in relatives if (term := self._term(other)) is not None]
        return Word(
            text=word,
            stem=stemmed,
            number=number,
            idf=idf,
            evidence=self._evidence(idf, is_generic=is_generic),
            relatives=[number for number, _, _ in known],
            values=[weight * idf for _, idf, weight in known],
            as_written=as_written,
            value=_AS_WRITTEN * own_idf,
            is_generic=is_generic,
            is_unspaced=is_unspaced(stemmed),
            is_character=is_character(stemmed),
        )

    def _corrections(self, word: str) -> list[tuple[int, float]]:
        return self._vocabulary.nearest(word, self.statistics.idf > 0)


def _weights(keys: Sequence[str], meant: Sequence[Word], query: str) -> list[tuple[Word, float]]:
    """Return a word for each different key, in the order in which they come, with its weight in the query."""
    by_key = dict(zip(keys, meant, strict=True))
    if len(by_key) == len(meant) and query.isascii():
        return [(word, 1.0) for word in meant]  # the usual case
    return [(by_key[key], weight) for key, weight in query_weights(keys, query).items()]
