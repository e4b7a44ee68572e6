"""The order of the tools of one answer, made as far as it is read."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.layout import MOST
from tools_search_ranking.roster import Roster

__all__ = ["Order"]

_FEW: Final = 64
"""Hits that are sorted at once: more than most pages have."""

_MUCH_LESS: Final = 32
"""Matches per hit that is sorted from which on it pays not to sort all."""


class Order:
    """The order of the tools that score more than 0, best first; ties are broken by name.

    A page is far less than all matches, so the best are sorted first, and the others when they are asked for.
    """

    def __init__(self, roster: Roster, total: NDArray[np.float64]) -> None:
        slots = (total > 0).nonzero()[0]
        self._by_name = roster.by_name
        # The bits of positive numbers are ordered as the numbers are, so one integer holds a score and a rank.
        keys = roster.ranks.take(slots) - total.take(slots).view(np.int64)
        # One value, as several threads may look at an answer: how many of the keys are sorted, and the keys.
        self._state: tuple[int, NDArray[np.int64]] = (0, keys)
        self.first = int(self._by_name[keys[keys.argmin()] & (MOST - 1)]) if len(keys) else None
        """Slot of the best of all."""

    def __len__(self) -> int:
        return len(self._state[1])

    def best(self, count: int) -> NDArray[np.int32]:
        """Return the slots of the `count` best."""
        done, keys = self._state
        if count > done:
            self._state = _, keys = _sorted(keys, max(count, _FEW))
        return self._by_name.take(keys[:count] & (MOST - 1))


def _sorted(keys: NDArray[np.int64], few: int) -> tuple[int, NDArray[np.int64]]:
    """Return the keys of which the first `few` at least are sorted, and how many are."""
    if few < len(keys) // _MUCH_LESS:
        keys = np.partition(keys, few)
        keys[:few].sort()
        return few, keys
    return len(keys), np.sort(keys)
