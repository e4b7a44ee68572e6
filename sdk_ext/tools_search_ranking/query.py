"""The terms of a request in one index: what each is worth, and how much of the request the index knows.

The terms come from the port (`ranking/query.py`), so that this ranking reads requests as the readable one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final, cast

from mcp_ext_tools_search.ranking.language import (
    STOP_WORDS,
    is_character,
    is_unspaced,
    runs,
    stem,
    words_of,
)
from mcp_ext_tools_search.ranking.query import MAX_CORRECTED, MAX_QUERY_LENGTH, WRITTEN, asked_terms, relatives

from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import Vocabulary

_MAX_REMEMBERED: Final = 4_096
"""Terms of queries that are remembered, for each set of visible tools, and as many unknown words."""

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

    terms: Sequence[int]
    """Numbers of the terms to look up."""

    values: Sequence[float]
    """The value of each of them: its weight in the query times its idf."""

    covered: Sequence[float]
    """The idf that a tool with a term covers of the query.

    There are fewer of them than terms: the later terms are mere relatives, and cover nothing.
    """

    evidence: Sequence[float]
    """For each of `covered`, how much it counts as evidence that a tool has the term: 1 at most."""

    total_idf: float
    """Sum of the idf of the words of the query, whether the catalog knows them or not."""

    size: float | None
    """Number of words, generic ones for half; `None` where words cannot be separated or all are stop words."""

    unknown: Sequence[str]
    """Words of the request, case folded, that no visible tool has in any form, nor a word that may be meant by them."""

    unknown_part: float
    """The part of its telling words that is unknown, half of a single one; all words tell that are not generic."""


class Weigher:
    """Weighs queries by the statistics of one set of visible tools."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self.statistics = statistics
        self._numbers = vocabulary.numbers
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._term = lru_cache(_MAX_REMEMBERED)(self._look_up)
        self._run = lru_cache(_MAX_REMEMBERED)(self._read_run)
        self._nearest = lru_cache(_MAX_REMEMBERED)(partial(vocabulary.nearest, known=statistics.idf > 0))

    def weigh(self, query: str) -> WeighedQuery:
        """Return the terms to look up for `query`; none where it shares none with the visible tools."""
        asked = asked_terms(query, self._term, self._nearest)
        words = [key for key, _, covers in asked if covers == 1.0]
        terms, values, covered, evidence = list[int](), list[float](), list[float](), list[float]()
        for key, weight, covers in asked:
            if covers and (term := self._term(key)):
                number, idf = term
                terms.append(number)
                values.append(weight * idf)
                covered.append(covers * idf)
                evidence.append(covers * self._evidence(key, idf))
        for key, weight, covers in asked:
            if not covers and (term := self._term(key)):
                number, idf = term
                terms.append(number)
                values.append(weight * idf)
        total_idf = sum([self._idf_of_word(word) for word in words])
        unknown, unknown_part = ((), 0.0) if all(map(self._term, words)) else self._unknown(query[:MAX_QUERY_LENGTH])
        size = None
        if words and words[0][0] != WRITTEN and (query.isascii() or not any(map(is_unspaced, words))):
            size = len(words) - _GENERIC_SIZE * len(GENERIC_STEMS.intersection(words))
        return WeighedQuery(terms, values, covered, evidence, total_idf, size, unknown, unknown_part)

    def _idf_of_word(self, key: str) -> float:
        known = self._term(key)
        return known[1] if known else 0.0 if is_character(key) else self.statistics.rarest

    def _evidence(self, key: str, idf: float) -> float:
        part = _GENERIC_EVIDENCE if key in GENERIC_STEMS else 1.0
        return min(idf / self.statistics.rarest_of_distinct, 1.0) * part

    def _unknown(self, query: str) -> tuple[Sequence[str], float]:
        """Return the runs of letters that no visible tool knows, and their part of the telling ones."""
        # Runs of plain text are short enough to be remembered.
        found = list(map(self._run if query.isascii() else self._read_run, runs(query)))
        stems = {run: own for run, own, _ in found if own}
        known = {run for run, _, is_known in found if is_known}
        new = [run for run in stems if run not in known][:MAX_CORRECTED]
        if not new:
            return (), 0.0
        # Definitions may write two words as one: `log out`, `logout`.
        pairs = pairwise(run for run, _, _ in found)
        joined = {part for pair in pairs if self._term(WRITTEN + "".join(pair)) for part in pair}
        unknown = [run for run in new if run not in joined and not any(map(self._nearest, stems[run]))]
        telling = [run for run, own in stems.items() if not GENERIC_STEMS.issuperset(own)]
        return unknown, len(set(unknown).intersection(telling)) / max(len(telling), 2)

    def _read_run(self, run: str) -> tuple[str, Sequence[str], bool]:
        """Return a run, case folded, the stems of its words, and whether a visible tool has one or what means the same.

        Numbers and letters are values, and no words; nor are there stems where no space parts the words.
        """
        stems = [stem(word) for word in words_of(run) if word not in STOP_WORDS]
        if len(run) == 1 or not run.isalpha() or any(map(is_unspaced, stems)):
            return run.casefold(), (), False
        alike = [other for own in stems for other, _ in ((own, 1.0), *relatives(own))]
        return run.casefold(), stems, any(map(self._term, alike))

    def _look_up(self, key: str) -> tuple[int, float] | None:
        """Return the number and the idf of a term, if a visible tool has it."""
        number = self._numbers.get(key)
        # A greater number has been given since the index was made: to it, the term is unknown.
        if number is None or number >= len(self._idf) or not (idf := self._idf[number]):
            return None
        return number, idf
