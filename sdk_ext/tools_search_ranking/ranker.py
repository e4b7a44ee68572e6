"""The default ranker: BM25 over weighted fields, adapted to requests for tools.

One document is made of each tool, in which a word counts by the field that it stands in (name, title, first sentence,
the rest of the description, parameters, published labels). To its BM25 score come what a name says and how much of the
request the tool covers. It needs no model and no weights, and answers in a few milliseconds at 10,000 tools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from threading import Lock
from typing import Final, Protocol, runtime_checkable

from mcp_ext_tools_search.ranking.interface import Hit, Ranker, ToolIndex
from mcp_types import Tool

from tools_search_ranking.confidence import Signs, is_sure, least_signs, signs
from tools_search_ranking.floor import hits_over_floor
from tools_search_ranking.index import Documents
from tools_search_ranking.postings import Found
from tools_search_ranking.query import Weigher
from tools_search_ranking.score import Answer
from tools_search_ranking.statistics import Statistics

DEFAULT_LEAST_CONFIDENCE: Final = 0.01
"""Costs requests that a tool serves nothing that was measured, those in people's own words among them; for other
thresholds see `benchmarks/RESULTS.md`."""

_LEAST_OF_UNKNOWN: Final = 0.07
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
        self._lock = Lock()
        self._weighers = OrderedDict[frozenset[str] | None, Weigher]()
        """By set of visible tools, with the statistics over them."""
        self._remembered: dict[int, Found] = {}

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first; the first scores 1.

        The tools that the draft's matching floor demands are among them.
        """
        weigher = self._weigher(visible)
        answer = self._answer(query, weigher)
        if answer is not None and (least := self.least_confidence) > 0:
            unknown = answer.query.unknown_part
            least = 1.0 if unknown == 1 else max(least, _LEAST_OF_UNKNOWN) if unknown > 0.5 else least
            answer = answer if is_sure(answer, least) else None
        return hits_over_floor(self._documents, query, answer, weigher.statistics.visible)

    def judged(self, query: str, *, visible: Collection[str] | None = None) -> tuple[Sequence[Hit], Signs | None]:
        """Return all hits, held back or not, and the signs of whether they serve `query` at all."""
        weigher = self._weigher(visible)
        answer = self._answer(query, weigher)
        found = least_signs(weigher.weigh(query), weigher.statistics) if answer is None else signs(answer)
        return hits_over_floor(self._documents, query, answer, weigher.statistics.visible), found

    def signs(self, query: str, *, visible: Collection[str] | None = None) -> Signs | None:
        """Return the signs of whether a visible tool serves `query` at all; `None` where there are none."""
        answer = self._answer(query, self._weigher(visible))
        return None if answer is None else signs(answer)

    def floor(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the hits that the draft's matching floor demands, and no others."""
        return hits_over_floor(self._documents, query, None, self._weigher(visible).statistics.visible)

    def unknown_words(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no visible tool mentions (`WordIndex`)."""
        return self._weigher(visible).weigh(query).unknown

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> FieldedIndex:
        """Return an index without the tools named in `removed` and with `added`; this one stays as it is."""
        documents = self._documents.updated(removed, added)
        return FieldedIndex(documents, least_confidence=self.least_confidence)

    def _answer(self, query: str, weigher: Weigher) -> Answer | None:
        """Return the answer of the ranking; `None` where no visible tool matches."""
        weighed = weigher.weigh(query)
        if not weighed.terms:
            return None
        remembered = self._remembered
        missing = [term for term in weighed.terms if term not in remembered]
        if missing:
            if len(remembered) > _MAX_REMEMBERED:
                # Another one, as other threads may be looking at this one.
                remembered = self._remembered = {}
                missing = weighed.terms
            remembered.update(zip(missing, self._documents.postings.of(missing), strict=True))
        found = [remembered[term] for term in weighed.terms]
        answer = Answer(weighed, found, weigher.statistics, self._documents.roster)
        return None if answer.first is None else answer

    def _weigher(self, visible: Collection[str] | None) -> Weigher:
        """Return what weighs queries for a set of visible tools; those that were used last are kept."""
        key = None if visible is None else frozenset(visible)
        weigher = self._weighers.get(key)
        if weigher is None:
            weigher = Weigher(self._documents.vocabulary, Statistics.of(self._documents, key))
        with self._lock:
            self._weighers[key] = weigher
            self._weighers.move_to_end(key)
            if len(self._weighers) > _KEPT_SETS:
                self._weighers.popitem(last=False)
        return weigher


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
