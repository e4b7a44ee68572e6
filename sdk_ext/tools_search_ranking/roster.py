"""The tools of an index by name and by slot."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Roster"]

_LEAST_TIDIED: Final = 256


@dataclass(frozen=True, slots=True)
class Roster:
    """Who is in an index. It never changes: a change makes another.

    Each tool has a slot, a number that is its own for good. The slot of a tool that was removed stays empty, since what
    is known of it is still in the index.
    """

    names: Sequence[str]
    """By slot, names of removed tools included."""

    by_name: NDArray[np.int32]
    """Slots of the tools that are there, in the order of their names."""

    ranks: NDArray[np.int32]
    """By slot, the place of the tool in that order; anything for an empty slot."""

    present: NDArray[np.bool_] | None
    """By slot, whether the tool is there; `None` where all are."""

    @classmethod
    def of(cls, names: Sequence[str]) -> Roster:
        """Return a roster of these names, each once; slots are given in the order of names."""
        slots = np.arange(len(names), dtype=np.int32)
        return cls(sorted(names), slots, slots, None)

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def is_present(self) -> NDArray[np.bool_]:
        """By slot, whether the tool is there."""
        return np.ones(len(self.names), dtype=np.bool_) if self.present is None else self.present

    @property
    def is_sparse(self) -> bool:
        """Whether so many slots are empty that it pays to tidy up what is left of their tools."""
        return len(self.names) - len(self) > max(_LEAST_TIDIED, len(self) // 2)

    def slot(self, name: str) -> int | None:
        """Return the slot of the tool called `name`, if it is there."""
        place = bisect_left(self.by_name, name, key=self.names.__getitem__)
        slot = int(self.by_name[place]) if place < len(self) else None
        return slot if slot is not None and self.names[slot] == name else None

    def updated(self, removed: Sequence[int], added: Sequence[str]) -> Roster:
        """Return a roster without the tools in the slots `removed`, and with those called `added`.

        These get slots of their own, which follow the last one that was given, in their order.
        """
        names = [*self.names, *added]
        kept = np.delete(self.by_name, self.ranks[list(removed)])
        new = sorted(range(len(self.names), len(names)), key=names.__getitem__)
        places = [bisect_left(kept, names[slot], key=names.__getitem__) for slot in new]
        by_name = np.insert(kept, places, new)
        ranks = np.zeros(len(names), dtype=np.int32)
        ranks[by_name] = np.arange(len(by_name), dtype=np.int32)
        present = np.append(self.is_present, np.ones(len(added), dtype=np.bool_))
        present[list(removed)] = False
        return Roster(names, by_name, ranks, None if present.all() else present)

    def compacted(self) -> Roster:
        """Return a roster of the same tools in which no slot is empty; slots keep their order."""
        left = np.sort(self.by_name)
        by_name = np.searchsorted(left, self.by_name).astype(np.int32)
        return Roster(self.names_of(left), by_name, self.ranks[left], None)

    def names_of(self, slots: NDArray[np.integer]) -> list[str]:
        """Return the names of the tools in `slots`, in their order."""
        places: list[int] = slots.tolist()
        return [self.names[place] for place in places]

    def mask(self, visible: Collection[str]) -> NDArray[np.bool_]:
        """Tell by slot which tools are there and named in `visible`."""
        seen = np.fromiter(map(visible.__contains__, self.names), np.bool_, len(self.names))
        return seen if self.present is None else seen & self.present
