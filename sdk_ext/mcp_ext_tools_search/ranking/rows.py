"""Rows of numbers, one for each slot: what an inverted index is asked for the other way round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "ragged"]

_RATIO = 8


@dataclass(frozen=True, slots=True)
class _Block:
    first: int
    """Slot of its first row."""

    ends: NDArray[np.int64]
    """Where each row ends in `values`; it begins where the one before it ends."""

    values: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Rows:
    """One row for each slot. It never changes: added rows make another, which shares what is there."""

    blocks: tuple[_Block, ...] = ()

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.blocks[-1].first + len(self.blocks[-1].ends) if self.blocks else 0

    def with_added(self, lengths: NDArray[np.int64], values: NDArray[np.int32]) -> Rows:
        """Return rows to which some of these `lengths` are added, their values one after another."""
        blocks = [*self.blocks, _Block(self.count, np.cumsum(lengths), values)]
        while len(blocks) > 1 and len(blocks[-2].values) < _RATIO * len(blocks[-1].values):
            last, before = blocks.pop(), blocks.pop()
            ends = np.concatenate((before.ends, len(before.values) + last.ends))
            blocks.append(_Block(before.first, ends, np.concatenate((before.values, last.values))))
        return Rows(tuple(blocks))

    def of(self, slots: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the values of the rows of `slots`, one row after another, in the order of the blocks."""
        parts = [np.zeros(0, dtype=np.int32)]
        for block in self.blocks:
            own = slots[(slots >= block.first) & (slots < block.first + len(block.ends))] - block.first
            starts = np.concatenate((np.zeros(1, dtype=np.int64), block.ends))[own]
            parts.append(block.values[ragged(starts, block.ends[own] - starts)])
        return np.concatenate(parts)

    def lengths_of(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the lengths of the rows of `slots`."""
        blocks = [np.diff(block.ends, prepend=0) for block in self.blocks]
        return np.concatenate((np.zeros(0, dtype=np.int64), *blocks))[slots]


def ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its length says, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
