"""The default ranker: BM25 over weighted fields, adapted to requests for tools.

One document is made of each tool, in which a word counts by the field that it stands in (name, title, first sentence,
the rest of the description, parameters, published labels). To its BM25 score come what a name says and how much of the
request the tool covers. It needs no model and no weights, and answers in a few milliseconds at 10,000 tools.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from typing import Final, Protocol, runtime_checkable

from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.interface import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.language import STOP_WORDS
from mcp_types import Tool

from tools_search_ranking.confidence import Signs, is_sure, signs
from tools_search_ranking.floor import hits_over_floor
from tools_search_ranking.index import Documents
from tools_search_ranking.postings import Found
from tools_search_ranking.query import Weigher
from tools_search_ranking.score import Scores
from tools_search_ranking.statistics import Statistics

DEFAULT_LEAST_CONFIDENCE: Final = 0.02
"""Costs requests that a tool serves nothing that was measured, those in people's own words among them; for other
thresholds see `benchmarks/RESULTS.md`."""

_MIN_OF_UNKNOWN: Final = 0.07
"""The least confidence in an answer to a request of which no tool knows more than half of the telling words.

What is left finds tools by chance. Where no telling word is known, nothing is sure enough. Both together cost .1 points
of nDCG@10 at most on any development set.
"""

_KEPT_SETS: Final = 16
"""Sets of visible tools that are remembered."""

_MAX_REMEMBERED: Final = 16_384
"""Terms whose postings need not be looked for."""


@runtime_checkable
class UpdatableIndex(ToolIndex, Protocol):
    """An index of which another can be made that differs in a few tools, for less than indexing all of them.

    It keeps the draft's matching floor itself.
    """

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> ToolIndex:
        """Return an index without the tools named in `removed` and with `added`.

        It answers exactly as one that was made of its tools at once. This index stays as it is, so searches that are
        under way in other threads are not disturbed.

        Args:
            removed: Names of tools of this index.
            added: Tools whose names this index does not have, or that are in `removed`: a changed tool is in both.
        """
        ...


@runtime_checkable
class WordIndex(ToolIndex, Protocol):
    """An index that knows which words its tools have."""

    def unknown_words(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query`, case folded, that no visible tool mentions in any form.

        Left out are words of grammar, numbers, words that a tool has another word for or that may be a slip of one it
        has, and scripts that put no space between words. Tools that are not visible change nothing.
        """
        ...


