"""One answer out of the answers of many servers; pure.

Fused by rank, never by score. The rankings of the servers alone say nothing about whose first tool fits better, so
that with seventy servers seventy tools stand first. Therefore the definitions in hand are ranked once more, all
together and on this side, and that ranking takes part in the fusion with the weight of two servers: it alone compares
tools of different servers.

`python -m benchmarks.federation` measures it against other orders, with servers that rank by words, as this side does,
and with servers that know better and put what is right first.

Where the servers know no more than this side, ranking again alone would be as good; where they know better, a weight of
two listens to them. Servers that were listed take part as one: their tools are ranked in one index, as a gateway ranks
them, so that nothing depends on which side does it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, cast

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion
from mcp_ext_tools_search.types import EXTENSION_ID, WHITE_SPACE, HitMetadata
from mcp_types import Tool
from tools_search_hosts import HttpTarget, ServerEntry, StdioTarget, Target, UnusableTarget, qualified_name
from tools_search_hosts.names import tool_among_servers
from tools_search_ranking import floored

from tools_search_client.found import Found, FoundTool

_Key: TypeAlias = tuple[int, str]
"""The position of the first server with the same target, and the tool's own name: the same twice is a duplicate."""


class Reranker(Protocol):
    """A last say over the fused order, such as a model's."""

    def __call__(self, query: str, tools: Sequence[FoundTool], /) -> Sequence[FoundTool]:
        """Return some or all of `tools` in the order that suits `query` best."""
        ...


_VOTES_OF_OWN_RANKING: Final = 2

_OF_A_SEARCH: Final = ("score", "matched")

_Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Candidates:
    tools: dict[_Key, FoundTool]
    rankings: list[list[_Key]]


def merge(
    query: str,
    answers: Sequence[tuple[ServerEntry, Found]],
    *,
    limit: int,
    ranker: Ranker,
    together: Sequence[str] = (),
) -> list[FoundTool]:
    """Return the best `limit` tools of all answers, each once, best first.

    Two servers with the same target are the same server, so what both offer is one tool, named after the first. Equal
    definitions of different servers are different tools: two databases may be served by the same program. A tool that
    the query names comes first, as it does at its own server.

    Args:
        query: What was searched.
        answers: Each server's own, best first.
        limit: Upper bound of the result.
        ranker: Ranks the candidates of several servers together; one server's order is left as it is.
        together: Full names of tools that were ranked as those of one server, best first, whatever their servers.
    """
    candidates = _candidates(answers)
    keys = {tool.name: key for key, tool in candidates.tools.items()}
    one = {keys[name]: None for name in together if name in keys}
    others = [[key for key in ranking if key not in one] for ranking in candidates.rankings]
    rankings = [ranking for ranking in (list(one), *others) if ranking]
    if len(rankings) > 1:
        rankings += [_ranked_together(query, candidates.tools, ranker)] * _VOTES_OF_OWN_RANKING
    fused = [replace(candidates.tools[key], weight=weight) for key, weight in reciprocal_rank_fusion(rankings)]
    named = query.strip(WHITE_SPACE)
    return sorted(fused, key=lambda tool: named not in (tool.name, tool.tool.name))[:limit]


def federated_tools(entry: ServerEntry, found: Found) -> list[FoundTool]:
    """Return one server's answer with the names by which its tools are known among those of others."""
    return [_federated(entry, found, hit) for hit in found.tools]


def _candidates(answers: Sequence[tuple[ServerEntry, Found]]) -> _Candidates:
    tools: dict[_Key, FoundTool] = {}
    rankings: dict[int, list[_Key]] = {}
    identities = identities_of([entry.target for entry, _ in answers])
    for identity, (entry, found) in zip(identities, answers, strict=True):
        # A server that is configured twice has one say: its second answer only adds what the first did not have.
        rankings.setdefault(identity, []).extend((identity, hit.tool.name) for hit in found.tools)
        for tool in federated_tools(entry, found):
            tools.setdefault((identity, tool.tool.name), tool)
    return _Candidates(tools, list(rankings.values()))


def identities_of(targets: Sequence[Target]) -> list[int]:
    """Return for each target the position of the first that equals it; only those of one address are compared."""
    alike: dict[str | tuple[str, ...], list[int]] = {}
    identities: list[int] = []
    for position, target in enumerate(targets):
        firsts = alike.setdefault(_address(target), [])
        identities.append(next((first for first in firsts if targets[first] == target), position))
        if identities[-1] == position:
            firsts.append(position)
    return identities


def _address(target: Target) -> str | tuple[str, ...]:
    match target:
        case HttpTarget():
            return target.url
        case StdioTarget():
            return (target.command, *target.args)
        case UnusableTarget():
            return target.problems


def _ranked_together(query: str, tools: dict[_Key, FoundTool], ranker: Ranker) -> list[_Key]:
    by_name = {tool.name: key for key, tool in tools.items()}
    index = ranker([_definition(tools[key].tool, name) for name, key in by_name.items()])
    return [by_name[hit.name] for hit in index.search(query)]


def _definition(tool: Tool, name: str) -> Tool:
    """Return `tool` under another name and without what its server says of one search, which is no part of it."""
    labels = (tool.meta or {}).get(EXTENSION_ID)
    if not isinstance(labels, Mapping):
        return tool.model_copy(update={"name": name})
    lasting = {member: value for member, value in cast("_Json", labels).items() if member not in _OF_A_SEARCH}
    return tool.model_copy(update={"name": name, "meta": {**(tool.meta or {}), EXTENSION_ID: lasting}})


def _federated(entry: ServerEntry, found: Found, hit: FoundTool) -> FoundTool:
    return replace(hit, name=qualified_name(entry.name, hit.tool.name), server=entry.name, mode=found.mode)


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
        tool = tools[hit.name]
        return FoundTool(tool.name, "", tool, HitMetadata(score=hit.score, matched=list(hit.matched)))
