"""The vectors of one text for each tool of an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.semantic.embedder import Vectors
from tools_search_ranking.semantic.fusion import cosines
from tools_search_ranking.semantic.vector_store import Entry

__all__ = ["TextVectors"]


class TextVectors:
    """Entries by slot, those of equal texts held once. What they are never changes; vectors come later.

    Args:
        entries: One for each slot.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        numbers = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
        self.entries = entries
        self._distinct = list(numbers)
        self._which = np.array([numbers[entry] for entry in entries], dtype=np.intp)
        self._vectors: NDArray[np.float32] | None = None

    def are_ready(self, slots: NDArray[np.intp]) -> bool:
        """Tell whether all these slots have vectors."""
        if self._vectors is not None:
            return True
        return all(self._distinct[number].row is not None for number in _wanted(self._which[slots]))

    def cosines(self, queries: Vectors, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return a row for each of these slots, which are ready: the cosines with `queries`."""
        which = self._which[slots]
        if self._vectors is not None:
            return cosines(self._vectors, queries)[which]
        wanted = _wanted(which)
        vectors = np.stack([row for number in wanted if (row := self._distinct[number].row) is not None])
        if len(wanted) == len(self._distinct):
            self._vectors = vectors.astype(np.float32)
        return cosines(vectors.astype(np.float32), queries)[np.searchsorted(wanted, which)]


def _wanted(which: NDArray[np.intp]) -> list[int]:
    return np.unique(which).tolist()
