"""The default ranker: BM25 over weighted fields, adapted to requests for tools.

Each tool becomes a document whose words are weighted by field (name, title, first sentence, the rest of the
description, parameters, published labels). The score combines BM25 with the match of the name and with the share of the
request that the tool covers. It needs no model and no weights, and answers in a few milliseconds with 10,000 tools.
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
from tools_search_ranking.query import Weigher
from tools_search_ranking.score import Scores
from tools_search_ranking.statistics import Statistics

DEFAULT_LEAST_CONFIDENCE: Final = 0.02
"""Costs requests that a tool serves nothing that was measured, those in people's own words among them; for other
thresholds see `benchmarks/RESULTS.md`."""

_MIN_OF_UNKNOWN: Final = 0.1
"""Minimum confidence in an answer if more than half of the request's specific words are unknown.

The remaining words find tools by chance. If no specific word is known, no confidence is high enough. Both rules
together cost at most .1 points of nDCG@10 on any development set.
"""

_KEPT_SETS: Final = 16
"""Number of cached sets of visible tools."""


@runtime_checkable
class UpdatableIndex(ToolIndex, Protocol):
    """An index from which a new one with a few changed tools can be made, at a lower cost than indexing all of them.

    It implements the draft's matching floor itself.
    """

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> ToolIndex:
        """Return an index without the tools named in `removed` and with `added`.

        The new index answers exactly like one made from all its tools at once. This index does not change, so searches
        in other threads are not disturbed.

        Args:
            removed: Names of tools in this index.
            added: Tools whose names are not in this index, or are in `removed`. A changed tool is in both.
        """
        ...


@runtime_checkable
class WordIndex(ToolIndex, Protocol):
    """An index that knows which words its tools have."""

    def unknown_words(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query`, case folded, that no visible tool mentions in any form.

        This omits stop words, numbers, words with a relative or a likely correction in a visible tool, and scripts
        without spaces between words. Tools that are not visible have no influence.
        """
        ...


def unknown_words(index: ToolIndex, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
    """Return the words of `query` that no visible tool mentions; none if the index does not support this."""
    return index.unknown_words(query, visible=visible) if isinstance(index, WordIndex) else ()


class FieldedIndex:
    """A searchable index of tools. It is immutable, so any number of threads may search it concurrently."""

    def __init__(self, documents: Documents, *, least_confidence: float = 0.0) -> None:
        self._documents = documents
        self.least_confidence = least_confidence
        self._weigher = lru_cache(_KEPT_SETS)(partial(_weigher_of, documents))

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first. The first scores 1.

        They include the tools that the draft's matching floor requires.
        """
        weigher, scores = self._scored(query, visible)
        least, unknown = self.least_confidence, scores.query.unknown_part
        if least > 0 and unknown > 0.5:
            least = 1.0 if unknown == 1 else max(least, _MIN_OF_UNKNOWN)
        is_given = least <= 0 or (not scores.query.says_nothing and is_sure(scores, least))
        return (hits_over_floor if is_given else _demanded)(query, scores, weigher)

    def judged(self, query: str, *, visible: Collection[str] | None = None) -> tuple[Sequence[Hit], Signs | None]:
        """Return all hits regardless of confidence, and the signs of whether they serve `query` at all."""
        weigher, scores = self._scored(query, visible)
        return hits_over_floor(query, scores, weigher), signs(scores)

    def signs(self, query: str, *, visible: Collection[str] | None = None) -> Signs | None:
        """Return the signs of whether a visible tool serves `query` at all; `None` if there are none."""
        _, scores = self._scored(query, visible)
        return None if scores.first is None else signs(scores)

    def floor(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return only the hits that the draft's matching floor requires, best first."""
        weigher, scores = self._scored(query, visible)
        return _demanded(query, scores, weigher)

    def says_nothing(self, query: str) -> bool:
        """Return whether all words of `query` are stop words, numbers or single letters."""
        return self._weigher_for(None).weigh(query).says_nothing

    def unknown_words(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no visible tool mentions (`WordIndex`)."""
        return self._weigher_for(visible).weigh(query).unknown

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> FieldedIndex:
        """Return an index without the tools named in `removed` and with `added`. This index does not change."""
        documents = self._documents.updated(removed, added)
        return FieldedIndex(documents, least_confidence=self.least_confidence)

    def _scored(self, query: str, visible: Collection[str] | None) -> tuple[Weigher, Scores]:
        """Return the weigher and the scores, regardless of confidence."""
        weigher = self._weigher_for(visible)
        return weigher, Scores(weigher.weigh(query), weigher.statistics, self._documents.names)

    def _weigher_for(self, visible: Collection[str] | None) -> Weigher:
        return self._weigher(None if visible is None else frozenset(visible))


def _weigher_of(documents: Documents, visible: frozenset[str] | None) -> Weigher:
    return Weigher(documents, Statistics.of(documents, visible))


def _demanded(query: str, scores: Scores, weigher: Weigher) -> Sequence[Hit]:
    """Return the hits that the matching floor requires, with and without stop words, in the order of all hits."""
    said = [] if scores.query.says_nothing else [term for term in terms(query) if term not in STOP_WORDS]
    floors = (hits_over_floor(asked, None, weigher) for asked in (query, " ".join(said)))
    names = {hit.name for hits in floors for hit in hits}
    hits = [hit for hit in hits_over_floor(query, scores, weigher) if hit.name in names] if names else []
    return [hit._replace(score=hit.score / hits[0].score) for hit in hits]


class FieldedRanker:
    """The default ranker, which makes indexes that rank by weighted fields.

    Args:
        least_confidence: Minimum probability, in [0, 1], that any tool serves a query; below it, nothing is found. 0
            finds every tool with a word of the query. Servers use `DEFAULT_LEAST_CONFIDENCE`.
    """

    keeps_floor: Final = True

    def __init__(self, *, least_confidence: float = 0.0) -> None:
        self._least_confidence = least_confidence

    def __call__(self, tools: Sequence[Tool], /) -> FieldedIndex:
        """Index `tools`, whose names must be unique.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        return FieldedIndex(Documents.of(tools), least_confidence=self._least_confidence)


def default_ranker(least_confidence: float | None = None) -> FieldedRanker:
    """Return the ranker that the extension, the gateway and the client use.

    Args:
        least_confidence: Minimum probability, in [0, 1], that any tool serves a query; below it, nothing is found.
            `DEFAULT_LEAST_CONFIDENCE` by default.
    """
    return FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE if least_confidence is None else least_confidence)


def never_silent(ranker: Ranker) -> Ranker:
    """Return a ranker with the same order but no minimum confidence, for hits that another search has found already."""
    return FieldedRanker() if isinstance(ranker, FieldedRanker) else ranker
