"""Lazy hits: a ranking of the whole catalog at the cost of one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, cast, overload

from mcp_ext_tools_search.ranking.interface import Hit

_HITS_PER_NAME: Final = 32
"""Above this many hits per requested name, it is faster to make only the hits for these names."""


class LazyHits(Sequence[Hit]):
    """Hits that are made on access: a page of ten hits out of a thousand makes only ten.

    Args:
        count: Number of hits.
        names: Returns the distinct names of the found tools, best first.
        hits_at: Makes the hits at these positions. It is called on each access.
        scores: Returns the scores of all hits, at a lower cost than making the hits.
    """

    def __init__(
        self,
        count: int,
        names: Callable[[], Sequence[str]],
        hits_at: Callable[[range], Sequence[Hit]],
        scores: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        self._count = count
        self._names = names
        self._hits_at = hits_at
        self.scores = scores

    @cached_property
    def names(self) -> Sequence[str]:
        """Names of the found tools, best first."""
        return self._names()

    def first_names(self, count: int, /) -> Sequence[str]:
        """Return the names of the first `count` tools. If `count` is small, so is the cost."""
        if count > self._count // _HITS_PER_NAME:
            return self.names[:count]
        return [hit.name for hit in self[:count]]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        places = range(self._count)
        if isinstance(index, slice):
            return self._hits_at(places[index])
        place = places[index]
        return self._hits_at(range(place, place + 1))[0]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._hits_at(range(self._count)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # compares by value like a list, so it hashes like one


def names_of(hits: Sequence[Hit]) -> Sequence[str]:
    """Return the names of the tools in `hits`, in order, without making lazy hits."""
    return hits.names if isinstance(hits, LazyHits) else [hit.name for hit in hits]
