"""An inverted index: which tools have which terms, how often and where.

A posting is one term in one tool. It is written as one number of 32 bits: from high to low the slot (the number of the
tool), the members of the definition as bits, and the frequency in `STEPS`.

A word is looked up as it is written and by its stem. Most tools have it in one form, and then both have the same
posting, which is kept once, in a cell that the two share. A tool with several forms has a posting for the stem and one
for each form. Cells are ordered by stem, so all postings of a stem lie side by side.

Postings that are added make a segment of their own, and a segment is joined with the one before it before it reaches an
eighth of its size: there are few, and a posting is moved a few times at most (O'Neil et al., "The Log-Structured
Merge-Tree", 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from mcp_ext_tools_search.ranking.fields import MEMBERS
from numpy.typing import NDArray

_MEMBER_BITS: Final = 6
_STEP_BITS: Final = 8
_SLOT_SHIFT: Final = _STEP_BITS + _MEMBER_BITS

IN_NAME: Final = np.uint32(1 << MEMBERS.index("name") << _STEP_BITS)
"""The bit of postings of terms that are in a tool's name."""

MAX_SLOTS: Final = 1 << (32 - _SLOT_SHIFT)
"""Slots that one index can hold: a larger catalog is a case for a search engine."""

TERM_BITS: Final = 22

MAX_TERMS: Final = 1 << TERM_BITS
"""Terms that one index can hold."""

_RATIO: Final = 8

_AT_A_TIME: Final = 1 << 17
"""Postings that fit into a processor's cache."""

Entries: TypeAlias = NDArray[np.uint32]
"""Postings of one term or of several."""


def entries_of(slots: NDArray[np.int64], steps: NDArray[np.int64], members: NDArray[np.int64]) -> Entries:
    """Return a posting for each place of the arrays; frequencies count up to 255 steps, which is saturated."""
    steps = np.minimum(steps, (1 << _STEP_BITS) - 1)
    return (slots << _SLOT_SHIFT | members << _STEP_BITS | steps).astype(np.uint32)


def slots_of(entries: Entries) -> NDArray[np.int64]:
    """Return the slots of the tools."""
    return np.right_shift(entries, _SLOT_SHIFT, dtype=np.int64)


def steps_of(entries: Entries) -> NDArray[np.uint8]:
    """Return the frequencies, in `STEPS`."""
    return entries.astype(np.uint8)


def members_of(entries: Entries) -> NDArray[np.uint32]:
    """Return the members of the definitions in which the terms occur, as bits."""
    return entries >> np.uint32(_STEP_BITS) & np.uint32((1 << _MEMBER_BITS) - 1)


@cache
def members_in(bits: int) -> tuple[str, ...]:
    """Return the members whose bits are set: those of `MEMBERS` from the lowest bit on."""
    return tuple(member for place, member in enumerate(MEMBERS) if bits >> place & 1)


