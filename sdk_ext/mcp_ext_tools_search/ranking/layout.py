"""How a posting, one term in one tool, is written as one whole number.

From high to low bits: the slot (the number of a tool), the frequency in `STEPS`, and the members as bits. A *key* has
the number of the term before these, so keys in order are postings by term and slot.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MOST",
    "MOST_NARROW",
    "Entries",
    "entries_of",
    "keys",
    "members_of",
    "same_slot_as",
    "slots_of",
    "steps_of",
    "summed",
    "terms_of",
    "with_slots",
]

Entries = NDArray[np.uint32 | np.int64]
"""Postings of one term or of several, without its number: narrow where the slots allow it."""

_MEMBER_BITS: Final = 6
_STEP_BITS: Final = 8
_SLOT_BITS: Final = 22
_SLOT_SHIFT: Final = _STEP_BITS + _MEMBER_BITS
_TERM_SHIFT: Final = _SLOT_BITS + _SLOT_SHIFT
_MEMBERS_MASK: Final = (1 << _MEMBER_BITS) - 1
_STEPS_MASK: Final = (1 << _STEP_BITS) - 1
_REST_MASK: Final = (1 << _SLOT_SHIFT) - 1
_ENTRY_MASK: Final = (1 << _TERM_SHIFT) - 1

_AT_A_TIME: Final = 1 << 16
"""Entries that fit into a processor's cache."""

MOST: Final = 1 << _SLOT_BITS
"""Slots, and terms, that one index can hold: a catalogue of millions is a case for a search engine."""

MOST_NARROW: Final = 1 << (32 - _SLOT_SHIFT)
"""Slots up to which an entry takes 32 bits: 262,144."""


def keys(
    terms: NDArray[np.int64], slots: NDArray[np.int64], steps: NDArray[np.int64], members: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return keys, one for each place of the four arrays; a frequency counts up to 255 steps, which is saturated."""
    return terms << _TERM_SHIFT | slots << _SLOT_SHIFT | np.minimum(steps, _STEPS_MASK) << _MEMBER_BITS | members


def summed(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return keys in order, one for each term and slot: frequencies are added, members united."""
    if not len(keys):
        return keys
    ordered = np.sort(keys)
    places = ordered >> _SLOT_SHIFT
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    steps = np.add.reduceat((ordered >> _MEMBER_BITS) & _STEPS_MASK, starts)
    members = np.bitwise_or.reduceat(ordered & _MEMBERS_MASK, starts)
    return places[starts] << _SLOT_SHIFT | np.minimum(steps, _STEPS_MASK) << _MEMBER_BITS | members


def terms_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of the terms of keys."""
    return keys >> _TERM_SHIFT


def entries_of(keys: NDArray[np.int64]) -> Entries:
    """Return keys without their terms."""
    entries = keys & _ENTRY_MASK
    narrow = not len(entries) or int(entries.max()) >> _SLOT_SHIFT < MOST_NARROW
    return entries.astype(np.uint32) if narrow else entries


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
    return entries_of(slots << _SLOT_SHIFT | (entries & _REST_MASK))
