"""From the text of a request to the terms that are looked up for it, each with its weight.

A request is cut into words, a word becomes a `Word` (its stem, its relatives, the word as it is written), and the words
of a request become a `WeighedQuery`. Words are looked up once for each set of visible tools, and remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import add
from typing import Final, NamedTuple, TypeVar, cast

import numpy as np
from mcp_ext_tools_search.ranking.language import (
    is_character,
    is_unspaced,
    related_words,
    runs,
    spelled_out,
    stem,
    without_fillers,
    words,
    words_of,
)
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS

from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import Vocabulary, lookup_key, may_be_misspelled, surface

Key = TypeVar("Key")
Value = TypeVar("Value")

LONGEST_QUERY: Final = 8_192
"""Characters of a query that are read."""

_MAX_WORDS: Final = 128
"""Distinct words of a query that are looked up: a request needs no more, and an attack gets no more."""

_MAX_CORRECTED: Final = 12
"""Unknown words of a query for which similar ones are looked up."""

_MAX_REMEMBERED: Final = 4_096
"""Words of queries that are remembered, for each set of visible tools; and as many unknown words."""

_CORRECTIONS_PER_WORD: Final = 2
_SHORTEST_JOINED: Final = 5

# What a term counts, where the stem of a word of the request counts 1.
_AS_WRITTEN: Final = 0.5
_RELATED: Final = 0.3
_SPELLED_OUT: Final = 0.5
_CORRECTED: Final = 0.8
_JOINED: Final = 0.5
_FILLER: Final = 0.5

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

The stems that 2 % of all definitions have, in the mean over unlike catalogs (`benchmarks/nothing`).
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


class _Correction(NamedTuple):
    """A term that an unknown word may be a slip for."""

    number: int
    idf: float
    worth: float
    """Its weight, where the word itself would count 1."""

    evidence: float


class Weigher:
    """Weighs queries by the statistics of one set of visible tools."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self._numbers = vocabulary.numbers
        self._statistics = statistics
        self._size = len(statistics.idf)
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._generic = frozenset(self._numbers[word] for word in GENERIC_STEMS if word in self._numbers)
        self._spelling = vocabulary.spelling
        spelled = np.frombuffer(vocabulary.spelled[:], dtype=np.int32)
        self._spelled = spelled[: spelled.searchsorted(self._size)]
        self._is_spelled = statistics.idf[self._spelled] > 0
        self._words = _Memo(self._word, _MAX_REMEMBERED)
        self._runs = _Memo(self._run, _MAX_REMEMBERED)
        self._corrections = _Memo(self._corrections_of, _MAX_REMEMBERED)

    def weigh(self, query: str) -> WeighedQuery:
        """Return the terms to look up for `query`; none where it shares none with the visible tools."""
        query = query[:LONGEST_QUERY]
        if query.isascii():
            found = [self._runs[run] for run in runs(query)]
            spoken, meant = [written for written, _ in found], [word for _, own in found for word in own]
        else:
            spoken = list(words(query))
            # Of a long request rather all pairs of characters than half of them and their characters.
            content = sorted([word for word in spoken if word not in STOP_WORDS], key=is_character)
            meant = [self._words[word] for word in content]
        if not meant:
            return self._weigh_stop_words(spoken)
        weighed = self._weigh_words(meant if len(meant) <= _MAX_WORDS else _first_distinct(meant), query)
        self._add_joined(weighed, spoken)
        return weighed

    def _weigh_stop_words(self, spoken: Iterable[str]) -> WeighedQuery:
        asked = islice(dict.fromkeys(spoken), _MAX_WORDS)
        known = [term for word in asked if (term := self._term(surface(word))) is not None]
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
        """Look up stems, each with its weight: or the nearest known ones, and their relatives."""
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
        weighed.total_idf = sum(covered) + self._statistics.rarest * len(unknown)
        for word, weight in [one for one in unknown if not one[0].is_unspaced][:_MAX_CORRECTED]:
            for correction in self._corrections[word.stem]:
                terms.append(correction.number)
                values.append(weight * correction.worth * correction.idf)
                covered.append(correction.worth * correction.idf)
                evidence.append(correction.worth * correction.evidence)
        terms += relatives
        values += worth

    def _add_joined(self, weighed: WeighedQuery, spoken: Sequence[str]) -> None:
        """Look up neighbors as one word: a request with `log out` may mean a tool with `logout`."""
        pairs = map(add, spoken, islice(spoken, 1, _MAX_WORDS))
        for pair in dict.fromkeys([pair for pair in pairs if surface(pair) in self._numbers]):
            if len(pair) < _SHORTEST_JOINED or not pair.isascii():
                continue
            word = self._words[pair]
            if word.number is not None and word.number not in weighed.terms:
                weighed.terms.append(word.number)
                weighed.values.append(_JOINED * word.idf)

    def _term(self, key: str) -> tuple[int, float] | None:
        """Return the number and the idf of a term, if a visible tool has it."""
        number = self._numbers.get(key)
        # A greater number has been given since the index was made: to it, the term is unknown.
        if number is None or number >= self._size or not (idf := self._idf[number]):
            return None
        return number, idf

    def _evidence(self, idf: float, *, is_generic: bool) -> float:
        return min(idf / self._statistics.rarest_of_distinct, 1.0) * (_GENERIC_EVIDENCE if is_generic else 1.0)

    def _run(self, run: str) -> tuple[str, list[Word]]:
        """Return a run of letters and digits, case folded, and its words but for stop words."""
        parts = words_of(run)
        return parts[0], [self._word(word) for word in parts if word not in STOP_WORDS]

    def _word(self, word: str) -> Word:
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

    def _corrections_of(self, word: str) -> list[_Correction]:
        """Return the nearest stems that a visible tool has: mostly none."""
        if not may_be_misspelled(word):
            return []
        corrections: list[_Correction] = []
        for place, likeness in self._spelling.nearest(word, _CORRECTIONS_PER_WORD, self._is_spelled):
            number = int(self._spelled[place])
            idf, is_generic = self._idf[number], number in self._generic
            evidence = self._evidence(idf, is_generic=is_generic)
            corrections.append(_Correction(number, idf, _CORRECTED * likeness, evidence))
        return corrections


def _first_distinct(meant: Sequence[Word]) -> list[Word]:
    """Return the first words until so many of them are distinct that no more are looked up."""
    first = frozenset(islice(dict.fromkeys(word.text for word in meant), _MAX_WORDS))
    return [word for word in meant if word.text in first]


def _weights(keys: Sequence[str], meant: Sequence[Word]) -> list[tuple[Word, float]]:
    """Return a word for each different key, in the order in which they come, with its weight in the query.

    The weight has the query-side saturation of Okapi BM25, k3 = 1: a word said twice counts for less than two.
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


class _Memo(dict[Key, Value]):
    """Values by key, made when they are first asked for; `memo[key]` costs no call where the value is there.

    Any number of threads may ask. When there are too many values all are forgotten.

    Args:
        make: Makes a value.
        most: Values that are remembered.
    """

    def __init__(self, make: Callable[[Key], Value], most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: Key) -> Value:
        if len(self) >= self._most:
            self.clear()
        value = self[key] = self._make(key)
        return value
