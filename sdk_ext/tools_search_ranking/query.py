"""The terms of a request in one index: their weights, and how much of the request the index knows.

The interface package (`ranking/query.py`) determines the terms of a request, for this ranking and the simple one. Terms
that have been looked up in an index are cached for later requests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final, cast

import numpy as np
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.language import is_character, is_unspaced, relatives
from mcp_ext_tools_search.ranking.query import MAX_CORRECTED, WRITTEN, Request, asked_terms, read
from numpy.typing import NDArray

from tools_search_ranking.index import Documents
from tools_search_ranking.postings import Entries
from tools_search_ranking.statistics import Statistics
from tools_search_ranking.translation import in_english
from tools_search_ranking.vocabulary import term_key

_MAX_REMEMBERED: Final = 4_096
"""Cached terms for each set of visible tools, and as many unknown words."""
_KEPT_QUERIES: Final = 256
"""Cached weighted queries: each page of a search repeats its query."""

_GENERIC_EVIDENCE: Final = 0.15

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
"""Stems that occur in definitions of every domain, so sharing them says little about whether a tool fits a request.

These are the stems in at least 2 % of all definitions, averaged over different catalogs (`python -m
benchmarks.retrieval --fit`).
"""


@dataclass(slots=True, eq=False)
class Term:
    """A term that a visible tool has."""

    number: int
    idf: float
    count: int
    """Number of its postings, including those of hidden tools."""

    parts: Sequence[Entries]
    """Its postings."""

    named: NDArray[np.int32]
    """The slots of the tools with the term in their name, if it is a stem."""


@dataclass(slots=True)
class WeighedQuery:
    """A query in the terms of one index, weighted with the statistics of one set of visible tools."""

    terms: list[Term]
    """The terms to look up."""

    values: list[float]
    """The value of each term: its weight in the query times its idf."""

    covered: list[float]
    """The idf of the query that a tool with each term covers.

    There are fewer entries than terms: the later terms are only relatives and cover nothing.
    """

    naming: list[float]
    """The idf of its name that a tool with each term covers. Relatives count, so it is longer than `covered`."""

    evidence: list[float]
    """For each of `covered`, how much the term counts as evidence for a tool: at most 1."""

    total_idf: float
    """Sum of the idf of the query's words, whether or not the catalog knows them."""

    is_judged: bool = False
    """Whether the confidence applies: words can be separated, and one of them is meaningful."""

    says_nothing: bool = False
    """Whether all its words are stop words, numbers or single letters."""

    unfound: Sequence[Sequence[Term]] = ()
    """Terms to look up in addition for the draft's matching floor (`Weigher.terms_of_floor`); usually none."""

    unknown: Sequence[str] = ()
    """Case-folded words of the request that occur in no visible tool, in any form or as a likely misspelling."""

    unknown_part: float = 0.0
    """The share of its specific (not generic) words that is unknown; for a single word, half."""


