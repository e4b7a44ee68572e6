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

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from mcp_ext_search_primitives.index import PrimitiveIndex
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank, reciprocal_rank_fusion
from mcp_ext_tools_search.types import EXTENSION_ID, WHITE_SPACE, HitMetadata, Primitive, published_metadata
from mcp_types import Tool
from tools_search_hosts import qualified_name
from tools_search_hosts.names import tool_among_servers
from tools_search_ranking import UpdatableIndex

from tools_search_client.found import Found, FoundItem, FoundTool, NamedItem, key_of

_Key: TypeAlias = tuple[Hashable, str]
"""The identity of the server, and the tool's own name: the same twice is a duplicate."""

Candidate = TypeVar("Candidate", FoundTool, FoundItem[Any])

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
    answers: Sequence[tuple[Hashable, Sequence[Candidate]]],
    *,
    limit: int,
    index: Callable[[Mapping[str, Candidate]], ToolIndex],
    together: Sequence[Candidate] = (),
) -> list[Candidate]:
    """Return the best `limit` tools, or other items, of all answers, each once, best first.

    What the same server offers under two names is one tool, named after the first. Equal definitions of different
    servers are different tools: two databases may be served by the same program. A tool that the query names comes
    first, as it does at its own server.

    Args:
        query: What was searched.
        answers: Each server's own, best first, under names among servers; with the same identity where two servers are
            configured alike.
        limit: Upper bound of the result.
        index: Indexes the candidates of several servers together, by names that are told apart; one server's order is
            left as it is.
        together: Tools that were ranked as if they were one server's, best first, over all servers.
    """
    candidates: dict[_Key, Candidate] = {}
    rankings_of: dict[Hashable, list[_Key]] = {}
    for identity, items in answers:
        for item in items:
            # A server that is configured twice has one say: its second answer only adds what the first did not have.
            rankings_of.setdefault(identity, []).append((identity, item.key))
            candidates.setdefault((identity, item.key), item)
    keys = {(item.server, item.key): key for key, item in candidates.items()}
    as_one = {keys[item.server, item.key]: None for item in together if (item.server, item.key) in keys}
    others = [[key for key in ranking if key not in as_one] for ranking in rankings_of.values()]
    rankings = [ranking for ranking in (list(as_one), *others) if ranking]

    def rank_together(_: Sequence[_Key]) -> list[_Key]:
        named = {_among(item): key for key, item in candidates.items()}
        hits = index({name: candidates[key] for name, key in named.items()}).search(query)
        return [named[hit.name] for hit in hits]

    weights = fuse_and_rerank(rankings, rank_together) if len(rankings) > 1 else reciprocal_rank_fusion(rankings)
    fused = [replace(candidates[key], weight=weight) for key, weight in weights]
    return named_first(query, fused)[:limit]


def named_first(query: str, found: Iterable[Candidate]) -> list[Candidate]:
    """Return what was `found` in its order, but what the query names before all others.

    What it identifies goes before what merely has that name (draft: Exact Identifiers).
    """
    named = query.strip(WHITE_SPACE)

    def place(candidate: Candidate) -> int:
        if candidate.is_named(named):
            return 0
        return 1 if isinstance(candidate, FoundItem) and candidate.item.name == named else 2

    return sorted(found, key=place)


def _among(found: FoundTool | FoundItem[Any]) -> str:
    """Return what identifies a candidate among servers, in words that its server and key have."""
    return found.name if isinstance(found, FoundTool) else item_name(found.server, found.item)


def item_name(server: str, item: Any) -> str:
    """Return what identifies a resource, a template or a prompt among servers, in words that server and key have."""
    return f"{server}\n{key_of(item)}" if server else key_of(item)


def tools_index(ranker: Ranker) -> Callable[[Mapping[str, FoundTool]], ToolIndex]:
    """Return what indexes found tools for `merge`."""
    return lambda tools: ranker([_definition(found.tool, name) for name, found in tools.items()])


def items_index(primitive: Primitive[Any], ranker: Ranker) -> Callable[[Mapping[str, NamedItem[Any]]], PrimitiveIndex]:
    """Return what indexes resources, templates or prompts of several servers."""

    def index(items: Mapping[str, NamedItem[Any]]) -> PrimitiveIndex:
        definitions = {
            name: named.item.model_dump(by_alias=True, mode="json", exclude_none=True) | {primitive.key: name}
            for name, named in items.items()
        }
        return PrimitiveIndex(primitive, definitions, ranker)

    return index


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

    def forget(self, server: str) -> None:
        """Take out the tools of a server."""
        if server in self._listings:
            self.learn(server, ())
            del self._listings[server], self._tools[server]

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


class ItemsListedTogether:
    """The resources, templates or prompts of all servers that were listed, in one index.

    Args:
        primitive: What they are.
        ranker: Ranks them.
    """

    def __init__(self, primitive: Primitive[Any], ranker: Ranker) -> None:
        self._index_of = items_index(primitive, ranker)
        self._indexed: tuple[Mapping[str, Sequence[Any]], Mapping[str, NamedItem[Any]], PrimitiveIndex] | None = None

    def search(self, query: str, listings: Mapping[str, Sequence[Any]], limit: int) -> list[FoundItem[Any]]:
        """Return the best `limit` for `query` of what these servers list; equal listings are not indexed again."""
        if not any(listings.values()):
            return []
        kept = self._indexed
        if kept is None or kept[0] != listings:
            items = {
                item_name(server, item): NamedItem(qualified_name(server, item.name), server, item)
                for server, listing in listings.items()
                for item in listing
            }
            kept = self._indexed = dict(listings), items, self._index_of(items)
        _, items, index = kept
        found = (
            FoundItem(own.name, own.server, own.item, HitMetadata(score=hit.score, matched=list(hit.matched)))
            for hit in index.search(query)
            for own in (items[hit.name],)
        )
        return named_first(query, found)[:limit]
