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

from tools_search_ranking.layout import MOST, Entries, members_of, slots_of
from tools_search_ranking.segments import Segment, joined

__all__ = ["Found", "Postings"]

_RATIO: Final = 8


class Found(NamedTuple):
    """The postings of one term."""

    total: int
    parts: Sequence[Entries]
    """In no order, but by slot in each part where the term is no stem of other words."""


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index. It never changes: what is added makes another, which shares what is there."""

    segments: tuple[Segment, ...] = ()
    stems: Sequence[int] = range(MOST)
    """By number of a term, the number of its stem, which may be the same, or a negative one where it has none."""

    def with_added(self, added: Segment) -> Postings:
        """Return an index that has these postings too, of slots that are greater than those that this one has."""
        if not len(added):
            return self
        first = len(self.segments)
        size = len(added)
        while first and len(self.segments[first - 1]) < _RATIO * size:
            first -= 1
            size += len(self.segments[first])
        return Postings((*self.segments[:first], joined([*self.segments[first:], added])), self.stems)

    def of(self, terms: Sequence[int]) -> list[Found]:
        """Return the postings of each of `terms`."""
        numbers = np.array(terms, dtype=np.int64)
        stems = np.array([self.stems[term] for term in terms], dtype=np.int64)
        stems[stems == numbers] = -1
        found: list[list[Entries]] = [[] for _ in terms]
        for segment in self.segments:
            segment.add_to(found, numbers, stems)
        return [Found(sum(map(len, parts)), parts) for parts in found]

    def having_all(self, terms: Sequence[int]) -> NDArray[np.int64]:
        """Return the slots that have every one of `terms`: one at least, and no stem of other words."""
        # From the rarest on, looking up what is left: the postings of common terms are not even read.
        rarest, *others = sorted(self.of(terms), key=lambda found: found.total)
        slots = np.concatenate([np.zeros(0, dtype=np.int64), *map(slots_of, rarest.parts)])
        for found in others:
            if not len(slots):
                break
            slots = slots[_members(found, slots) > 0]
        return slots

    def members(self, terms: Sequence[int], slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each of `terms`, of which none is a stem of other words, a row: its members in each of `slots`.

        These are bits, and 0 where a slot has not the term.
        """
        return np.array([_members(found, slots) for found in self.of(terms)])

    def counts(self, terms: int, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return by number of a term, up to `terms`, how many slots have it, of those that are `kept` if given."""
        none = np.zeros(terms, dtype=np.int64)
        return sum((segment.containing(terms, kept) for segment in self.segments), none)

    def terms_of(self, slot: int) -> NDArray[np.int64]:
        """Return the terms that one slot has."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(segment.terms_of(slot) for segment in self.segments)])

    def renumbered(
        self, terms: NDArray[np.int64], slots: NDArray[np.int64], kept: NDArray[np.bool_], stems: Sequence[int]
    ) -> Postings:
        """Return the postings of the slots `kept`, with the numbers that `terms` and `slots` have for the old ones.

        Both give new numbers in the order of the old ones; `stems` are those of the new ones.
        """
        left = [own for segment in self.segments if len(own := segment.only(kept, terms, slots))]
        return Postings((joined(left),) if left else (), stems)


def _members(found: Found, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    bits = np.zeros(len(slots), dtype=np.int64)
    for part in found.parts:
        own = slots_of(part)
        places = np.minimum(own.searchsorted(slots), len(own) - 1)
        bits |= np.where(own[places] == slots, members_of(part)[places], 0)
    return bits
