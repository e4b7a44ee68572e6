"""Which terms occur in which tools, how much and in which members: an inverted index that grows by what is added.

A posting is one 64-bit number: term, slot (the number of a tool), frequency in `STEPS` and members as bits, from high
to low. A segment is a sorted array of them, so the postings of a term are found by bisection and two segments become
one by sorting. Additions make segments of their own, and a segment is merged with the one before it before it reaches
an eighth of its size: there are few, and a posting is moved a few times at most (O'Neil et al., "The Log-Structured
Merge-Tree", 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST", "Postings", "members_of", "merged", "packed", "slots_of", "steps_of", "summed", "terms_of"]

_MEMBER_BITS: Final = 6
_STEP_BITS: Final = 12
_SLOT_BITS: Final = 22
_SLOT_SHIFT: Final = _STEP_BITS + _MEMBER_BITS
_TERM_SHIFT: Final = _SLOT_BITS + _SLOT_SHIFT
_MEMBERS_MASK: Final = (1 << _MEMBER_BITS) - 1
_STEPS_MASK: Final = (1 << _STEP_BITS) - 1
_SLOT_MASK: Final = (1 << _SLOT_BITS) - 1

MOST: Final = 1 << _SLOT_BITS
"""Slots, and terms, that one index can hold: a catalogue of millions is a case for a search engine."""

_RATIO: Final = 8
_NONE: Final = np.zeros(0, dtype=np.int64)


def packed(
    terms: NDArray[np.int64], slots: NDArray[np.int64], steps: NDArray[np.int64], members: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return postings, one for each place of the four arrays."""
    return terms << _TERM_SHIFT | slots << _SLOT_SHIFT | np.minimum(steps, _STEPS_MASK) << _MEMBER_BITS | members


def terms_of(postings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of their terms."""
    return postings >> _TERM_SHIFT


def slots_of(postings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slots of their tools."""
    return (postings >> _SLOT_SHIFT) & _SLOT_MASK


def steps_of(postings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return their frequencies, in `STEPS`."""
    return (postings >> _MEMBER_BITS) & _STEPS_MASK


def members_of(postings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the members in which their terms occur, as bits."""
    return postings & _MEMBERS_MASK


def summed(postings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sorted postings, one for each term and slot: frequencies are added, members united."""
    if not len(postings):
        return postings
    ordered = np.sort(postings)
    places = ordered >> _SLOT_SHIFT
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    steps = np.add.reduceat(steps_of(ordered), starts)
    members = np.bitwise_or.reduceat(members_of(ordered), starts)
    return places[starts] << _SLOT_SHIFT | np.minimum(steps, _STEPS_MASK) << _MEMBER_BITS | members


def merged(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the postings of sorted parts as one."""
    # The stable sort sees the runs that are sorted already.
    return np.sort(np.concatenate((_NONE, *parts)), kind="stable")


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index. It never changes: what is added makes another, which shares what is there."""

    segments: tuple[NDArray[np.int64], ...] = (_NONE,)

    def with_added(self, postings: NDArray[np.int64]) -> Postings:
        """Return an index that has these postings too, sorted, of slots that this one does not have."""
        if not len(postings):
            return self
        segments = [*self.segments, postings]
        while len(segments) > 1 and len(segments[-2]) < _RATIO * len(segments[-1]):
            last = segments.pop()
            segments[-1] = merged((segments[-1], last))
        return Postings(tuple(segments))

    def of(self, terms: Sequence[int]) -> list[list[NDArray[np.int64]]]:
        """Return the postings of each of `terms`, those of each segment by themselves."""
        lows = np.array(terms, dtype=np.int64) << _TERM_SHIFT
        bounds = np.concatenate((lows, lows + (1 << _TERM_SHIFT)))
        parts: list[list[NDArray[np.int64]]] = [[] for _ in terms]
        for segment in self.segments:
            ends: list[int] = segment.searchsorted(bounds).tolist()
            for own, start, end in zip(parts, ends, ends[len(parts) :], strict=False):
                own.append(segment[start:end])
        return parts

    def having_all(self, terms: Sequence[int]) -> NDArray[np.int64]:
        """Return the slots that have every one of `terms`, of which there is at least one."""
        # From the rarest on, looking up what is left: the postings of common terms are not even read.
        by_term = dict(zip(terms, self.of(terms), strict=True))
        rarest, *others = sorted(terms, key=lambda term: sum(map(len, by_term[term])))
        slots = slots_of(np.concatenate(by_term[rarest]))
        for term in others:
            if not len(slots):
                break
            slots = slots[self.members(term, slots) > 0]
        return slots

    def members(self, term: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each of `slots` the members in which it has `term`, as bits; 0 where it has not."""
        wanted = term << _TERM_SHIFT | slots << _SLOT_SHIFT
        bits = np.zeros(len(slots), dtype=np.int64)
        for segment in filter(len, self.segments):
            found = segment[np.minimum(segment.searchsorted(wanted), len(segment) - 1)] - wanted
            bits |= np.where((found >= 0) & (found < 1 << _SLOT_SHIFT), members_of(found), 0)
        return bits

    def terms_in(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the terms that the slots `kept` have, some of them more than once."""
        return np.concatenate([terms_of(segment[kept[slots_of(segment)]]) for segment in self.segments])

    def renumbered(self, terms: NDArray[np.int64], slots: NDArray[np.int64], kept: NDArray[np.bool_]) -> Postings:
        """Return the postings of the slots `kept`, with the numbers that `terms` and `slots` have for the old ones.

        Both give new numbers in the order of the old ones.
        """
        old = merged(self.segments)
        old = old[kept[slots_of(old)]]
        return Postings((packed(terms[terms_of(old)], slots[slots_of(old)], steps_of(old), members_of(old)),))
