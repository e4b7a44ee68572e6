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

from mcp_ext_tools_search.ranking.hits import LazyHits
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.postings import index_tools
from mcp_ext_tools_search.ranking.queries import Weigher
from mcp_ext_tools_search.ranking.scoring import Scores, score
from mcp_ext_tools_search.ranking.statistics import Statistics, statistics_of

__all__ = ["FieldedIndex", "FieldedRanker"]

_KEPT_STATISTICS: Final = 16
"""Sets of visible tools whose statistics are kept."""


class FieldedIndex:
    """Tools ready to be searched. Their index never changes, so any number of threads may search it at once."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._postings = index_tools(tools)
        self._weigher = Weigher(self._postings)
        self._lock = Lock()
        self._statistics = OrderedDict[frozenset[str] | None, Statistics]()

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first; the first scores 1."""
        statistics = self._statistics_of(visible)
        if not statistics.count:
            return ()
        scores = score(self._postings, statistics, self._weigher.weigh(query, statistics))
        return _ranked(self._postings.names, scores)

    def _statistics_of(self, visible: Collection[str] | None) -> Statistics:
        """Return the statistics of a set of visible tools, kept for the sets that were asked for last."""
        key = None if visible is None else frozenset(visible)
        statistics = self._statistics.get(key) or statistics_of(self._postings, key)
        with self._lock:
            self._statistics[key] = statistics
            self._statistics.move_to_end(key)
            if len(self._statistics) > _KEPT_STATISTICS:
                self._statistics.popitem(last=False)
        return statistics


class FieldedRanker:
    """Makes indexes that rank by weighted fields: the default."""

    def __call__(self, tools: Sequence[Tool], /) -> FieldedIndex:
        """Index `tools`, whose names are unique."""
        return FieldedIndex(tools)


def _ranked(names: Sequence[str], scores: Scores) -> Sequence[Hit]:
    places: NDArray[np.intp] = np.flatnonzero(scores.total > 0)
    # Places are in the order of names, so a stable sort breaks ties by name.
    places = places[np.argsort(-scores.total[places], kind="stable")]
    if not len(places):
        return ()
    best = float(scores.total[places[0]])

    def hit_at(rank: int) -> Hit:
        place = int(places[rank])
        return Hit(names[place], float(scores.total[place]) / best, scores.matched(place))

    ordered: list[int] = places.tolist()
    return LazyHits([names[place] for place in ordered], hit_at)