class Found(NamedTuple):
    """The postings of one term."""

    total: int
    parts: Sequence[Entries]
    """In no order, but by slot in each part where the term is no stem of other words."""

    def members_in(self, slots: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return for each of `slots` the members that have the term, as bits, where it is no stem of other words."""
        bits = np.zeros(len(slots), dtype=np.uint32)
        for part in self.parts:
            own = slots_of(part)
            places = np.minimum(own.searchsorted(slots), len(own) - 1)
            bits |= np.where(own[places] == slots, members_of(part)[places], 0)
        return bits


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of some tools. It never changes."""

    cells: NDArray[np.int64]
    """The number of a term and in lower bits that of the form of it that shares the postings, or its own: in order."""

    bounds: NDArray[np.int64]
    """Where the entries of each cell begin, and behind the last one the end of all: one more than there are cells."""

    entries: Entries
    """By slot within a cell."""

    @classmethod
    def of(cls, terms: NDArray[np.int64], forms: NDArray[np.int64], entries: Entries) -> Segment:
        """Return these postings, of which those of the same cell come by slot.

        Args:
            terms: The number of the term of each.
            forms: The number of the form of it that shares the posting, or the term's own.
            entries: The postings.
        """
        cells = terms << TERM_BITS | forms
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cls(cells[starts], np.append(starts, len(cells)), entries[order])

    def terms_of(self, slot: int) -> NDArray[np.int64]:
        """Return the terms that one slot has."""
        starts = range(0, len(self.entries), _AT_A_TIME)
        parts = [self.entries[start : start + _AT_A_TIME] >> _SLOT_SHIFT for start in starts]
        places = [np.flatnonzero(slots == slot) + start for start, slots in zip(starts, parts, strict=True)]
        cells = self.cells[self.bounds.searchsorted(np.concatenate(places), side="right") - 1]
        return np.unique(np.concatenate(_split(cells)))

    def containing(self, terms: int, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return by number of a term, up to `terms`, how many slots have it, of those that are `kept` if given."""
        counts = np.diff(self.bounds) if kept is None else self._counts_in(kept)
        own, forms = _split(self.cells)
        containing = np.zeros(terms, dtype=np.int64)
        np.add.at(containing, own, counts)
        np.add.at(containing, forms, np.where(forms == own, 0, counts))
        return containing

    def subset(self, kept: NDArray[np.bool_], new_terms: NDArray[np.int64], new_slots: NDArray[np.int64]) -> Segment:
        """Return the postings of the slots `kept`, with new numbers for the old ones, in the order of these."""
        counts = self._counts_in(kept)
        used = np.flatnonzero(counts)
        terms, forms = _split(self.cells[used])
        left = self.entries[kept[slots_of(self.entries)]]
        rest = left & (1 << _SLOT_SHIFT) - 1
        entries = (new_slots[slots_of(left)] << _SLOT_SHIFT | rest).astype(np.uint32)
        return Segment(new_terms[terms] << TERM_BITS | new_terms[forms], _bounds(counts[used]), entries)

    def _counts_in(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.add.reduceat(kept[slots_of(self.entries)], self.bounds[:-1], dtype=np.int64)


def joined(segments: Sequence[Segment]) -> Segment:
    """Return the postings of segments as one; each has greater slots than those before it.

    Without sorting: of each cell the entries of one segment follow those of the other.
    """
    if len(segments) == 1:
        return segments[0]
    cells = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(segment.cells for segment in segments)]))
    own_places = [cells.searchsorted(segment.cells) for segment in segments]
    own_counts = [np.diff(segment.bounds) for segment in segments]
    counts = np.zeros(len(cells), dtype=np.int64)
    for places, own in zip(own_places, own_counts, strict=True):
        counts[places] += own
    bounds = _bounds(counts)
    filled = bounds[:-1].copy()
    entries = np.empty(int(bounds[-1]), dtype=np.uint32)
    for segment, places, own in zip(segments, own_places, own_counts, strict=True):
        entries[ragged(filled[places], own)] = segment.entries
        filled[places] += own
    return Segment(cells, bounds, entries)


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index. It never changes: additions make another, which shares the segments that stay."""

    stems: Sequence[int]
    """By number of a term, the number of its stem, which may be the same, or a negative one where it has none."""

    segments: tuple[Segment, ...] = ()
    """None of them is empty."""

    def with_added(self, added: Segment) -> Postings:
        """Return an index that has these postings too, of slots that are greater than those that this one has."""
        size = len(added.entries)
        if not size:
            return self
        first = len(self.segments)
        while first and len(self.segments[first - 1].entries) < _RATIO * size:
            first -= 1
            size += len(self.segments[first].entries)
        return Postings(self.stems, (*self.segments[:first], joined([*self.segments[first:], added])))

    def of(self, terms: Sequence[int]) -> list[Found]:
        """Return the postings of each of `terms`: its own, and those that it shares with its stem."""
        numbers = np.array(terms, dtype=np.int64)
        stems = np.array([self.stems[term] for term in terms], dtype=np.int64)
        stems[stems == numbers] = -1
        own, shared = numbers << TERM_BITS, stems << TERM_BITS | numbers
        # A cell that is not there begins and ends at the same place.
        edges = np.array([own, own + MAX_TERMS, shared, shared + 1])
        found: list[list[Entries]] = [[] for _ in terms]
        for segment in self.segments:
            places: list[list[int]] = segment.bounds[segment.cells.searchsorted(edges)].tolist()
            for parts, start, end, shared_start, shared_end in zip(found, *places, strict=True):
                if start < end:
                    parts.append(segment.entries[start:end])
                if shared_start < shared_end:
                    parts.append(segment.entries[shared_start:shared_end])
        return [Found(sum(map(len, parts)), parts) for parts in found]


def _split(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the terms of cells, and those of their forms."""
    return cells >> TERM_BITS, cells & (MAX_TERMS - 1)


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))


def ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length says, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
