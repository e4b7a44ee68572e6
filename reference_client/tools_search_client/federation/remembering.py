"""Ranking much the same tools again and again, as the answers of the same servers are: what was read is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool
from tools_search_hosts.names import tool_among_servers
from tools_search_ranking import floored

from tools_search_client.servers.found import FoundTool

__all__ = ["ListedTogether", "RememberingRanker"]


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


class ListedTogether:
    """The tools of all servers that were listed, in one index: that of a gateway over the same servers.

    Args:
        ranker: Ranks them under their full names.
    """

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = floored(ranker)
        self._listings: dict[str, tuple[Tool, ...]] = {}
        self._tools: dict[str, dict[str, Tool]] = {}
        """As they were listed, by server and full name."""
        self._index: ToolIndex | None = None

    def learn(self, server: str, listing: tuple[Tool, ...]) -> None:
        """Take note of what a server has; one that it had before is not read again.

        Raises:
            Exception: The ranker cannot take one of the tools; nothing was changed.
        """
        if self._listings.get(server) == listing:
            return
        new = [tool_among_servers(server, tool) for tool in listing]
        if isinstance(self._index, UpdatableIndex):
            index = self._index.updated(list(self._tools.get(server, ())), new)
        else:
            others = [(name, tool) for name, own in self._listings.items() if name != server for tool in own]
            index = self._ranker([*(tool_among_servers(name, tool) for name, tool in others), *new])
        self._index, self._listings[server] = index, listing
        self._tools[server] = {known.name: tool for known, tool in zip(new, listing, strict=True)}

    def search(self, query: str, servers: Mapping[str, int], limit: int) -> list[tuple[str, FoundTool]]:
        """Return the best `limit` tools for `query`, each with its server.

        Args:
            query: What is needed.
            servers: The names of those that are searched, each learned before, with the same number where they are the
                same: a tool of one of those is found at the first.
            limit: Upper bound of the result.
        """
        if self._index is None:
            return []
        owners: dict[str, str] = {}
        firsts: dict[tuple[int, str], str] = {}
        for server, number in servers.items():
            for name, tool in self._tools[server].items():
                if firsts.setdefault((number, tool.name), name) == name:
                    owners[name] = server
        every = sum(map(len, self._tools.values()))
        hits = self._index.search(query, visible=None if len(owners) == every else owners.keys())
        return [(owners[hit.name], self._found(self._tools[owners[hit.name]], hit)) for hit in hits[:limit]]

    def _found(self, tools: Mapping[str, Tool], hit: Hit) -> FoundTool:
        return FoundTool(tools[hit.name], HitMetadata(score=hit.score, matched=list(hit.matched)))
