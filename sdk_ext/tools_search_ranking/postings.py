"""An inverted index: which tools have which terms, how often and where.

A posting is one term in one tool, encoded in 32 bits. From high to low, these are the slot (the tool's position in the
order of names), the members of the definition as bits, and the frequency in `STEPS`.

A word is looked up as written and by its stem. Most tools have it in only one form. Then both lookups have the same
posting, which is stored once, in a cell that they share. A tool with several forms has a posting for the stem and one
for each form. Cells are ordered by stem, so all postings of a stem are adjacent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, TypeAlias, cast

import numpy as np
from mcp_ext_tools_search.ranking.fields import MEMBERS
from numpy.typing import NDArray

_MEMBER_BITS: Final = 6
_STEP_BITS: Final = 8
_SLOT_SHIFT: Final = _STEP_BITS + _MEMBER_BITS

MAX_SLOTS: Final = 1 << (32 - _SLOT_SHIFT)
"""Maximum number of tools in one index. Larger catalogs need a search engine."""

TERM_BITS: Final = 22

MAX_TERMS: Final = 1 << TERM_BITS
"""Maximum number of terms in one index."""

IN_NAME: Final = np.uint32(1 << _STEP_BITS + MEMBERS.index("name"))
"""The bit that is set in a posting if the term is in the tool's name."""

_AT_A_TIME: Final = 1 << 17
"""Number of postings that fit in a processor's cache."""

Entries: TypeAlias = NDArray[np.uint32]
"""Postings of one term or of several."""


def entries_of(slots: NDArray[np.int64], steps: NDArray[np.int64], members: NDArray[np.int64]) -> Entries:
    """Return a posting for each position in the arrays. Frequencies are capped at 255 steps, which is saturated."""
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
    """Return the members whose bits are set: those in `MEMBERS`, from the lowest bit."""
    return tuple(member for place, member in enumerate(MEMBERS) if bits >> place & 1)


@dataclass(frozen=True, slots=True)
class Postings:
    """The postings of a set of tools. They are immutable."""

    cells: NDArray[np.int64]
    """Sorted keys: a term's number and, in the lower bits, that of the form that shares its postings, or its own."""

    bounds: NDArray[np.int64]
    """The start of each cell's entries, and then the end of all: one more value than there are cells."""

    entries: Entries
    """In any order within a cell."""

    @classmethod
    def of(cls, terms: NDArray[np.int64], forms: NDArray[np.int64], entries: Entries) -> Postings:
        """Make the index of these postings.

        `terms` and `forms` have for each the number of its term, and of the form that shares it or else of the term.
        """
        cells = terms << TERM_BITS | forms
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cls(cells[starts], np.append(starts, len(cells)), entries[order])

    def parts_of(self, term: int, stem: int) -> list[Entries]:
        """Return the postings of a term with this stem: its own, and those that it shares with the stem."""
        cells, bounds = cast("Sequence[int]", self.cells.data), self.bounds.data  # faster for single items than numpy
        first, last = bisect_left(cells, term << TERM_BITS), bisect_left(cells, term + 1 << TERM_BITS)
        parts = [self.entries[bounds[first] : bounds[last]]] if first < last else []
        if term != stem >= 0:
            shared = stem << TERM_BITS | term
            first = bisect_left(cells, shared)
            if first < len(cells) and cells[first] == shared:
                parts.append(self.entries[bounds[first] : bounds[first + 1]])
        return parts

    def containing(self, terms: int, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the number of slots with each term, for the first `terms` terms; only `kept` slots count, if given."""
        counts = np.diff(self.bounds)
        if kept is not None:
            counts = np.add.reduceat(kept[slots_of(self.entries)], self.bounds[:-1], dtype=np.int64)
        own, forms = self.cells >> TERM_BITS, self.cells & (MAX_TERMS - 1)
        containing = np.zeros(terms, dtype=np.int64)
        np.add.at(containing, own, counts)
        np.add.at(containing, forms, np.where(forms == own, 0, counts))
        return containing

    def moved(self, new_slots: NDArray[np.int64]) -> Postings:
        """Move the postings to new slots, given by old slot; a negative slot removes the tool."""
        shifts = (new_slots - np.arange(len(new_slots)) << _SLOT_SHIFT).astype(np.uint32)  # modulo 2 to the power of 32
        is_kept, does_move = new_slots >= 0, bool(shifts[new_slots >= 0].any())
        entries, gone, is_gone = self.entries.copy() if does_move else self.entries, [self.bounds[:0]], ~is_kept
        for start in range(0, len(entries), _AT_A_TIME):
            part = entries[start : start + _AT_A_TIME]
            slots = slots_of(part)
            gone.append(is_gone.take(slots).nonzero()[0] + start)
            if does_move:
                part += shifts.take(slots)
        removed = np.concatenate(gone)
        bounds = self.bounds - removed.searchsorted(self.bounds)
        is_used = np.diff(bounds) > 0
        kept = np.delete(entries, removed)
        return Postings(self.cells[is_used], np.append(bounds[:-1][is_used], bounds[-1]), kept)

    def renumbered(self, new_terms: NDArray[np.int64]) -> Postings:
        """Return the postings with new term numbers, which are in the same order as the old ones."""
        own, forms = self.cells >> TERM_BITS, self.cells & (MAX_TERMS - 1)
        return Postings(new_terms[own] << TERM_BITS | new_terms[forms], self.bounds, self.entries)

    def with_added(self, other: Postings) -> Postings:
        """Return these postings with those of a few other tools."""
        places = self.cells.searchsorted(other.cells)
        is_new = np.append(self.cells, -1)[places] != other.cells
        cells = np.insert(self.cells, places[is_new], other.cells[is_new])
        counts = np.insert(np.diff(self.bounds), places[is_new], 0)
        own = np.diff(other.bounds)
        counts[cells.searchsorted(other.cells)] += own
        pieces, before = list[Entries](), 0
        for place, (first, last) in zip(self.bounds[places].tolist(), pairwise(other.bounds.tolist()), strict=True):
            pieces += self.entries[before:place], other.entries[first:last]
            before = place
        return Postings(cells, np.append(0, np.cumsum(counts)), np.concatenate([*pieces, self.entries[before:]]))


def joined(parts: Sequence[Postings]) -> Postings:
    """Merge the postings of different tools without sorting: each cell contains those of each part in turn."""
    if len(parts) == 1:
        return parts[0]
    cells = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *(part.cells for part in parts)]))
    cells = cells[np.flatnonzero(np.diff(cells, prepend=-1))]
    own_places = [cells.searchsorted(part.cells) for part in parts]
    counts = np.zeros(len(cells), dtype=np.int64)
    for part, places in zip(parts, own_places, strict=True):
        counts[places] += np.diff(part.bounds)
    bounds = np.append(0, np.cumsum(counts))
    filled = bounds[:-1].copy()
    entries = np.empty(int(bounds[-1]), dtype=np.uint32)
    for part, places in zip(parts, own_places, strict=True):
        own = np.diff(part.bounds)
        entries[ragged(filled[places], own)] = part.entries
        filled[places] += own
    return Postings(cells, bounds, entries)


def ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated ranges with these starts and lengths."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
