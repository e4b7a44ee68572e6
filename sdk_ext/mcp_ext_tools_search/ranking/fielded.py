"""The default ranker: BM25 over weighted fields, and what makes it suit requests for tools.

One document is made of each tool, in which a word counts by the field that it stands in (name, title, first sentence,
the rest of the description, parameters, published labels). To its BM25 score come what a name says and how much of the
request the tool covers. It needs no model and no weights, and answers in a few milliseconds at 10,000 tools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from threading import Lock
from typing import Final

import numpy as np
from mcp_types import Tool
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.documents import Documents
from mcp_ext_tools_search.ranking.hits import LazyHits
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.postings import MOST
from mcp_ext_tools_search.ranking.queries import weigh
from mcp_ext_tools_search.ranking.roster import Roster
from mcp_ext_tools_search.ranking.scoring import Scores, score
from mcp_ext_tools_search.ranking.statistics import Statistics, statistics_of

__all__ = ["FieldedIndex", "FieldedRanker"]

_KEPT_STATISTICS: Final = 16
"""Sets of visible tools whose statistics are kept."""


class FieldedIndex:
    """Tools ready to be searched. It never changes, so any number of threads may search it at once."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._lock = Lock()
        self._statistics = OrderedDict[frozenset[str] | None, Statistics]()

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first; the first scores 1."""
        statistics = self._statistics_of(visible)
        if not statistics.count:
            return ()
        weighed = weigh(query, self._documents.vocabulary, statistics)
        if not weighed.terms:
            return ()
        return _ranked(self._documents.roster, score(self._documents.postings, statistics, weighed))

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> FieldedIndex:
        """Return an index without the tools named in `removed` and with `added`; this one stays as it is."""
        return FieldedIndex(self._documents.updated(removed, added))

    def _statistics_of(self, visible: Collection[str] | None) -> Statistics:
        """Return the statistics of a set of visible tools, kept for the sets that were asked for last."""
        key = None if visible is None else frozenset(visible)
        statistics = self._statistics.get(key) or statistics_of(self._documents, key)
        with self._lock:
            self._statistics[key] = statistics
            self._statistics.move_to_end(key)
            if len(self._statistics) > _KEPT_STATISTICS:
                self._statistics.popitem(last=False)
        return statistics


class FieldedRanker:
    """Makes indexes that rank by weighted fields: the default."""

    def __call__(self, tools: Sequence[Tool], /) -> FieldedIndex:
        """Index `tools`, whose names are unique.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold: millions.
        """
        return FieldedIndex(Documents.of(tools))


def _ranked(roster: Roster, scores: Scores) -> Sequence[Hit]:
    slots = _best_first(roster, scores.total)
    if not len(slots):
        return ()
    totals = scores.total[slots[:1]]

    def hits_at(places: range) -> list[Hit]:
        own: list[int] = slots[places.start : places.stop : places.step].tolist()
        shares = _rounded(scores.total[own]) / _rounded(totals)
        found = zip(own, shares.tolist(), scores.matched(own), strict=True)
        return [Hit(roster.names[slot], share, members) for slot, share, members in found]

    return LazyHits(len(slots), lambda: roster.names_of(slots), hits_at)


def _best_first(roster: Roster, total: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the slots of the tools that score more than 0, best first; ties are broken by name."""
    slots = np.flatnonzero(total > 0)
    # The bits of positive numbers are ordered as the numbers are, so one integer holds a score and a rank.
    keys = roster.ranks[slots] - _rounded(total[slots]).view(np.int64)
    keys.sort()
    return roster.by_name[keys & (MOST - 1)]


def _rounded(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positive scores without the last bits, which leaves nine digits and room for a rank below `MOST`."""
    return (scores.view(np.int64) & -MOST).view(np.float64)
