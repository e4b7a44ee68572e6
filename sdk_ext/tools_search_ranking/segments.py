"""Postings side by side: the parts that an inverted index is made of.

A word is looked up as it is written and by its stem. Most tools have it in one form, and then both have the same
posting, which is kept once, in a cell that the two share. A tool with several forms has one for the stem and one for
each form. Cells are ordered by stem, so all postings of a stem lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.layout import MOST, TERM_BITS, Entries, same_slot_as, slots_of, with_slots

__all__ = ["Segment", "joined", "ragged"]


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
            forms: That of the form of it that shares the posting, or the term's own.
            entries: The postings.
        """
        cells = terms << TERM_BITS | forms
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cls(cells[starts], np.append(starts, len(cells)), entries[order])

    def __len__(self) -> int:
        return len(self.entries)

    def add_to(self, found: Sequence[list[Entries]], terms: NDArray[np.int64], stems: NDArray[np.int64]) -> None:
        """Add the entries of `terms` to the lists of `found`, one for each: none, its own, and what it shares.

        Args:
            found: What is added to.
            terms: Numbers of terms.
            stems: For each of them the number of its stem, or a negative one where it has none but itself.
        """
        own, shared = terms << TERM_BITS, stems << TERM_BITS | terms
        # A cell that is not there begins and ends at the same place.
        edges = np.array([own, own + MOST, shared, shared + 1])
        places: list[list[int]] = self.bounds[self.cells.searchsorted(edges)].tolist()
        for parts, start, end, shared_start, shared_end in zip(found, *places, strict=True):
            if start < end:
                parts.append(self.entries[start:end])
            if shared_start < shared_end:
                parts.append(self.entries[shared_start:shared_end])

    def terms_of(self, slot: int) -> NDArray[np.int64]:
        """Return the terms that one slot has, in order."""
        cells = self.cells[self.bounds.searchsorted(same_slot_as(self.entries, slot), side="right") - 1]
        return np.unique(np.concatenate(_split(cells)))

    def containing(self, terms: int, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return by number of a term, up to `terms`, how many slots have it, of those that are `kept` if given."""
        counts = self._counts if kept is None else self._counts_in(kept)
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
        slots = slots_of(self.entries)
        left = kept[slots]
        entries = with_slots(self.entries[left], new_slots[slots[left]])
        return Segment(new_terms[terms] << TERM_BITS | new_terms[forms], _bounds(counts[used]), entries)

    @property
    def _counts(self) -> NDArray[np.int64]:
        return np.diff(self.bounds)

    def _counts_in(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        if not len(self.cells):
            return self._counts
        return np.add.reduceat(kept[slots_of(self.entries)], self.bounds[:-1], dtype=np.int64)


def joined(segments: Sequence[Segment]) -> Segment:
    """Return the postings of segments as one; each has greater slots than those before it.

    Without sorting: of each cell the entries of one segment follow those of the other.
    """
    if len(segments) == 1:
        return segments[0]
    cells = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(segment.cells for segment in segments)]))
    counts = np.zeros(len(cells), dtype=np.int64)
    own_places = [cells.searchsorted(segment.cells) for segment in segments]
    own_counts = [np.diff(segment.bounds) for segment in segments]
    for places, own in zip(own_places, own_counts, strict=True):
        counts[places] += own
    bounds = _bounds(counts)
    filled = bounds[:-1].copy()
    dtype = np.result_type(np.uint32, *(segment.entries for segment in segments))
    entries = np.empty(int(counts.sum()), dtype=dtype)
    for segment, places, own in zip(segments, own_places, own_counts, strict=True):
        entries[ragged(filled[places], own)] = segment.entries
        filled[places] += own
    return Segment(cells, bounds, entries)


def _split(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the terms of cells, and those of their forms."""
    return cells >> TERM_BITS, cells & (MOST - 1)


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))


def ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length says, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
