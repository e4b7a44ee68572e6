"""The score of every tool for one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import members_in
from numpy.typing import NDArray

from tools_search_ranking.analysis import NAME_BIT
from tools_search_ranking.layout import MOST, Entries, members_of, slots_of, steps_of
from tools_search_ranking.postings import Found
from tools_search_ranking.queries import WeighedQuery
from tools_search_ranking.statistics import SATURATION, Statistics

__all__ = ["LEAST_FACTOR", "Scores", "score"]

_NAME_BONUS: Final = 3.0
LEAST_FACTOR: Final = 0.65
"""Part of its score that a tool has that covers nothing of the query."""


class Scores(NamedTuple):
    """What a query made of every tool of an index, by the tool's slot."""

    total: NDArray[np.float64]
    """At least 0, and 0 for a tool that does not match; without the last bits, which leave room for a rank.

    Of 52 bits 30 remain: nine digits.
    """

    slots: NDArray[np.int64]
    """For each posting that was found, the slot of its tool."""

    postings: Entries

    covering: NDArray[np.intp]
    """For each term that covers a part of the query, how many of the postings are its: they come first."""

    said: NDArray[np.float64]
    """By slot, the part of its name that the query says, hidden tools included."""

    share: NDArray[np.float64]
    """By slot, the part of the query that it covers, hidden tools included."""

    def matched(self, slots: NDArray[np.integer]) -> list[tuple[str, ...]]:
        """Return for each of these slots the members of the definition in which the query's terms occur."""
        is_asked = np.zeros(len(self.total), dtype=np.bool_)
        is_asked[slots] = True
        wanted = is_asked.take(self.slots).nonzero()[0]
        united = np.zeros(len(self.total), dtype=self.postings.dtype)
        np.bitwise_or.at(united, self.slots.take(wanted), self.postings.take(wanted))
        return [members_in(own) for own in members_of(united.take(slots)).tolist()]


def score(found: Sequence[Found], statistics: Statistics, query: WeighedQuery) -> Scores:
    """Score every visible tool for a query of at least one term.

    The sums of a tool run in the order of the query's terms, so equal tools get equal scores whatever else is in the
    index. Postings of hidden tools are summed too, which costs less than sorting them out, and dropped at the end.

    Args:
        found: The postings of each term of the query.
        statistics: What is counted over the visible tools.
        query: What to look up.
    """
    counts = np.array([one.total for one in found])
    postings = np.concatenate([part for one in found for part in one.parts])
    slots = slots_of(postings)
    total = _bm25(postings, slots, np.array(query.values).repeat(counts), statistics.saturation)
    covered = np.array(query.covered).repeat(counts[: len(query.covered)])
    own = slots[: len(covered)]
    in_name = (postings[: len(covered)] & NAME_BIT).nonzero()[0]
    # How much of its name the query says, by idf, and how much of the query a tool covers.
    said = _sums(own.take(in_name), covered.take(in_name), len(total))
    said /= statistics.name_idf
    total += _NAME_BONUS * np.minimum(said, 1.0, out=said)
    share = _sums(own, covered, len(total))
    share /= query.total_idf or 1.0
    total *= LEAST_FACTOR + (1 - LEAST_FACTOR) * np.minimum(share, 1.0, out=share)
    if statistics.visible is not None:
        total *= statistics.visible
    rounded = total.view(np.int64)
    rounded &= -MOST
    return Scores(total, slots, postings, counts[: len(query.covered)], said, share)


def _bm25(
    postings: Entries, slots: NDArray[np.int64], values: NDArray[np.float64], saturation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum over the terms of value * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average))."""
    steps = steps_of(postings).astype(np.float64)
    part = saturation.take(slots)
    part += steps
    np.divide(steps, part, out=part)
    part *= values
    total = _sums(slots, part, len(saturation))
    total *= SATURATION + 1
    return total


def _sums(slots: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return for each of `count` slots the sum of its values, added in the order in which they come."""
    # Where there is no value at all the sums are integers.
    return np.bincount(slots, values, count) if len(slots) else np.zeros(count)  # pyright: ignore[reportReturnType]
