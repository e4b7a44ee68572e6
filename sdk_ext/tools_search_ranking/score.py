"""The score of every tool for one query, and the order that scores make.

score(tool) = (bm25 + 3 · share of the name that the query says) · (0.65 + 0.35 · share of the query it covers)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.simple import MIN_FACTOR, NAME_BONUS
from numpy.typing import NDArray

from tools_search_ranking.hits import LazyHits
from tools_search_ranking.index import Roster
from tools_search_ranking.postings import IN_NAME, MAX_TERMS, Found, members_in, members_of, slots_of, steps_of
from tools_search_ranking.query import WeighedQuery
from tools_search_ranking.statistics import SATURATION, Statistics

_MIN_SORTED: Final = 16
"""Hits that are sorted at once: more than most pages have."""

_COLUMNS: Final = 128
"""Columns that the scores are laid out in: the best of each show which scores are among the first."""

_MIN_ROWS: Final = 4
"""From so many rows on, it pays not to sort all."""

_LEAST: Final = 5e-324  # of the numbers above 0
_RANK_BITS: Final = MAX_TERMS - 1


class Scores:
    """The scores of every tool of an index for a query, by the tool's slot.

    The sums of a tool run in the order of the query's terms, so equal tools get equal scores regardless of the rest of
    the index. Postings of hidden tools are summed too, which costs less than sorting them out, and dropped at the end.

    A page is far less than all matches, so the best are sorted first, and the others when they are asked for. Ties are
    broken by name.

    Args:
        query: The terms and their weights.
        found: The postings of each of them.
        statistics: The counts over the visible tools.
        roster: The tools.
    """

    def __init__(self, query: WeighedQuery, found: Sequence[Found], statistics: Statistics, roster: Roster) -> None:
        self.query, self.statistics, self._roster = query, statistics, roster
        counts = np.array([one.total for one in found], dtype=np.int64)
        parts = [part for one in found for part in one.parts]
        self.postings = postings = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)
        self.slots = slots = slots_of(postings)
        """For each posting that was found, the slot of its tool."""
        self.counts = counts
        """For each term, the number of its postings."""
        self.covering = covering = counts[: len(query.covered)]
        """For each term that covers a part of the query, the number of its postings: they come first."""
        # BM25: the sum over the terms of value * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average)).
        steps = steps_of(postings).astype(np.float64)
        terms = statistics.saturation.take(slots)
        terms += steps
        np.divide(steps, terms, out=terms)
        terms *= np.array(query.values).repeat(counts)
        total = _sums(slots, terms, len(statistics.saturation))
        total *= SATURATION + 1
        naming = np.array(query.naming).repeat(counts[: len(query.naming)])
        in_name = (postings[: len(naming)] & IN_NAME > 0).nonzero()[0]
        name_share = _sums(slots.take(in_name), naming.take(in_name), len(total))
        name_share /= statistics.name_idf
        total += NAME_BONUS * np.minimum(name_share, 1.0, out=name_share)
        covered = np.array(query.covered).repeat(covering)
        query_share = _sums(slots[: len(covered)], covered, len(total))
        query_share /= query.total_idf or 1.0
        total *= MIN_FACTOR + (1 - MIN_FACTOR) * np.minimum(query_share, 1.0, out=query_share)
        if statistics.visible is not None:
            total *= statistics.visible
        rounded = total.view(np.int64)
        rounded &= ~_RANK_BITS
        self.total = total
        """At least 0, and 0 for a tool that does not match; without the last bits, which leave room for a rank.

        Of 52 bits 30 remain: nine digits.
        """
        self.count = int(np.count_nonzero(total > 0))
        """Number of tools that match."""
        self._keys = self._sorted(_MIN_SORTED)
        self.first = int(self.best(1)[0]) if self.count else None
        """Slot of the best of all; `None` where no visible tool matches."""

    def best(self, count: int) -> NDArray[np.int32]:
        """Return the slots of the `count` best."""
        keys = self._keys
        if len(keys) < min(count, self.count):
            keys = self._keys = self._sorted(count)
        return self._roster.by_name.take(keys[:count] & _RANK_BITS)

    def _sorted(self, count: int) -> NDArray[np.int64]:
        """Return of at least the `count` best a number that holds score and rank, best first."""
        total, rows, least = self.total, len(self.total) // _COLUMNS, _LEAST
        if rows >= _MIN_ROWS and count <= _COLUMNS // 2:
            # So many columns have a score that is as great, and few have a second one.
            greatest = total[: rows * _COLUMNS].reshape(rows, _COLUMNS).max(axis=0)
            least = max(float(np.partition(greatest, -count)[-count]), _LEAST)
        slots = (total >= least).nonzero()[0]
        # The bits of positive numbers are ordered as the numbers are, so one integer holds a score and a rank.
        keys = self._roster.ranks.take(slots) - total.take(slots).view(np.int64)
        keys.sort()
        return keys

    def hits(self) -> Sequence[Hit]:
        """Return the tools that match, best first; the first scores 1."""
        count, roster = self.count, self._roster
        best = 1.0 if self.first is None else float(self.total[self.first])

        def shares_of(slots: NDArray[np.int32]) -> list[float]:
            return (self.total.take(slots) / best).tolist()

        def hits_at(places: range) -> list[Hit]:
            slots = self.best(max(places[0], places[-1]) + 1 if places else 0)
            slots = slots.take(np.arange(places.start, places.stop, places.step))
            return list(map(Hit, roster.names_of(slots), shares_of(slots), self._matched(slots)))

        return LazyHits(count, lambda: roster.names_of(self.best(count)), hits_at, lambda: shares_of(self.best(count)))

    def _matched(self, slots: NDArray[np.int32]) -> list[tuple[str, ...]]:
        """Return for each of these slots the members of the definition in which the query's terms occur."""
        is_asked = np.zeros(len(self.total), dtype=np.bool_)
        is_asked.put(slots, True)
        wanted = is_asked.take(self.slots).nonzero()[0]
        united = np.zeros(len(self.total), dtype=np.uint32)
        np.bitwise_or.at(united, self.slots.take(wanted), self.postings.take(wanted))
        return list(map(members_in, members_of(united.take(slots)).tolist()))


def _sums(slots: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return for each of `count` slots the sum of its values, added in the order in which they come."""
    # Where there is no value at all the sums are integers.
    return np.bincount(slots, values, count) if len(slots) else np.zeros(count)  # pyright: ignore[reportReturnType]
