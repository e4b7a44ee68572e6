"""The score of every tool for one query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.fields import MEMBERS
from mcp_ext_tools_search.ranking.postings import NAME_BIT, Postings
from mcp_ext_tools_search.ranking.queries import WeighedQuery
from mcp_ext_tools_search.ranking.statistics import SATURATION, Statistics

__all__ = ["Entries", "Scores", "score"]

_NAME_BONUS: Final = 3.0
_LEAST_FACTOR: Final = 0.65


@dataclass(frozen=True)
class Scores:
    """What a query made of every tool of an index, by the tool's place."""

    total: NDArray[np.float64]
    """At least 0, and 0 for a tool that does not match."""

    entries: Entries

    def matched(self, place: int) -> tuple[str, ...]:
        """Return the members of the definition in which the query's terms occur."""
        return _members_of(int(self._member_bits[place]))

    @cached_property
    def _member_bits(self) -> NDArray[np.uint8]:
        bits = np.zeros(len(self.total), dtype=np.uint8)
        np.bitwise_or.at(bits, self.entries.tools, self.entries.members)
        return bits


@dataclass(frozen=True, slots=True)
class Entries:
    """The postings of all terms of a query one after another, visible tools only."""

    tools: NDArray[np.int32]
    frequencies: NDArray[np.float64]
    members: NDArray[np.uint8]
    terms: NDArray[np.intp]
    """Which term of the query an entry belongs to."""


def score(postings: Postings, statistics: Statistics, query: WeighedQuery) -> Scores:
    """Score every visible tool.

    The sums run in the order of the query's terms, so equal tools get equal scores whatever else is in the index.
    """
    entries = _entries(postings, statistics, query)
    idf = statistics.idf[[term.number for term in query.terms]] if query.terms else np.zeros(0)
    weight = np.array([term.weight for term in query.terms])
    covered = idf * np.array([term.covers for term in query.terms])
    count = len(postings.names)
    total = _bm25(entries, statistics, weight * idf, count)
    total += _NAME_BONUS * _share_of_name(entries, statistics, covered, count) * (total > 0)
    share = _sums(entries.tools, covered[entries.terms], count) / (query.total_idf or 1.0)
    return Scores(total * (_LEAST_FACTOR + (1 - _LEAST_FACTOR) * np.minimum(share, 1.0)), entries)


def _entries(postings: Postings, statistics: Statistics, query: WeighedQuery) -> Entries:
    bounds = [(postings.starts[term.number], postings.starts[term.number + 1]) for term in query.terms]
    selected = np.array([], dtype=np.intp)
    if bounds:
        selected = np.concatenate([np.arange(start, end, dtype=np.intp) for start, end in bounds])
    terms = np.repeat(np.arange(len(bounds)), [end - start for start, end in bounds])
    if statistics.visible is not None:
        seen = statistics.visible[postings.tools[selected]]
        selected, terms = selected[seen], terms[seen]
    return Entries(postings.tools[selected], postings.frequencies[selected], postings.members[selected], terms)


def _bm25(entries: Entries, statistics: Statistics, weight: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the sum over the terms of weight * tf / (tf + k1 * (1 - b + b * length / average)) * (k1 + 1)."""
    part = entries.frequencies / (entries.frequencies + statistics.saturation[entries.tools])
    return (SATURATION + 1) * _sums(entries.tools, weight[entries.terms] * part, count)


def _share_of_name(
    entries: Entries, statistics: Statistics, covered: NDArray[np.float64], count: int
) -> NDArray[np.float64]:
    """Return for each tool how much of its name the query says, by idf; 0 where the name has no known word."""
    in_name = (entries.members & NAME_BIT) > 0
    said = _sums(entries.tools[in_name], covered[entries.terms[in_name]], count)
    return np.minimum(said / np.where(statistics.name_idf > 0, statistics.name_idf, 1.0), 1.0)


def _sums(tools: NDArray[np.int32], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return for each of `count` tools the sum of its values, added in the order in which they come."""
    return np.bincount(tools, values, count).astype(np.float64)


@cache
def _members_of(bits: int) -> tuple[str, ...]:
    return tuple(member for position, member in enumerate(MEMBERS) if bits >> position & 1)
