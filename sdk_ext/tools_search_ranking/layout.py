"""How a posting, one term in one tool, is written as one whole number.

From high to low bits: the slot (the number of a tool), the frequency in `STEPS`, and the members as bits. So entries in
order are postings by slot.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MOST",
    "MOST_NARROW",
    "TERM_BITS",
    "Entries",
    "entries_of",
    "members_of",
    "same_slot_as",
    "slots_of",
    "steps_of",
    "with_slots",
]

Entries = NDArray[np.uint32 | np.int64]
"""Postings of one term or of several: narrow where the slots allow it."""

_MEMBER_BITS: Final = 6
_STEP_BITS: Final = 8
_SLOT_SHIFT: Final = _STEP_BITS + _MEMBER_BITS
_MEMBERS_MASK: Final = (1 << _MEMBER_BITS) - 1
_STEPS_MASK: Final = (1 << _STEP_BITS) - 1
_REST_MASK: Final = (1 << _SLOT_SHIFT) - 1

_AT_A_TIME: Final = 1 << 17
"""Entries that fit into a processor's cache."""

TERM_BITS: Final = 22

MOST: Final = 1 << TERM_BITS
"""Slots, and terms, that one index can hold: a catalog of millions is a case for a search engine."""

MOST_NARROW: Final = 1 << (32 - _SLOT_SHIFT)
"""Slots up to which an entry takes 32 bits: 262,144."""


def entries_of(slots: NDArray[np.int64], steps: NDArray[np.int64], members: NDArray[np.int64]) -> Entries:
    """Return entries, one for each place of the three arrays; frequencies count up to 255 steps, which is saturated."""
    return _narrow(slots << _SLOT_SHIFT | np.minimum(steps, _STEPS_MASK) << _MEMBER_BITS | members)


def slots_of(entries: Entries) -> NDArray[np.int64]:
    """Return the slots of their tools."""
    return np.right_shift(entries, _SLOT_SHIFT, dtype=np.int64)


def steps_of(entries: Entries) -> Entries:
    """Return their frequencies, in `STEPS`."""
    return (entries >> _MEMBER_BITS) & _STEPS_MASK


def members_of(entries: Entries) -> Entries:
    """Return the members in which their terms occur, as bits."""
    return entries & _MEMBERS_MASK


def same_slot_as(entries: Entries, slot: int) -> NDArray[np.intp]:
    """Return the places of the entries of one slot."""
    starts = range(0, len(entries), _AT_A_TIME)
    places = [np.flatnonzero(entries[start : start + _AT_A_TIME] >> _SLOT_SHIFT == slot) + start for start in starts]
    return np.concatenate([np.zeros(0, dtype=np.intp), *places])


def with_slots(entries: Entries, slots: NDArray[np.int64]) -> Entries:
    """Return the same entries with other slots."""
    return _narrow(slots << _SLOT_SHIFT | (entries & _REST_MASK))


def _narrow(entries: NDArray[np.int64]) -> Entries:
    fits = not len(entries) or int(entries.max()) >> _SLOT_SHIFT < MOST_NARROW
    return entries.astype(np.uint32) if fits else entries
