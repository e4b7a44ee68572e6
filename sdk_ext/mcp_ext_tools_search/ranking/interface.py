"""The ranking interface: a function from tools to an index that answers queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from mcp_types import Tool


class Hit(NamedTuple):
    """One tool that fits a query."""

    name: str
    """The tool's name, unique within its index."""

    score: float
    """Relevance in [0, 1], comparable only within one answer, and never greater than that of the previous hit."""

    matched: tuple[str, ...] = ()
    """Members of the definition that matched: `name`, `title`, `description`, `inputSchema`, …"""


def distinct_hits(hits: Sequence[Hit], names: Collection[str]) -> Sequence[Hit]:
    """Return `hits` without duplicates or tools that are not in `names`, since a ranker may be third-party code."""
    first: dict[str, Hit] = {}
    for hit in hits:
        if hit.name in names:
            first.setdefault(hit.name, hit)
    return list(first.values())


def first_names(hits: Sequence[Hit], count: int) -> Sequence[str]:
    """Return the names of the first `count` hits, or of all if there are fewer.

    Lazily created hits may have a method with this name that returns names at a lower cost.
    """
    names: Callable[[int], Sequence[str]] | None = getattr(hits, "first_names", None)
    return [hit.name for hit in hits[:count]] if names is None else names(count)


class ToolIndex(Protocol):
    """An index of tools."""

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return all tools that fit `query`, which may be any text, best first, or none.

        The answer only depends on the query and on the tools whose names are `visible` (`None` means all): a tool that
        is not visible changes no hit, score or order. Equal input gives equal output. Ties are ordered by name.
        """
        ...


class Ranker(Protocol):
    """Builds an index of a catalog. Pass a different one to change the ranking.

    A ranker may have two attributes. `is_slow = True` means that searches of its indexes are too slow for an event
    loop; without it, only those of large catalogs are. `keeps_floor = True` means that its indexes implement the
    draft's matching floor, so that none is added.
    """

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        """Index `tools`, whose names must be unique."""
        ...
