"""What a ranking is to the rest of the project: a function from tools to something that answers queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from mcp_types import Tool


class Hit(NamedTuple):
    """One tool that fits a query."""

    name: str
    """The tool's name, unique within its index."""

    score: float
    """Relevance in [0, 1], comparable only within one answer; never greater than that of the hit before it."""

    matched: tuple[str, ...] = ()
    """Members of the definition that matched: `name`, `title`, `description`, `inputSchema`, …"""


def distinct_hits(hits: Sequence[Hit], names: Collection[str]) -> Sequence[Hit]:
    """Return `hits` without repetitions, and without tools that are not among `names`: a ranker may be anyone's."""
    first: dict[str, Hit] = {}
    for hit in hits:
        if hit.name in names:
            first.setdefault(hit.name, hit)
    return list(first.values())


def first_names(hits: Sequence[Hit], count: int) -> Sequence[str]:
    """Return the names of the first `count` hits, or of all where there are fewer.

    Hits that are made when they are looked at may have a method of this name, for names that cost less.
    """
    names: Callable[[int], Sequence[str]] | None = getattr(hits, "first_names", None)
    return [hit.name for hit in hits[:count]] if names is None else names(count)


class ToolIndex(Protocol):
    """Tools made ready to be searched."""

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return every tool that fits `query`, any text, best first, without a limit; nothing where no tool fits.

        The answer depends on the query and on the tools whose names are `visible` alone (`None` stands for all): a tool
        that is not visible changes no hit, no score and no order. Equal input gives equal output: ties break by name.
        """
        ...


class Ranker(Protocol):
    """Makes an index of a catalog: the one argument that swaps one way of ranking for another.

    A ranker may say two things of itself. `is_slow = True`: its indexes take so long that no search of them belongs on
    an event loop; any other is slow in large catalogs only. `keeps_floor = True`: its indexes keep the draft's matching
    floor, and none is put under them.
    """

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        """Index `tools`, whose names are unique."""
        ...
