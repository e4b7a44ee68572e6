"""The draft's matching floor, put under any ranking.

Ranking is free, but two things hold on every server: a query that is a tool's name finds that tool first, and a tool
that has every term of the query is among the matches.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from mcp_types import Tool

from mcp_ext_tools_search.ranking.hits import names_of
from mcp_ext_tools_search.ranking.interface import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.terms import terms, tool_terms, trimmed

__all__ = ["Floor", "floored", "with_floor"]


def with_floor(query: str, tools: Sequence[Tool], hits: Sequence[Hit]) -> list[Hit]:
    """Return `hits` with the matching floor put under them.

    This reads all of `tools` at each call; whoever searches one catalogue more than once keeps a `Floor`.

    Args:
        query: The query that was searched.
        tools: The tools that the caller may see, with unique names.
        hits: What a ranking made of them, best first.
    """
    return list(Floor(tools).under(query, hits))


def floored(ranker: Ranker) -> Ranker:
    """Return a ranker whose indexes keep the matching floor, however `ranker` orders."""
    return lambda tools: _FlooredIndex(Floor(tools), ranker(tools))


class Floor:
    """The terms of a catalogue, ready to be looked up for any number of queries."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = sorted(tools, key=lambda tool: tool.name)
        self._positions = {tool.name: position for position, tool in enumerate(self._tools)}
        self._tools_with: dict[str, array[int]] = {}
        for position, tool in enumerate(self._tools):
            for term in frozenset[str]().union(*tool_terms(tool).values()):
                self._tools_with.setdefault(term, array("i")).append(position)

    def under(self, query: str, hits: Sequence[Hit], *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return `hits` with the floor under them: the same object where nothing is missing.

        A tool named exactly like the trimmed query comes first; tools that have all terms of the query and were not
        found follow the last hit, ordered by name, with its score.
        """
        wanted = [name for name in self._having_all(terms(query)) if visible is None or name in visible]
        found = frozenset(names_of(hits)) if wanted else frozenset[str]()
        missing = [name for name in wanted if name not in found]
        if missing:
            hits = [*hits, *self._appended(missing, query, score=hits[-1].score if hits else 1.0)]
        exact = trimmed(query)
        if exact in self._positions and (visible is None or exact in visible):
            return _led_by(exact, hits)
        return hits

    def _having_all(self, query_terms: Iterable[str]) -> list[str]:
        """Return the names, in order, of the tools that have every one of the terms; none where there is no term."""
        posted = [self._tools_with.get(term, array("i")) for term in dict.fromkeys(query_terms)]
        if not posted:
            return []
        rarest, *others = sorted(posted, key=len)
        positions = set(rarest)
        for other in others:
            if not positions:
                break
            positions.intersection_update(other)
        return [self._tools[position].name for position in sorted(positions)]

    def _appended(self, names: Iterable[str], query: str, *, score: float) -> list[Hit]:
        wanted = frozenset(terms(query))
        by_member = [(name, tool_terms(self._tools[self._positions[name]])) for name in names]
        return [
            Hit(name, score, tuple(member for member, has in members.items() if not wanted.isdisjoint(has)))
            for name, members in by_member
        ]


def _led_by(name: str, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return `hits` with the tool called `name` first, whether it was found or not."""
    if hits and hits[0].name == name and hits[0].score == 1.0 and "name" in hits[0].matched:
        return hits
    own = next((hit for hit in hits if hit.name == name), Hit(name, 1.0))
    matched = own.matched if "name" in own.matched else ("name", *own.matched)
    return [replace(own, score=1.0, matched=matched), *(hit for hit in hits if hit.name != name)]


class _FlooredIndex:
    def __init__(self, floor: Floor, index: ToolIndex) -> None:
        self._floor = floor
        self._index = index

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return self._floor.under(query, self._index.search(query, visible=visible), visible=visible)
