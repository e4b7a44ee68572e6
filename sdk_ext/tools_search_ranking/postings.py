"""An inverted index: which tools have which terms, how often and where.

A posting is one term in one tool. A word is looked up as it is written and by its stem. Most tools have it in one form,
and then both have the same posting, which is kept once, in a cell that the two share. A tool with several forms has a
posting for the stem and one for each form. Cells are ordered by stem, so all postings of a stem lie side by side.

Postings that are added make a segment of their own, and a segment is joined with the one before it before it reaches an
eighth of its size: there are few, and a posting is moved a few times at most (O'Neil et al., "The Log-Structured
Merge-Tree", 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

TERM_BITS: Final = 22

MOST: Final = 1 << TERM_BITS
"""Slots, and terms, that one index can hold: a catalog of millions is a case for a search engine."""

_MOST_STEPS: Final = 255
_RATIO: Final = 8


class Entries(NamedTuple):
    """Postings of one term or of several, column by column."""

    slots: NDArray[np.int32]
    """Numbers of the tools."""

    steps: NDArray[np.uint8]
    """Frequencies, in `STEPS`; more than 255 of them count as 255, which is saturated."""

    members: NDArray[np.uint8]
    """The members of the definition in which the term occurs, as bits."""

    @classmethod
    def of(cls, slots: NDArray[np.int64], steps: NDArray[np.int64], members: NDArray[np.int64]) -> Entries:
        """Return entries, one for each place of the three arrays."""
        steps = np.minimum(steps, _MOST_STEPS)
        return cls(slots.astype(np.int32), steps.astype(np.uint8), members.astype(np.uint8))

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Return the entries of all parts, one part after another."""
        empty = np.zeros(0, dtype=np.uint8)
        if not parts:
            return cls(empty.astype(np.int32), empty, empty)
        slots, steps, members = zip(*parts, strict=True)
        return cls(np.concatenate(slots), np.concatenate(steps), np.concatenate(members))

    def take(self, places: NDArray[np.integer] | slice) -> Entries:
        """Return the entries at some places."""
        return Entries(self.slots[places], self.steps[places], self.members[places])


