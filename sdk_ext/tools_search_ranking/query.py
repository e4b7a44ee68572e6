"""The terms of a request in one index: what each is worth, and how much of the request the index knows.

Words, relatives and weights come from the port (`ranking/query.py`), so that this ranking reads requests as the
readable one does. What an index has for a word is remembered, for all requests that say the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Final, NamedTuple, cast

from mcp_ext_tools_search.ranking.language import is_character, is_unspaced, relatives, stem
from mcp_ext_tools_search.ranking.query import (
    AS_WRITTEN,
    CORRECTED,
    JOINED,
    MAX_CORRECTED,
    OF_UNKNOWN,
    WRITTEN,
    Request,
    read,
)

from tools_search_ranking.statistics import Statistics
from tools_search_ranking.vocabulary import Vocabulary

_MAX_REMEMBERED: Final = 4_096
"""Words of queries that are remembered, for each set of visible tools, and as many unknown ones."""

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

    terms: list[int]
    """Numbers of the terms to look up."""

    values: list[float]
    """The value of each of them: its weight in the query times its idf."""

    covered: list[float]
    """The idf that a tool with a term covers of the query.

    There are fewer of them than terms: the later terms are mere relatives, and cover nothing.
    """

    naming: list[float]
    """The idf that a tool with a term covers of its name, relatives included: for more of the first terms."""

    evidence: list[float]
    """For each of `covered`, how much it counts as evidence that a tool has the term: 1 at most."""

    total_idf: float
    """Sum of the idf of the words of the query, whether the catalog knows them or not."""

    size: float | None = None
    """Number of words, generic ones for half; `None` where words cannot be separated or none says anything."""

    says_nothing: bool = False
    """Whether all its words are stop words, numbers and single letters."""

    unknown: Sequence[str] = ()
    """Words of the request, case folded, that no visible tool has in any form, nor a word that may be meant by them."""

    unknown_part: float = 0.0
    """The part of its telling words that is unknown, half of a single one; all words tell that are not generic."""


def _says_nothing(root: str) -> bool:
    return root.isdigit() or (len(root) == 1 and not is_unspaced(root))


class _Word(NamedTuple):
    """The stem of a word of a query in one index."""

    number: int | None
    """`None` where no visible tool has it."""

    idf: float
    """Of the stem, or of one that no tool has; 0 for a single character that no tool has."""

    evidence: float
    """How much it counts as evidence that a tool has the stem: 1 at most."""

    relatives: Sequence[int]
    """Numbers of the stems that definitions may have in its place."""

    values: Sequence[float]
    """The value of each of them."""

    is_known: bool
    """Whether a visible tool has it, or another word for it; generic words that it only leads to are none."""


class Weigher:
    """Weighs queries by the statistics of one set of visible tools."""

    def __init__(self, vocabulary: Vocabulary, statistics: Statistics) -> None:
        self.statistics = statistics
        self._numbers = vocabulary.numbers
        self._idf = cast("Sequence[float]", statistics.idf.data)  # quick to read one by one
        self._word = lru_cache(_MAX_REMEMBERED)(self._look_up)
        self._written = lru_cache(_MAX_REMEMBERED)(self._look_up_written)
        self._nearest = lru_cache(_MAX_REMEMBERED)(partial(vocabulary.nearest, known=statistics.idf > 0))

    def weigh(self, query: str) -> WeighedQuery:
        """Return the terms to look up for `query`; none where it shares none with the visible tools."""
        request = read(query)
        weighed = self._weigh_words(request) if request.stems else self._weigh_grammar(request)
        weighed.says_nothing = all(map(_says_nothing, request.stems))
        if not weighed.says_nothing and (query.isascii() or not any(map(is_unspaced, request.stems))):
            weighed.size = len(request.stems) - _GENERIC_SIZE * len(GENERIC_STEMS.intersection(request.stems))
        numbers = self._numbers
        for pair in [pair for pair in request.pairs if WRITTEN + pair in numbers]:
            if self._written(pair) and (term := self._term(stem(pair))):
                number, idf = term
                if number not in weighed.terms:
                    weighed.terms.append(number)
                    weighed.values.append(JOINED * idf)
        return weighed

    def _weigh_grammar(self, request: Request) -> WeighedQuery:
        found = [(*term, word) for word in request.written if (term := self._written(word))]
        idf, evidence = [idf for _, idf, _ in found], [self._evidence(WRITTEN + word, idf) for _, idf, word in found]
        return WeighedQuery([number for number, _, _ in found], [*idf], idf, idf, evidence, sum(idf))

    def _weigh_words(self, request: Request) -> WeighedQuery:
        terms, values, covered, evidence = list[int](), list[float](), list[float](), list[float]()
        others, worth, unknown, total = list[int](), list[float](), list[str](), 0.0
        for root, weight in request.stems.items():
            number, idf, telling, *_ = self._word(root)
            total += idf
            if number is None:
                unknown.append(root)
            else:
                terms.append(number)
                values.append(weight * idf)
                covered.append(idf)
                evidence.append(telling)
        said = [pair for pair in request.pairs if relatives(pair)]
        for root, weight in {**dict.fromkeys(said, 1.0), **request.stems}.items():
            word = self._word(root)
            others += word.relatives
            worth += [weight * value for value in word.values]
        naming = [self._idf[number] for number in others]
        for word, weight in request.written.items():
            if term := self._written(word):
                others.append(term[0])
                worth.append(weight * AS_WRITTEN * term[1])
        for root in islice((root for root in unknown if not is_unspaced(root)), MAX_CORRECTED):
            for other, likeness in self._nearest(root):
                if term := self._term(other):
                    part, (number, idf) = CORRECTED * likeness, term
                    terms.append(number)
                    values.append(request.stems[root] * part * idf)
                    covered.append(part * idf)
                    evidence.append(part * self._evidence(other, idf))
        weighed = WeighedQuery(terms + others, values + worth, covered, covered + naming, evidence, total)
        if unknown:
            weighed.unknown, weighed.unknown_part = self._unknown(request)
        return weighed

    def _look_up(self, root: str) -> _Word:
        term = self._term(root)
        related = [(key, *other, part) for key, part in relatives(root) if (other := self._term(key))]
        worth = 1.0 if term else OF_UNKNOWN
        numbers, values = [number for _, number, _, _ in related], [worth * part * idf for _, _, idf, part in related]
        if not term:
            is_known = any(key not in GENERIC_STEMS or root in dict(relatives(key)) for key, *_ in related)
            return _Word(None, 0.0 if is_character(root) else self.statistics.rarest, 0.0, numbers, values, is_known)
        return _Word(*term, self._evidence(root, term[1]), numbers, values, is_known=True)

    def _look_up_written(self, word: str) -> tuple[int, float] | None:
        return self._term(WRITTEN + word)

    def _evidence(self, key: str, idf: float) -> float:
        part = _GENERIC_EVIDENCE if key in GENERIC_STEMS else 1.0
        return min(idf / self.statistics.rarest_of_distinct, 1.0) * part

    def _unknown(self, request: Request) -> tuple[Sequence[str], float]:
        """Return the runs of letters that no visible tool knows, and their part of the telling ones.

        Numbers and letters are values, and no words; nor are there stems where no space parts the words.
        """
        words = [
            (run, [root for _, root in own]) for run, own in request.runs if own and len(run) > 1 and run.isalpha()
        ]
        stems = {run: own for run, own in words if not any(map(is_unspaced, own))}
        known = {run for run, own in words if any(self._word(root).is_known for root in own)}
        new = [run for run in stems if run not in known][:MAX_CORRECTED]
        if not new:
            return (), 0.0
        # Definitions may write two words as one: `log out`, `logout`.
        pairs = pairwise(run for run, _ in request.runs)
        joined = {part for pair in pairs if self._term(WRITTEN + "".join(pair)) for part in pair}
        unknown = [run for run in new if run not in joined and not any(map(self._nearest, stems[run]))]
        telling = [run for run, own in stems.items() if not GENERIC_STEMS.issuperset(own)]
        return unknown, len(set(unknown).intersection(telling)) / max(len(telling), 2)

    def _term(self, key: str) -> tuple[int, float] | None:
        """Return the number and the idf of a term, if a visible tool has it."""
        number = self._numbers.get(key)
        # A greater number has been given since the index was made: to it, the term is unknown.
        if number is None or number >= len(self._idf) or not (idf := self._idf[number]):
            return None
        return number, idf
