"""The score of every tool for one query, and the order that scores make.

score(tool) = (bm25 + 3 · share of the name that the request says) · (0.65 + 0.35 · share of the request it covers)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import members_in
from numpy.typing import NDArray

from tools_search_ranking.index import NAME_BIT, Roster
from tools_search_ranking.postings import MOST, Entries, Found
from tools_search_ranking.query import WeighedQuery
from tools_search_ranking.statistics import SATURATION, Statistics

_NAME_BONUS: Final = 3.0
MIN_FACTOR: Final = 0.65
"""Part of its score that a tool keeps that covers nothing of the query."""

_MIN_SORTED: Final = 64
"""Hits that are sorted at once: more than most pages have."""

_MATCHES_PER_SORTED: Final = 32
"""Matches per hit that is sorted from which on it pays not to sort all."""


class Scores(NamedTuple):
    """The scores of every tool of an index for one query, by the tool's slot, and the postings that they come from."""

    total: NDArray[np.float64]
    """At least 0, and 0 for a tool that does not match; without the last bits, which leave room for a rank.

    Of 52 bits 30 remain: nine digits.
    """

    slots: NDArray[np.int64]
    """For each posting that was found, the slot of its tool."""

    steps: NDArray[np.float64]
    """For each posting, its frequency in `STEPS`."""

    members: NDArray[np.uint8]
    """For each posting, the members of the definition, as bits."""

    covering: NDArray[np.int64]
    """For each term that covers a part of the query, the number of its postings: they come first."""

    said: NDArray[np.float64]
    """By slot, the part of its name that the query says, hidden tools included."""

    share: NDArray[np.float64]
    """By slot, the part of the query that it covers, hidden tools included."""

    def matched(self, slots: NDArray[np.integer]) -> list[tuple[str, ...]]:
        """Return for each of these slots the members of the definition in which the query's terms occur."""
        is_asked = np.zeros(len(self.total), dtype=np.bool_)
        is_asked[slots] = True
        wanted = is_asked.take(self.slots).nonzero()[0]
        united = np.zeros(len(self.total), dtype=np.uint8)
        np.bitwise_or.at(united, self.slots.take(wanted), self.members.take(wanted))
        return [members_in(own) for own in united.take(slots).tolist()]


def score(found: Sequence[Found], statistics: Statistics, query: WeighedQuery) -> Scores:
    """Score every visible tool for a query of at least one term.

    The sums of a tool run in the order of the query's terms, so equal tools get equal scores regardless of the rest of
    the index. Postings of hidden tools are summed too, which costs less than sorting them out, and dropped at the end.

    Args:
        found: The postings of each term of the query.
        statistics: The counts over the visible tools.
        query: The terms and their weights.
    """
    counts = np.array([one.total for one in found])
    postings = Entries.joined([part for one in found for part in one.parts])
    slots, steps, members = postings.slots.astype(np.int64), postings.steps.astype(np.float64), postings.members
    # BM25: the sum over the terms of value * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average)).
    terms = statistics.saturation.take(slots)
    terms += steps
    np.divide(steps, terms, out=terms)
    terms *= np.array(query.values).repeat(counts)
    total = _sums(slots, terms, len(statistics.saturation))
    total *= SATURATION + 1
    # How much of its name the query says, by idf, and how much of the query a tool covers.
    covering = counts[: len(query.covered)]
    covered = np.array(query.covered).repeat(covering)
    own = slots[: len(covered)]
    in_name = (members[: len(covered)] & NAME_BIT).nonzero()[0]
    said = _sums(own.take(in_name), covered.take(in_name), len(total))
    said /= statistics.name_idf
    total += _NAME_BONUS * np.minimum(said, 1.0, out=said)
    share = _sums(own, covered, len(total))
    share /= query.total_idf or 1.0
    total *= MIN_FACTOR + (1 - MIN_FACTOR) * np.minimum(share, 1.0, out=share)
    if statistics.visible is not None:
        total *= statistics.visible
    rounded = total.view(np.int64)
    rounded &= -MOST
    return Scores(total, slots, steps, members, covering, said, share)


def _sums(slots: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return for each of `count` slots the sum of its values, added in the order in which they come."""
    # Where there is no value at all the sums are integers.
    return np.bincount(slots, values, count) if len(slots) else np.zeros(count)  # pyright: ignore[reportReturnType]


class Order:
    """The order of the tools that score more than 0, best first; ties are broken by name.

    A page is far less than all matches, so the best are sorted first, and the others when they are asked for.
    """

    def __init__(self, roster: Roster, total: NDArray[np.float64]) -> None:
        slots = (total > 0).nonzero()[0]
        self._by_name = roster.by_name
        # The bits of positive numbers are ordered as the numbers are, so one integer holds a score and a rank.
        keys = roster.ranks.take(slots) - total.take(slots).view(np.int64)
        # One value, as several threads may look at an answer: how many of the keys are sorted, and the keys.
        self._state: tuple[int, NDArray[np.int64]] = (0, keys)
        self.first = int(self._by_name[keys[keys.argmin()] & (MOST - 1)]) if len(keys) else None
        """Slot of the best of all."""

    def __len__(self) -> int:
        return len(self._state[1])

    def best(self, count: int) -> NDArray[np.int32]:
        """Return the slots of the `count` best."""
        done, keys = self._state
        if count > done:
            few = max(count, _MIN_SORTED)
            if few < len(keys) // _MATCHES_PER_SORTED:
                keys = np.partition(keys, few)
                keys[:few].sort()
            else:
                few, keys = len(keys), np.sort(keys)
            self._state = few, keys
        return self._by_name.take(keys[:count] & (MOST - 1))
