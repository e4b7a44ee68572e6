"""A ranking as long as the catalogue that costs what is read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast, overload

from mcp_ext_tools_search.ranking.interface import Hit

__all__ = ["LazyHits", "names_of"]


class LazyHits(Sequence[Hit]):
    """Hits made when they are looked at: a page of ten in a thousand matches makes ten.

    Args:
        names: Names of the tools found, best first.
        hit_at: Makes the hit at a position of `names`; called again for each look.
    """

    def __init__(self, names: Sequence[str], hit_at: Callable[[int], Hit]) -> None:
        self.names = names
        self._hit_at = hit_at

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        if isinstance(index, slice):
            return [self._hit_at(position) for position in range(len(self))[index]]
        return self._hit_at(range(len(self))[index])

    def __iter__(self) -> Iterator[Hit]:
        return map(self._hit_at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # compares by value like a list, so it hashes like one


def names_of(hits: Sequence[Hit]) -> Sequence[str]:
    """Return the names of the tools in `hits`, in order, without making a hit that was not looked at."""
    return hits.names if isinstance(hits, LazyHits) else [hit.name for hit in hits]
