"""The score of every tool for one query, and the resulting order.

score(tool) = (bm25 + 3 · share of the name that the query covers) · (0.65 + 0.35 · share of the query that it covers)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.simple import MIN_FACTOR, NAME_BONUS, SATURATION
from numpy.typing import NDArray

from tools_search_ranking.hits import LazyHits
from tools_search_ranking.postings import MAX_TERMS, Entries, members_in, members_of, slots_of, steps_of
from tools_search_ranking.query import Term, WeighedQuery
from tools_search_ranking.statistics import Statistics

_AT_ONCE: Final = 1 << 14
"""Number of postings that fit in a processor's fast caches."""

_MIN_SORTED: Final = 16
"""Number of hits to sort initially: more than on most pages."""

_COLUMNS: Final = 128
"""Number of columns in which scores are arranged. The columns' maxima give a threshold for the best scores."""

_MIN_ROWS: Final = 4
"""From this many rows on, it is faster not to sort all scores."""

_LEAST: Final = 5e-324  # the smallest positive number
_SLOT_BITS: Final = MAX_TERMS - 1


class Scores:
    """The scores of every tool in an index for a query, by the tool's slot.

    A tool's scores are summed in the order of the query's terms, so equal tools get equal scores regardless of the rest
    of the index. Postings of hidden tools are summed too, since that is faster than filtering them, and dropped at the
    end.

    A page has far fewer hits than there are matches, so the best are sorted first, and the others on demand. Ties are
    broken by name, which is the order of slots.
    """

    def __init__(self, query: WeighedQuery, statistics: Statistics, names: Sequence[str]) -> None:
        self.query, self.statistics, self._names = query, statistics, names
        self.counts = counts = np.array([term.count for term in query.terms], dtype=np.int64)
        """For each term, the number of its postings."""
        self.covering = covering = counts[: len(query.covered)]
        """The same for only the terms that cover part of the query, which come first."""
        self._found: list[tuple[Entries, NDArray[np.int64]]] = []
        total, factor, name_share = np.zeros(len(names)), np.full(len(names), MIN_FACTOR), np.zeros(len(names))
        values, covered = np.array(query.values) * (SATURATION + 1), np.array(query.covered)
        shares = covered * ((1 - MIN_FACTOR) / (query.total_idf or 1.0))
        for own in _batches(query.terms):
            postings = np.concatenate([part for term in query.terms[own] for part in term.parts])
            slots = slots_of(postings)
            self._found.append((postings, slots))
            # BM25: the sum over the terms of value * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average)).
            steps = steps_of(postings).astype(np.float64)
            terms = statistics.saturation.take(slots)
            terms += steps
            np.divide(steps, terms, out=terms)
            terms *= values[own].repeat(counts[own])
            np.add.at(total, slots, terms)
            if own.start < len(covered):
                parts = shares[own].repeat(covering[own])
                np.add.at(factor, slots[: len(parts)], parts)
        if sum(query.covered) > query.total_idf:  # a tool may have both of two corrections of one word
            np.minimum(factor, 1.0, out=factor)
        named = [term.named for term in query.terms[: len(query.naming)]]
        in_names = np.concatenate([np.zeros(0, dtype=np.int64), *named])
        np.add.at(name_share, in_names, np.array(query.naming).repeat(list(map(len, named))))
        # A repeated slot gets the same value each time.
        name_share[in_names] = own = np.minimum(name_share.take(in_names) / statistics.name_idf.take(in_names), 1.0)
        total[in_names] = total.take(in_names) + NAME_BONUS * own
        total *= factor
        if statistics.visible is not None:
            total *= statistics.visible
        rounded = total.view(np.int64)
        rounded &= ~_SLOT_BITS
        self.total = total
        """At least 0, and 0 for tools that do not match. The last bits are cleared to leave room for a slot.

        30 of 52 bits remain: nine digits.
        """
        self.count = int(np.count_nonzero(rounded))
        """Number of tools that match."""
        self._keys = self._sorted(_MIN_SORTED)
        self.first = int(self.best(1)[0]) if self.count else None
        """Slot of the best tool; `None` if no visible tool matches."""

    @cached_property
    def postings(self) -> Entries:
        """All postings of the query's terms, in the order of the terms."""
        return np.concatenate([np.zeros(0, dtype=np.uint32), *(postings for postings, _ in self._found)])

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """For each of `postings`, the slot of its tool."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(slots for _, slots in self._found)])

    def best(self, count: int) -> NDArray[np.int64]:
        """Return the slots of the `count` best tools."""
        if len(self._keys) < min(count, self.count):
            self._keys = self._sorted(count)
        return self._keys[:count] & _SLOT_BITS

    def _sorted(self, count: int) -> NDArray[np.int64]:
        """Return keys that combine score and slot, for at least the `count` best tools, best first."""
        total, rows, least = self.total, len(self.total) // _COLUMNS, _LEAST
        if rows >= _MIN_ROWS and count <= _COLUMNS // 2:
            # At least `count` columns reach this threshold, and few have a second score that does.
            greatest = total[: rows * _COLUMNS].reshape(rows, _COLUMNS).max(axis=0)
            greatest.partition(_COLUMNS - count)
            least = max(float(greatest[-count]), _LEAST)
        slots = (total >= least).nonzero()[0]
        # Positive floats sort like their bits, so one integer can hold both a score and a slot.
        keys = slots - total.take(slots).view(np.int64)
        keys.sort()
        return keys

    def hits(self) -> Sequence[Hit]:
        """Return the matching tools, best first. The first scores 1."""
        names, best = self._names, 1.0 if self.first is None else float(self.total[self.first])

        def names_of(slots: NDArray[np.int64]) -> list[str]:
            places: list[int] = slots.tolist()
            return [names[place] for place in places]

        def shares_of(slots: NDArray[np.int64]) -> list[float]:
            return (self.total.take(slots) / best).tolist()

        def hits_at(places: range) -> list[Hit]:
            slots = self.best(max(places[0], places[-1]) + 1 if places else 0)
            slots = slots[places.start : places.stop] if places.step == 1 else slots[np.array(places, dtype=np.intp)]
            return list(map(Hit, names_of(slots), shares_of(slots), self._matched(slots)))

        count = self.count
        return LazyHits(count, lambda: names_of(self.best(count)), hits_at, lambda: shares_of(self.best(count)))

    def _matched(self, slots: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """Return for each slot the members of the definition in which the query's terms occur."""
        is_asked = np.zeros(len(self.total), dtype=np.bool_)
        is_asked[slots] = True
        united = np.zeros(len(self.total), dtype=np.uint32)
        for postings, own in self._found:
            wanted = is_asked.take(own).nonzero()[0]
            np.bitwise_or.at(united, own.take(wanted), postings.take(wanted))
        return list(map(members_in, members_of(united.take(slots)).tolist()))


def _batches(terms: Sequence[Term]) -> Iterator[slice]:
    """Divide terms into groups with about as many postings as fit in a cache."""
    first = size = 0
    for place, term in enumerate(terms):
        if size and size + term.count > _AT_ONCE:
            yield slice(first, place)
            first, size = place, 0
        size += term.count
    if terms:
        yield slice(first, len(terms))