def unknown_words(index: ToolIndex, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
    """Return the words of `query` that no visible tool mentions; none where the index does not know its words."""
    return index.unknown_words(query, visible=visible) if isinstance(index, WordIndex) else ()


class FieldedIndex:
    """Tools ready to be searched. It never changes, so any number of threads may search it at once."""

    def __init__(self, documents: Documents, *, least_confidence: float = 0.0) -> None:
        self._documents = documents
        self.least_confidence = least_confidence
        self._weigher = lru_cache(_KEPT_SETS)(partial(_weigher_of, documents))
        self._remembered: dict[int, Found] = {}

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first; the first scores 1.

        The tools that the draft's matching floor demands are among them.
        """
        scores = self._scores(query, visible)
        least, unknown = self.least_confidence, scores.query.unknown_part
        if least > 0 and unknown > 0.5:
            least = 1.0 if unknown == 1 else max(least, _MIN_OF_UNKNOWN)
        is_given = least <= 0 or (not scores.query.says_nothing and is_sure(scores, least))
        return self._over_floor(query, scores) if is_given else self._demanded(query, scores)

    def judged(self, query: str, *, visible: Collection[str] | None = None) -> tuple[Sequence[Hit], Signs | None]:
        """Return all hits, held back or not, and the signs of whether they serve `query` at all."""
        scores = self._scores(query, visible)
        return self._over_floor(query, scores), signs(scores)

    def signs(self, query: str, *, visible: Collection[str] | None = None) -> Signs | None:
        """Return the signs of whether a visible tool serves `query` at all; `None` where there are none."""
        scores = self._scores(query, visible)
        return None if scores.first is None else signs(scores)

    def floor(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the hits that the draft's matching floor demands, and no others, best first."""
        return self._demanded(query, self._scores(query, visible))

    def says_nothing(self, query: str) -> bool:
        """Return whether all words of `query` are stop words, numbers and single letters."""
        return self._weigher_for(None).weigh(query).says_nothing

    def unknown_words(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no visible tool mentions (`WordIndex`)."""
        return self._weigher_for(visible).weigh(query).unknown

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> FieldedIndex:
        """Return an index without the tools named in `removed` and with `added`; this one stays as it is."""
        documents = self._documents.updated(removed, added)
        return FieldedIndex(documents, least_confidence=self.least_confidence)

    def _over_floor(self, query: str, scores: Scores) -> Sequence[Hit]:
        return hits_over_floor(self._documents, query, scores, scores.statistics.visible)

    def _demanded(self, query: str, scores: Scores) -> Sequence[Hit]:
        """Return the hits that the matching floor demands, with stop words and without, in the order of all hits."""
        said = [] if scores.query.says_nothing else [term for term in terms(query) if term not in STOP_WORDS]
        floors = (
            hits_over_floor(self._documents, asked, None, scores.statistics.visible)
            for asked in (query, " ".join(said))
        )
        names = {hit.name for hits in floors for hit in hits}
        hits = [hit for hit in self._over_floor(query, scores) if hit.name in names] if names else []
        return [hit._replace(score=hit.score / hits[0].score) for hit in hits]

    def _scores(self, query: str, visible: Collection[str] | None) -> Scores:
        """Return the scores of the ranking, which holds nothing back."""
        weigher, remembered = self._weigher_for(visible), self._remembered
        weighed = weigher.weigh(query)
        if missing := [term for term in weighed.terms if term not in remembered]:
            if len(remembered) > _MAX_REMEMBERED:
                # Another one, as other threads may be looking at this one.
                remembered = self._remembered = {}
                missing = list(weighed.terms)
            remembered.update(zip(missing, self._documents.postings.of(missing), strict=True))
        found = [remembered[term] for term in weighed.terms]
        return Scores(weighed, found, weigher.statistics, self._documents.roster)

    def _weigher_for(self, visible: Collection[str] | None) -> Weigher:
        return self._weigher(None if visible is None else frozenset(visible))


def _weigher_of(documents: Documents, visible: frozenset[str] | None) -> Weigher:
    return Weigher(documents.vocabulary, Statistics.of(documents, visible))


class FieldedRanker:
    """Makes indexes that rank by weighted fields: the default.

    Args:
        least_confidence: In [0, 1]: where it is less likely that any tool serves a query, nothing is found. 0 finds
            every tool that has a word of the query; servers answer with `DEFAULT_LEAST_CONFIDENCE`.
    """

    keeps_floor: Final = True

    def __init__(self, *, least_confidence: float = 0.0) -> None:
        self._least_confidence = least_confidence

    def __call__(self, tools: Sequence[Tool], /) -> FieldedIndex:
        """Index `tools`, whose names are unique.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        return FieldedIndex(Documents.of(tools), least_confidence=self._least_confidence)


def default_ranker(least_confidence: float | None = None) -> FieldedRanker:
    """Return the ranking of everything here that searches: the extension, the gateway and the client.

    Args:
        least_confidence: In [0, 1]: where it is less likely that any tool serves a query, nothing is found;
            `DEFAULT_LEAST_CONFIDENCE` unless given.
    """
    return FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE if least_confidence is None else least_confidence)


def never_silent(ranker: Ranker) -> Ranker:
    """Return a ranker in the same order that holds nothing back: for hits that others have found fit before."""
    return FieldedRanker() if isinstance(ranker, FieldedRanker) else ranker
