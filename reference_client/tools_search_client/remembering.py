"""Ranking much the same tools again and again, as the answers of the same servers are: what was read is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex, UpdatableIndex
from mcp_types import Tool

__all__ = ["RememberingRanker"]


class RememberingRanker:
    """A `Ranker` whose indexes answer exactly as those of another, and are made for less.

    One index holds every tool that was seen, and what is not asked for is not visible in it, which by the contract of
    an index changes no hit and no order. Where the other's indexes cannot be updated, they are made as ever.

    Args:
        ranker: The other.
        most_kept: With more definitions than that it begins anew.
    """

    def __init__(self, ranker: Ranker, *, most_kept: int = 4_096) -> None:
        self._ranker = ranker
        self._most_kept = most_kept
        self._seen: dict[str, Tool] = {}
        self._index: ToolIndex | None = None

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        """Index `tools`, whose names are unique."""
        new = [tool for tool in tools if self._seen.get(tool.name) != tool]
        if not isinstance(self._index, UpdatableIndex) or len(self._seen) + len(new) > self._most_kept:
            self._seen = {tool.name: tool for tool in tools}
            self._index = self._ranker(tools)
        elif new:
            self._index = self._index.updated([tool.name for tool in new if tool.name in self._seen], new)
            self._seen.update((tool.name, tool) for tool in new)
        return _Part(self._index, frozenset(tool.name for tool in tools))


class _Part:
    """Some of the tools of an index."""

    def __init__(self, index: ToolIndex, names: frozenset[str]) -> None:
        self._index = index
        self._names = names

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return every tool of this part that fits `query`, best first."""
        return self._index.search(query, visible=self._names if visible is None else self._names.intersection(visible))
