"""One ranking of the tools of many servers.

Answers are fused by rank, never by score. The rankings of the servers alone do not say whose first tool fits better, so
that with seventy servers seventy tools would stand first. So the definitions in hand are ranked once more, all together
and on this side, and that ranking takes part in the fusion with the weight of two servers: it alone compares tools of
different servers. Where the servers know no more than this side, ranking again alone would be as good; where they know
better, a weight of two listens to them. `python -m benchmarks.retrieval` measures it against other orders.

Servers that were listed take part as one: their tools are ranked in one index, as a gateway ranks them, so that nothing
depends on which side does it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank, reciprocal_rank_fusion
from mcp_ext_tools_search.types import EXTENSION_ID, WHITE_SPACE, HitMetadata, published_metadata
from mcp_types import Tool
from tools_search_hosts import qualified_name
from tools_search_hosts.names import tool_among_servers
from tools_search_ranking import UpdatableIndex

from tools_search_client.found import Found, FoundTool

_Key: TypeAlias = tuple[Hashable, str]
"""The identity of the server, and the tool's own name: the same twice is a duplicate."""

_OF_A_SEARCH: Final = ("score", "matched")


def named_among_servers(server: str, found: Found) -> Found:
    """Return the answer of `server` with its tools under the names by which they are known among those of others."""
    tools = (
        replace(tool, name=qualified_name(server, tool.tool.name), server=server, mode=found.mode)
        for tool in found.tools
    )
    return replace(found, tools=tuple(tools))


def merge(
    query: str,
    answers: Sequence[tuple[Hashable, Sequence[FoundTool]]],
    *,
    limit: int,
    ranker: Ranker,
    together: Sequence[FoundTool] = (),
) -> list[FoundTool]:
    """Return the best `limit` tools of all answers, each once, best first.

    What the same server offers under two names is one tool, named after the first. Equal definitions of different
    servers are different tools: two databases may be served by the same program. A tool that the query names comes
    first, as it does at its own server.

    Args:
        query: What was searched.
        answers: Each server's own, best first, under names among servers; with the same identity where two servers are
            configured alike.
        limit: Upper bound of the result.
        ranker: Ranks the candidates of several servers together; one server's order is left as it is.
        together: Tools that were ranked as if they were one server's, best first, over all servers.
    """
    candidates: dict[_Key, FoundTool] = {}
    rankings_of: dict[Hashable, list[_Key]] = {}
    for identity, tools in answers:
        for tool in tools:
            # A server that is configured twice has one say: its second answer only adds what the first did not have.
            rankings_of.setdefault(identity, []).append((identity, tool.tool.name))
            candidates.setdefault((identity, tool.tool.name), tool)
    keys = {tool.name: key for key, tool in candidates.items()}
    as_one = {keys[tool.name]: None for tool in together if tool.name in keys}
    others = [[key for key in ranking if key not in as_one] for ranking in rankings_of.values()]
    rankings = [ranking for ranking in (list(as_one), *others) if ranking]

    def rank_together(_: Sequence[_Key]) -> list[_Key]:
        index = ranker([_definition(candidates[key].tool, name) for name, key in keys.items()])
        return [keys[hit.name] for hit in index.search(query)]

    weights = fuse_and_rerank(rankings, rank_together) if len(rankings) > 1 else reciprocal_rank_fusion(rankings)
    fused = [replace(candidates[key], weight=weight) for key, weight in weights]
    return named_first(query, fused)[:limit]


def named_first(query: str, tools: Iterable[FoundTool]) -> list[FoundTool]:
    """Return `tools` in their order, but a tool that the query names before all others."""
    named = query.strip(WHITE_SPACE)
    return sorted(tools, key=lambda tool: named not in (tool.name, tool.tool.name))


def _definition(tool: Tool, name: str) -> Tool:
    """Return `tool` under another name, without its server's remarks on one search, which are no part of it."""
    labels = published_metadata(tool.meta)
    if not labels:
        return tool.model_copy(update={"name": name})
    lasting = {member: value for member, value in labels.items() if member not in _OF_A_SEARCH}
    return tool.model_copy(update={"name": name, "meta": {**(tool.meta or {}), EXTENSION_ID: lasting}})


class RememberingRanker:
    """A `Ranker` whose indexes answer exactly as those of another, and cost less where the same tools come again.

    One index holds every tool that was seen, up to `most_kept`, and the tools that are not asked for are not visible in
    it, which by the contract of an index changes no hit and no order. Where the other's indexes cannot be updated,
    nothing is saved.
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


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the tools of an index."""

    index: ToolIndex
    names: frozenset[str]

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return self.index.search(query, visible=self.names if visible is None else self.names.intersection(visible))


class ListedTogether:
    """The tools of all servers that were listed, in one index: that of a gateway over the same servers."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = floored(ranker)
        self._tools: dict[str, dict[str, Tool]] = {}
        """As they were listed, by server and full name."""
        self._listings: dict[str, tuple[Tool, ...]] = {}
        self._index: ToolIndex | None = None

    def learn(self, server: str, listing: tuple[Tool, ...]) -> None:
        """Take in the tools of a server; a listing that is the same as before is not read again.

        Nothing is changed where the ranker raises, because it cannot take one of the tools.
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

    def search(self, query: str, servers: Mapping[str, int], limit: int) -> list[FoundTool]:
        """Return the best `limit` tools for `query` of these servers, under their names among servers.

        Each was learned before. They have the same number where they are the same: a tool is then found at the first.
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
        return [
            FoundTool(
                hit.name,
                owners[hit.name],
                self._tools[owners[hit.name]][hit.name],
                HitMetadata(score=hit.score, matched=list(hit.matched)),
            )
            for hit in hits[:limit]
        ]
