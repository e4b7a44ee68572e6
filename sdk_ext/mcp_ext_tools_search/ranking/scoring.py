"""The score of every tool for one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.analysis import NAME_BIT
from mcp_ext_tools_search.ranking.fields import MEMBERS
from mcp_ext_tools_search.ranking.postings import Found, Postings, members_of, slots_of, steps_of
from mcp_ext_tools_search.ranking.queries import WeighedQuery
from mcp_ext_tools_search.ranking.statistics import SATURATION, Statistics

__all__ = ["Scores", "score"]

_NAME_BONUS: Final = 3.0
_LEAST_FACTOR: Final = 0.65


@dataclass(frozen=True, slots=True)
class Scores:
    """What a query made of every tool of an index, by the tool's slot."""

    total: NDArray[np.float64]
    """At least 0, and 0 for a tool that does not match."""

    slots: NDArray[np.int64]
    """For each posting that was found, the slot of its tool."""

    postings: NDArray[np.int64]

    def matched(self, slots: Sequence[int]) -> list[tuple[str, ...]]:
        """Return for each of these slots the members of the definition in which the query's terms occur."""
        places = np.zeros(len(self.total), dtype=np.int32)
        places[list(slots)] = np.arange(1, len(slots) + 1)
        owners = places[self.slots]
        wanted = np.flatnonzero(owners)
        bits = np.zeros(len(slots) + 1, dtype=np.int64)
        np.bitwise_or.at(bits, owners[wanted], members_of(self.postings[wanted]))
        return [_members_in(own) for own in bits[1:].tolist()]


def score(postings: Postings, statistics: Statistics, query: WeighedQuery) -> Scores:
    """Score every visible tool for a query of at least one term.

    The sums of a tool run in the order of the query's terms, so equal tools get equal scores whatever else is in the
    index. Postings of hidden tools are summed too, which costs less than sorting them out, and dropped at the end.
    """
    found = postings.of(query.terms, len(query.covers))
    slots = slots_of(found.postings)
    idf = statistics.idf[query.terms]
    total = _bm25(found, slots, statistics, idf * query.weights)
    covered = idf[: len(query.covers)] * query.covers
    owners, own_terms = slots[: found.leading], found.terms[: found.leading]
    in_name = np.flatnonzero(found.postings[: found.leading] & NAME_BIT)
    _add_name_bonus(total, owners[in_name], covered[own_terms[in_name]], statistics.name_idf)
    share = np.bincount(owners, covered[own_terms], len(total)) / (query.total_idf or 1.0)
    total *= _LEAST_FACTOR + (1 - _LEAST_FACTOR) * np.minimum(share, 1.0)
    if statistics.visible is not None:
        total *= statistics.visible
    return Scores(total, slots, found.postings)


def _bm25(
    found: Found, slots: NDArray[np.int64], statistics: Statistics, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum over the terms of weight * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average))."""
    steps = steps_of(found.postings)
    part = steps / (steps + statistics.saturation[slots])
    part *= ((SATURATION + 1) * weights)[found.terms]
    return np.bincount(slots, part, len(statistics.saturation)).astype(np.float64, copy=False)


def _add_name_bonus(
    total: NDArray[np.float64], slots: NDArray[np.int64], said: NDArray[np.float64], name_idf: NDArray[np.float64]
) -> None:
    """Add for each tool how much of its name the query says, by idf; the entries are words of the query in names."""
    shares = np.bincount(slots, said, len(total))
    named = np.flatnonzero(shares)
    whole = name_idf[named]
    # A name of nothing but stop words has no idf of its own.
    total[named] += _NAME_BONUS * np.minimum(shares[named] / np.where(whole > 0, whole, 1.0), 1.0)


@cache
def _members_in(bits: int) -> tuple[str, ...]:
    return tuple(member for position, member in enumerate(MEMBERS) if bits >> position & 1)
