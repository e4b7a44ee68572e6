"""The default ranker: BM25 over weighted fields, adapted to requests for tools.

One document is made of each tool, in which a word counts by the field that it stands in (name, title, first sentence,
the rest of the description, parameters, published labels). To its BM25 score come what a name says and how much of the
request the tool covers. It needs no model and no weights, and answers in a few milliseconds at 10,000 tools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.interface import Hit, Ranker
from mcp_types import Tool

from tools_search_ranking.confidence import COMPARED, Signs, confidence, least_signs, signs, signs_at_least
from tools_search_ranking.floor import keep_floor
from tools_search_ranking.hits import LazyHits
from tools_search_ranking.index import Documents, Roster
from tools_search_ranking.postings import Found
from tools_search_ranking.query import WeighedQuery, Weigher
from tools_search_ranking.score import Order, Scores, score
from tools_search_ranking.statistics import Statistics

DEFAULT_LEAST_CONFIDENCE: Final = 0.04
"""Costs requests that a tool serves next to nothing; for other thresholds see `benchmarks/RESULTS.md`."""

_KEPT_SETS: Final = 16
"""Sets of visible tools that are remembered."""

_MAX_REMEMBERED: Final = 16_384
"""Terms whose postings need not be looked for."""


class _Seen(NamedTuple):
    """The view of the index that a set of visible tools has."""

    statistics: Statistics
    weigher: Weigher


class _Answer(NamedTuple):
    """The scores and the order for a query that at least one tool matches."""

    query: WeighedQuery
    scores: Scores
    order: Order
    first: int
    """Slot of the best."""

    statistics: Statistics

    def signs(self) -> Signs | None:
        return signs(self.query, self.scores, self.order.best(COMPARED), self.statistics)

    def is_at_least(self, least: float) -> bool:
        """Return whether it is at least so likely that a tool serves the query."""
        surely = confidence(signs_at_least(self.query, self.scores, self.first, self.statistics))
        return surely >= least or confidence(self.signs()) >= least


class FieldedIndex:
    """Tools ready to be searched. It never changes, so any number of threads may search it at once."""

    def __init__(self, documents: Documents, *, least_confidence: float = 0.0) -> None:
        self._documents = documents
        self.least_confidence = least_confidence
        self._lock = Lock()
        self._sets = OrderedDict[frozenset[str] | None, _Seen]()
        self._remembered: dict[int, Found] = {}

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first; the first scores 1.

        The tools that the draft's matching floor demands are among them.
        """
        seen = self._seen(visible)
        answer = self._answer(query, seen)
        if answer is not None and self.least_confidence > 0 and not answer.is_at_least(self.least_confidence):
            answer = None
        return self._hits(query, seen, answer)

    def judged(self, query: str, *, visible: Collection[str] | None = None) -> tuple[Sequence[Hit], Signs | None]:
        """Return all hits, held back or not, and the signs of whether they serve `query` at all."""
        seen = self._seen(visible)
        answer = self._answer(query, seen)
        found = least_signs(seen.weigher.weigh(query), seen.statistics) if answer is None else answer.signs()
        return self._hits(query, seen, answer), found

    def signs(self, query: str, *, visible: Collection[str] | None = None) -> Signs | None:
        """Return the signs of whether a visible tool serves `query` at all; `None` where there are none."""
        answer = self._answer(query, self._seen(visible))
        return None if answer is None else answer.signs()

    def floor(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the hits that the draft's matching floor demands, and no others."""
        return self._hits(query, self._seen(visible), None)

    def _hits(self, query: str, seen: _Seen, answer: _Answer | None) -> Sequence[Hit]:
        """Return an answer as hits, with the floor under it."""
        hits = () if answer is None else _ranked(self._documents.roster, answer)
        looked_up = () if answer is None else answer.query.terms
        return keep_floor(self._documents, query, hits, looked_up, seen.statistics.visible)

    def _answer(self, query: str, seen: _Seen) -> _Answer | None:
        weighed = seen.weigher.weigh(query)
        if not weighed.terms:
            return None
        scores = score(self._found(weighed.terms), seen.statistics, weighed)
        order = Order(self._documents.roster, scores.total)
        return None if order.first is None else _Answer(weighed, scores, order, order.first, seen.statistics)

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> FieldedIndex:
        """Return an index without the tools named in `removed` and with `added`; this one stays as it is."""
        documents = self._documents.updated(removed, added)
        return FieldedIndex(documents, least_confidence=self.least_confidence)

    def _found(self, terms: Sequence[int]) -> list[Found]:
        """Return the postings of each of `terms`; where they are is remembered."""
        remembered = self._remembered
        missing = [term for term in terms if term not in remembered]
        if missing:
            if len(remembered) > _MAX_REMEMBERED:
                # Another one, as other threads may be looking at this one.
                remembered = self._remembered = {}
                missing = terms
            remembered.update(zip(missing, self._documents.postings.of(missing), strict=True))
        return [remembered[term] for term in terms]

    def _seen(self, visible: Collection[str] | None) -> _Seen:
        """Return the view of a set of visible tools; those that were used last are kept."""
        key = None if visible is None else frozenset(visible)
        seen = self._sets.get(key)
        if seen is None:
            statistics = Statistics.of(self._documents, key)
            seen = _Seen(statistics, Weigher(self._documents.vocabulary, statistics))
        with self._lock:
            self._sets[key] = seen
            self._sets.move_to_end(key)
            if len(self._sets) > _KEPT_SETS:
                self._sets.popitem(last=False)
        return seen


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
            ValueError: There are more tools, or more words, than one index can hold: millions.
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


def _ranked(roster: Roster, answer: _Answer) -> Sequence[Hit]:
    order, scores = answer.order, answer.scores
    best = float(scores.total[answer.first])

    def hits_at(places: range) -> list[Hit]:
        best_slots = order.best(max(places[0], places[-1]) + 1 if places else 0)
        slots = best_slots.take(np.arange(places.start, places.stop, places.step))
        shares = scores.total.take(slots) / best
        found = zip(roster.names_of(slots), shares.tolist(), scores.matched(slots), strict=True)
        return [Hit(name, share, members) for name, share, members in found]

    def finds(name: str) -> bool:
        slot = roster.slot(name)
        return slot is not None and bool(scores.total[slot] > 0)

    def scores_of_all() -> list[float]:
        return (scores.total.take(order.best(len(order))) / best).tolist()

    return LazyHits(
        len(order),
        lambda: roster.names_of(order.best(len(order))),
        hits_at,
        finds=finds,
        scores=scores_of_all,
    )