class Found(NamedTuple):
    """The postings of one term."""

    total: int
    parts: Sequence[Entries]
    """In no order, but by slot in each part where the term is no stem of other words."""

    def members_in(self, slots: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return for each of `slots` the members that have the term, as bits, where it is no stem of other words."""
        bits = np.zeros(len(slots), dtype=np.uint8)
        for part in self.parts:
            places = np.minimum(part.slots.searchsorted(slots), len(part.slots) - 1)
            bits |= np.where(part.slots[places] == slots, part.members[places], 0)
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
        return cls(cells[starts], np.append(starts, len(cells)), entries.take(order))

    def __len__(self) -> int:
        return len(self.entries.slots)

    def add_to(self, found: Sequence[list[Entries]], terms: NDArray[np.int64], stems: NDArray[np.int64]) -> None:
        """Add the entries of `terms` to the lists of `found`, one for each: none, its own, and those that it shares.

        Args:
            found: The lists.
            terms: Numbers of terms.
            stems: For each of them the number of its stem, or a negative one where it has none but itself.
        """
        own, shared = terms << TERM_BITS, stems << TERM_BITS | terms
        # A cell that is not there begins and ends at the same place.
        edges = np.array([own, own + MOST, shared, shared + 1])
        places: list[list[int]] = self.bounds[self.cells.searchsorted(edges)].tolist()
        for parts, start, end, shared_start, shared_end in zip(found, *places, strict=True):
            if start < end:
                parts.append(self.entries.take(slice(start, end)))
            if shared_start < shared_end:
                parts.append(self.entries.take(slice(shared_start, shared_end)))

    def terms_of(self, slot: int) -> NDArray[np.int64]:
        """Return the terms that one slot has, in order."""
        places = np.flatnonzero(self.entries.slots == slot)
        cells = self.cells[self.bounds.searchsorted(places, side="right") - 1]
        return np.unique(np.concatenate(_split(cells)))

    def containing(self, terms: int, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return by number of a term, up to `terms`, how many slots have it, of those that are `kept` if given."""
        counts = np.diff(self.bounds) if kept is None else self._counts_in(kept)
        own, forms = _split(self.cells)
        containing = np.zeros(terms, dtype=np.int64)
        np.add.at(containing, own, counts)
        np.add.at(containing, forms, np.where(forms == own, 0, counts))
        return containing

    def only(self, kept: NDArray[np.bool_], new_terms: NDArray[np.int64], new_slots: NDArray[np.int64]) -> Segment:
        """Return the postings of the slots `kept`, with new numbers for the old ones, in the order of these."""
        counts = self._counts_in(kept)
        used = np.flatnonzero(counts)
        terms, forms = _split(self.cells[used])
        entries = self.entries.take(np.flatnonzero(kept[self.entries.slots]))
        entries = entries._replace(slots=new_slots[entries.slots].astype(np.int32))
        return Segment(new_terms[terms] << TERM_BITS | new_terms[forms], _bounds(counts[used]), entries)

    def _counts_in(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        if not len(self.cells):
            return np.diff(self.bounds)
        return np.add.reduceat(kept[self.entries.slots], self.bounds[:-1], dtype=np.int64)


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
    total = int(bounds[-1])
    columns = Entries(np.empty(total, np.int32), np.empty(total, np.uint8), np.empty(total, np.uint8))
    for segment, places, own in zip(segments, own_places, own_counts, strict=True):
        at = ragged(filled[places], own)
        for column, values in zip(columns, segment.entries, strict=True):
            column[at] = values
        filled[places] += own
    return Segment(cells, bounds, columns)


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index. It never changes: additions make another, which shares the segments that stay."""

    stems: Sequence[int]
    """By number of a term, the number of its stem, which may be the same, or a negative one where it has none."""

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
        return Postings(self.stems, (*self.segments[:first], joined([*self.segments[first:], added])))

    def of(self, terms: Sequence[int]) -> list[Found]:
        """Return the postings of each of `terms`."""
        numbers = np.array(terms, dtype=np.int64)
        stems = np.array([self.stems[term] for term in terms], dtype=np.int64)
        stems[stems == numbers] = -1
        found: list[list[Entries]] = [[] for _ in terms]
        for segment in self.segments:
            segment.add_to(found, numbers, stems)
        return [Found(sum([len(part.slots) for part in parts]), parts) for parts in found]

    def slots_of(self, terms: Sequence[int]) -> NDArray[np.int32]:
        """Return the slots that have one of `terms`, of which none is the stem of other words, in order."""
        return np.unique(Entries.joined([part for found in self.of(terms) for part in found.parts]).slots)

    def counts(self, terms: int, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return by number of a term, up to `terms`, how many of the slots that are `kept` have it."""
        none = np.zeros(terms, dtype=np.int64)
        return sum((segment.containing(terms, kept) for segment in self.segments), none)

    def terms_of(self, slot: int) -> NDArray[np.int64]:
        """Return the terms that one slot has."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(segment.terms_of(slot) for segment in self.segments)])

    def renumbered(
        self, terms: NDArray[np.int64], slots: NDArray[np.int64], kept: NDArray[np.bool_], stems: Sequence[int]
    ) -> Postings:
        """Return the postings of the slots `kept`, with the numbers that `terms` and `slots` have for the old ones.

        Both give new numbers in the order of the old ones; `stems` has the numbers of the new stems.
        """
        left = [own for segment in self.segments if len(own := segment.only(kept, terms, slots))]
        return Postings(stems, (joined(left),) if left else ())


def _split(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the terms of cells, and those of their forms."""
    return cells >> TERM_BITS, cells & (MOST - 1)


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))


def ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length says, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
