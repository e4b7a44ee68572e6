"""An inverted index: which tools have which terms, how often and where.

Additions make segments of their own, and a segment is joined with the one before it before it reaches an eighth of its
size: there are few, and a posting is moved a few times at most (O'Neil et al., "The Log-Structured Merge-Tree", 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.layout import Entries, members_of, same_slot_as, slots_of
from mcp_ext_tools_search.ranking.segments import Segment, joined

__all__ = ["Found", "Postings"]

_RATIO: Final = 8


class Found(NamedTuple):
    """The postings of one term."""

    total: int
    parts: Sequence[Entries]
    """By slot, those of each segment by themselves."""


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index. It never changes: what is added makes another, which shares what is there."""

    segments: tuple[Segment, ...] = ()

    def with_added(self, added: Segment) -> Postings:
        """Return an index that has these postings too, of slots that are greater than those that this one has."""
        if not len(added):
            return self
        first = len(self.segments)
        size = len(added)
        while first and len(self.segments[first - 1]) < _RATIO * size:
            first -= 1
            size += len(self.segments[first])
        return Postings((*self.segments[:first], joined([*self.segments[first:], added])))

    def of(self, terms: Sequence[int]) -> list[Found]:
        """Return the postings of each of `terms`."""
        numbers = np.array(terms, dtype=np.int32)
        by_segment = [segment.of_terms(numbers) for segment in self.segments]
        found = zip(*by_segment, strict=True) if by_segment else (() for _ in terms)
        return [Found(sum(map(len, parts)), parts) for parts in found]

    def having_all(self, terms: Sequence[int]) -> NDArray[np.int64]:
        """Return the slots that have every one of `terms`, of which there is at least one."""
        # From the rarest on, looking up what is left: the postings of common terms are not even read.
        rarest, *others = sorted(self.of(terms), key=lambda found: found.total)
        slots = np.concatenate([np.zeros(0, dtype=np.int64), *map(slots_of, rarest.parts)])
        for found in others:
            if not len(slots):
                break
            slots = slots[_members(found, slots) > 0]
        return slots

    def members(self, term: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each of `slots` the members in which it has `term`, as bits; 0 where it has not."""
        return _members(self.of([term])[0], slots)

    def counts(self, terms: int, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return by number of a term, up to `terms`, how many slots have it, of those that are `kept` if given."""
        counts = np.zeros(terms, dtype=np.int64)
        for segment in self.segments:
            counts[segment.terms] += segment.counts if kept is None else segment.counts_in(kept)
        return counts

    def terms_of(self, slot: int) -> NDArray[np.int32]:
        """Return the terms that one slot has, in no order."""
        found = [
            segment.terms[segment.bounds.searchsorted(same_slot_as(segment.entries, slot), side="right") - 1]
            for segment in self.segments
        ]
        return np.concatenate([np.zeros(0, dtype=np.int32), *found])

    def renumbered(self, terms: NDArray[np.int64], slots: NDArray[np.int64], kept: NDArray[np.bool_]) -> Postings:
        """Return the postings of the slots `kept`, with the numbers that `terms` and `slots` have for the old ones.

        Both give new numbers in the order of the old ones.
        """
        left = [own for segment in self.segments if len(own := segment.only(kept, terms, slots))]
        return Postings((joined(left),) if left else ())


def _members(found: Found, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    bits = np.zeros(len(slots), dtype=np.int64)
    for part in filter(len, found.parts):
        own = slots_of(part)
        places = np.minimum(own.searchsorted(slots), len(own) - 1)
        bits |= np.where(own[places] == slots, members_of(part)[places], 0)
    return bits
