"""Postings side by side: the parts that an inverted index is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.layout import Entries, entries_of, slots_of, terms_of, with_slots

__all__ = ["Segment", "joined", "ragged"]


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of some tools, those of a term by slot. It never changes."""

    terms: NDArray[np.int32]
    """Numbers of the terms, in order."""

    bounds: NDArray[np.int64]
    """Where the entries of each term begin, and behind the last one the end of all: one more than there are terms."""

    entries: Entries

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> Segment:
        """Return the postings of these keys, which are in order."""
        terms = terms_of(keys)
        starts = np.flatnonzero(np.diff(terms, prepend=-1))
        return cls(terms[starts].astype(np.int32), np.append(starts, len(keys)), entries_of(keys))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def counts(self) -> NDArray[np.int64]:
        """By place in `terms`, how many tools have the term."""
        return np.diff(self.bounds)

    def of_terms(self, terms: NDArray[np.int32]) -> list[Entries]:
        """Return the entries of each of `terms`, which may be none."""
        # A term that is not there has the same place from the left and from the right.
        starts: list[int] = self.bounds[self.terms.searchsorted(terms)].tolist()
        ends: list[int] = self.bounds[self.terms.searchsorted(terms, side="right")].tolist()
        return [self.entries[start:end] for start, end in zip(starts, ends, strict=True)]

    def counts_in(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return by place in `terms` how many of the slots `kept` have the term."""
        if not len(self.terms):
            return self.counts
        return np.add.reduceat(kept[slots_of(self.entries)], self.bounds[:-1], dtype=np.int64)

    def only(self, kept: NDArray[np.bool_], new_terms: NDArray[np.int64], new_slots: NDArray[np.int64]) -> Segment:
        """Return the postings of the slots `kept`, with new numbers for the old ones, in the order of these."""
        counts = self.counts_in(kept)
        used = np.flatnonzero(counts)
        slots = slots_of(self.entries)
        left = kept[slots]
        entries = with_slots(self.entries[left], new_slots[slots[left]])
        return Segment(new_terms[self.terms[used]].astype(np.int32), _bounds(counts[used]), entries)


def joined(segments: Sequence[Segment]) -> Segment:
    """Return the postings of segments as one; each has greater slots than those before it.

    Without sorting: of each term the entries of one segment follow those of the other.
    """
    if len(segments) == 1:
        return segments[0]
    terms = np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *(segment.terms for segment in segments)]))
    own_places = [terms.searchsorted(segment.terms) for segment in segments]
    counts = np.zeros(len(terms), dtype=np.int64)
    for segment, places in zip(segments, own_places, strict=True):
        counts[places] += segment.counts
    bounds = _bounds(counts)
    filled = bounds[:-1].copy()
    dtype = np.result_type(np.uint32, *(segment.entries for segment in segments))
    entries = np.empty(int(counts.sum()), dtype=dtype)
    for segment, places in zip(segments, own_places, strict=True):
        entries[ragged(filled[places], segment.counts)] = segment.entries
        filled[places] += segment.counts
    return Segment(terms, bounds, entries)


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))


def ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length says, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