class Weigher:
    """Weights queries by the statistics of one set of visible tools."""

    def __init__(self, documents: Documents, statistics: Statistics) -> None:
        self.statistics = statistics
        self.documents = documents
        self._idf = cast("Sequence[float]", statistics.idf.data)  # faster for single items than numpy
        self._name_terms = cast("Sequence[int]", documents.name_terms.data)
        self.weigh = lru_cache(_KEPT_QUERIES)(self._weigh)
        self.term = lru_cache(_MAX_REMEMBERED)(self._look_up)
        self._nearest = lru_cache(_MAX_REMEMBERED)(partial(documents.vocabulary.nearest, known=statistics.idf > 0))

    def _weigh(self, query: str) -> WeighedQuery:
        """Return the terms to look up for `query`: none if it shares none with the visible tools."""
        request = read(query, in_english)
        found, total, is_unknown = list[tuple[Term, float, float, float, float]](), 0.0, False
        for key, weight, covers, names in asked_terms(query, self.term, self._nearest, in_english):
            if term := self.term(key):
                idf = term.idf
                evidence = covers * self._evidence(key, idf) if covers else 0.0
                found.append((term, weight * idf, covers * idf, names * idf, evidence))
            if covers == 1.0:  # a word of the query itself
                if term:
                    total += term.idf
                elif not is_character(key):
                    total += self.statistics.rarest
                is_unknown |= term is None
        found.sort(key=lambda own: (not own[2]) + (not own[3]))
        covering = [own for own in found if own[2]]
        weighed = WeighedQuery(
            terms=[term for term, *_ in found],
            values=[value for _, value, *_ in found],
            covered=[idf for _, _, idf, *_ in covering],
            naming=[naming for *_, naming, _ in found if naming],
            evidence=[part for *_, part in covering],
            total_idf=total,
            says_nothing=all(map(_says_nothing, request.stems)),
        )
        is_spaced = query.isascii() or not any(map(is_unspaced, request.stems))
        weighed.is_judged = is_spaced and not weighed.says_nothing
        if request.stems and is_unknown:
            weighed.unknown, weighed.unknown_part = self._unknown(request)
        weighed.unfound = self.terms_of_floor(query, weighed.terms)
        return weighed

    def terms_of_floor(self, query: str, looked_up: Sequence[Term]) -> list[list[Term]]:
        """Return the index's terms for each of the draft's terms in a query: as a word, as another term, or both.

        Terms in `looked_up` are omitted. If a draft term has no others, return nothing: any tools with it were found.
        """
        wanted, numbers = list[list[Term]](), {term.number for term in looked_up}
        # Start from the end: the last term has usually been looked up, while many queries begin with stop words.
        for term in reversed(dict.fromkeys(terms(query))):
            found = map(self.term, (WRITTEN + term, term_key(term)))
            known = [own for own in found if own and own.number not in numbers]
            if not known:
                return []
            wanted.append(known)
        return wanted

    def _look_up(self, key: str) -> Term | None:
        """Return a term, or `None` if no visible tool has it."""
        documents, vocabulary = self.documents, self.documents.vocabulary
        number = vocabulary.numbers.get(key)
        # Greater numbers were assigned after this index was made, so they are unknown to it.
        if number is None or number >= len(self._idf) or not (idf := self._idf[number]):
            return None
        parts = documents.postings.parts_of(number, vocabulary.stems[number])
        first, last = bisect_left(self._name_terms, number), bisect_left(self._name_terms, number + 1)
        return Term(number, idf, sum(map(len, parts)), parts, documents.name_slots[first:last])

    def _evidence(self, key: str, idf: float) -> float:
        part = _GENERIC_EVIDENCE if key in GENERIC_STEMS else 1.0
        return min(idf / self.statistics.rarest_of_distinct, 1.0) * part

    def _unknown(self, request: Request) -> tuple[Sequence[str], float]:
        """Return the runs of letters that occur in no visible tool, and their share of the specific ones.

        A word that only leads to words of tools is none of these runs, but counts half in the share.
        Numbers and single letters are values, not words. Scripts without spaces are skipped, as they have no stems.
        """
        words = [
            (run, [root for _, root in own]) for run, own in request.runs if own and len(run) > 1 and run.isalpha()
        ]
        stems = {run: own for run, own in words if not any(map(is_unspaced, own))}
        known = {run: max(map(self._known_part, own)) for run, own in words}
        new = [run for run in stems if not known[run]][:MAX_CORRECTED]
        if not new:
            return (), 0.0
        # Definitions may join two words: `log out`, `logout`.
        pairs = pairwise(run for run, _ in request.runs)
        joined = {part for pair in pairs if self.term(WRITTEN + "".join(pair)) for part in pair}
        unknown = [run for run in new if run not in joined and not any(map(self._nearest, stems[run]))]
        telling = [run for run, own in stems.items() if not GENERIC_STEMS.issuperset(own)]
        parts = sum(1.0 if run in unknown else 0.5 * (known[run] == 0.5) for run in telling)
        return unknown, parts / max(len(telling), 2)

    def _known_part(self, root: str) -> float:
        """Return 1 if a visible tool has a stem or a synonym of it, and half if only words that it leads to.

        A generic word that it leads to does not count.
        """
        if self.term(root):
            return 1.0
        others = [key for key, _ in relatives(root) if self.term(key)]
        if any(root in dict(relatives(key)) for key in others):
            return 1.0
        return 0.0 if GENERIC_STEMS.issuperset(others) else 0.5


def _says_nothing(root: str) -> bool:
    return root.isdigit() or (len(root) == 1 and not is_unspaced(root))
