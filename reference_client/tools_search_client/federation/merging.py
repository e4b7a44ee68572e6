"""Merges the answers of many servers into one ranking.

Answers are fused by rank, never by score. The servers' own rankings do not say whose first tool fits better: with
seventy servers, seventy tools would be first. So the candidates are ranked once more, locally and all together, and
that ranking takes part in the fusion with the weight of two servers. It is the only one that compares tools from
different servers. If the servers know no more than the client, re-ranking alone would be as good; if they know better,
a weight of two still respects their order. `python -m benchmarks.retrieval` compares it with other methods.

The client cannot judge what a server has found by the content of its resources. In the common ranking, the server's own
rank places these items among definitions, by how much of the query the latter cover.

Listed servers take part as one: their tools are ranked in a single index, as a gateway does, so that it does not matter
which side ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from anyio import Lock, to_thread
from mcp_ext_search_primitives.index import CONTENTS, PrimitiveIndex
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank, reciprocal_rank_fusion
from mcp_ext_tools_search.types import EXTENSION_ID, WHITE_SPACE, HitMetadata, Primitive, published_metadata
from mcp_types import Tool
from tools_search_hosts import qualified_name
from tools_search_ranking import UpdatableIndex, never_silent

from tools_search_client.found import Found, FoundItem, FoundTool, NamedItem, key_of
from tools_search_client.known_tools import MANY, KnownTools, in_thread, known_tools
from tools_search_client.servers.listing import size_of

_Key: TypeAlias = tuple[Hashable, str]
"""The server's identity and the tool's own name; two equal keys are duplicates."""

Candidate = TypeVar("Candidate", bound=FoundItem[Any])

_OF_A_SEARCH: Final = ("score", "matched")

_MAX_REMEMBERED: Final = 4_096
_MAX_REMEMBERED_BYTES: Final = 16_384


def named_among_servers(server: str, found: Found) -> Found:
    """Return a server's answer with its tools under their full names."""
    tools = (
        replace(tool, name=qualified_name(server, tool.tool.name), server=server, mode=found.mode)
        for tool in found.tools
    )
    return replace(found, tools=tuple(tools))


def listed_among_servers(server: str, tools: Iterable[Tool]) -> Found:
    """Return what a server lists under full names, in its order."""
    return Found(tuple(FoundTool(qualified_name(server, tool.name), server, tool) for tool in tools), "list")


def merge(
    query: str,
    answers: Sequence[tuple[Hashable, Sequence[Candidate]]],
    *,
    limit: int,
    index: Callable[[Mapping[str, Candidate]], ToolIndex],
    together: Sequence[Candidate] = (),
) -> list[Candidate]:
    """Return the best `limit` tools (or other items) from all answers, each once, best first.

    If the same server is configured under two names, its tools count once, under the first name. Equal definitions on
    different servers are different tools, because the same program can serve two databases. A tool that the query names
    comes first, as on its own server.

    Args:
        query: The search query.
        answers: Each server's answer, best first, with full names; servers with equal configurations have the same
            identity.
        limit: Maximum number of results.
        index: Indexes the candidates of several servers together, by unambiguous names; a single server's order is
            kept.
        together: Tools from all listed servers, ranked as if they were one server's, best first.
    """
    candidates: dict[_Key, Candidate] = {}
    rankings_of: dict[Hashable, list[_Key]] = {}
    for identity, items in answers:
        for item in items:
            # A server that is configured twice counts once: its second answer only adds what the first did not have.
            rankings_of.setdefault(identity, []).append((identity, item.key))
            candidates.setdefault((identity, item.key), item)
    keys = {(item.server, item.key): key for key, item in candidates.items()}
    as_one = {keys[item.server, item.key]: None for item in together if (item.server, item.key) in keys}
    others = [[key for key in ranking if key not in as_one] for ranking in rankings_of.values()]
    rankings = [ranking for ranking in (list(as_one), *others) if ranking]

    def rank_together(_: Sequence[_Key]) -> list[_Key]:
        named = {_among(item): key for key, item in candidates.items()}
        found = {name: candidates[key] for name, key in named.items()}
        ready = index(found)
        if not isinstance(ready, PrimitiveIndex):
            return [named[hit.name] for hit in ready.search(query)]
        # Their definitions say nothing about these, and would put them after every item with one word of the query.
        ranks = {name: item.own_rank or 1 for name, item in found.items() if CONTENTS in (item.hit.matched or ())}
        return [named[hit.name] for hit in ready.search(query, claimed=ranks)]

    weights = fuse_and_rerank(rankings, rank_together) if len(rankings) > 1 else reciprocal_rank_fusion(rankings)
    fused = [replace(candidates[key], weight=weight) for key, weight in weights]
    return named_first(query, fused)[:limit]


def named_first(query: str, found: Iterable[Candidate]) -> list[Candidate]:
    """Return `found` in its order, but with the items that the query names first.

    An item identified by the query comes before one that merely has that name (draft: Exact Identifiers).
    """
    named = query.strip(WHITE_SPACE)

    def place(candidate: Candidate) -> int:
        if candidate.is_named(named):
            return 0
        return 1 if candidate.item.name == named else 2

    return sorted(found, key=place)


def _among(found: FoundItem[Any]) -> str:
    """Return an identifier for a candidate across servers, made of the words in its server's name and its key."""
    return found.name if isinstance(found, FoundTool) else item_name(found.server, found.item)


def item_name(server: str, item: Any) -> str:
    """Return an identifier for an item across servers, made of the words in its server's name and its key."""
    return f"{server}\n{key_of(item)}" if server else key_of(item)


def tools_index(ranker: Ranker) -> Callable[[Mapping[str, FoundTool]], ToolIndex]:
    """Return a function that indexes found tools for `merge`."""
    return lambda tools: ranker([_definition(found.tool, name) for name, found in tools.items()])


def items_index(primitive: Primitive[Any], ranker: Ranker) -> Callable[[Mapping[str, NamedItem[Any]]], PrimitiveIndex]:
    """Return a function that indexes several servers' resources, templates or prompts for `merge`."""

    def index(items: Mapping[str, NamedItem[Any]]) -> PrimitiveIndex:
        definitions = {
            name: named.item.model_dump(by_alias=True, mode="json", exclude_none=True) | {primitive.key: name}
            for name, named in items.items()
        }
        return PrimitiveIndex(primitive, definitions, ranker)

    return index


def _definition(tool: Tool, name: str) -> Tool:
    """Return `tool` under another name, without its server's search metadata, which is not part of the definition."""
    labels = published_metadata(tool.meta)
    if not labels:
        return tool.model_copy(update={"name": name})
    lasting = {member: value for member, value in labels.items() if member not in _OF_A_SEARCH}
    return tool.model_copy(update={"name": name, "meta": {**(tool.meta or {}), EXTENSION_ID: lasting}})


def is_large(tool: Tool) -> bool:
    """Return whether a definition is too large to remember with thousands of others: servers choose how large it is."""
    return size_of(tool) > _MAX_REMEMBERED_BYTES


class RememberingRanker:
    """A `Ranker` that gives the same results as another one, but costs less for tools it has already indexed.

    One index holds up to `_MAX_REMEMBERED` tools seen so far, except large ones. Tools that are not asked for are made
    invisible, which by the contract of an index changes no hit and no order. If the other ranker's indexes cannot be
    updated, nothing is saved.
    """

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self._seen: dict[str, Tool] = {}
        self._index: ToolIndex | None = None

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        """Index `tools`, which must have unique names."""
        new = [tool for tool in tools if self._seen.get(tool.name) != tool]
        if any(map(is_large, new)):
            return self._ranker(tools)
        if not isinstance(self._index, UpdatableIndex) or len(self._seen) + len(new) > _MAX_REMEMBERED:
            self._seen = {tool.name: tool for tool in tools}
            self._index = self._ranker(tools)
        elif new:
            self._index = self._index.updated([tool.name for tool in new if tool.name in self._seen], new)
            self._seen.update((tool.name, tool) for tool in new)
        return _Part(self._index, frozenset(tool.name for tool in tools))


@dataclass(frozen=True, slots=True)
class _Part:
    """A subset of an index's tools."""

    index: ToolIndex
    names: frozenset[str]

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return self.index.search(query, visible=self.names if visible is None else self.names.intersection(visible))


class ListedTogether:
    """All listed servers' tools in one index, the same as that of a gateway over these servers."""

    form: ClassVar = FoundTool

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self.index: Callable[[Mapping[str, Any]], ToolIndex] = tools_index(RememberingRanker(never_silent(ranker)))
        """Indexes found tools for `merge`."""
        self._listings: dict[str, tuple[Tool, ...]] = {}
        self._tools: dict[str, tuple[FoundTool, ...]] = {}
        """The listed tools under their full names, by server."""
        self._known: KnownTools | None = None
        self._learning = Lock()

    async def learn_in_thread(self, server: str, listing: tuple[Tool, ...], is_present: Callable[[], bool]) -> None:
        """Do as `learn` does, but index a long listing in a thread, so that the event loop goes on.

        `is_present` returns whether the server has not been removed meanwhile.
        """
        if len(listing) < MANY:
            self.learn(server, listing)
            return
        async with self._learning:
            known = self._known
            while is_present() and self._listings.get(server) is not listing:
                tools = self._tools
                learned, known = await in_thread(partial(self._with, server, listing, tools, known))
                # If others have been learned meanwhile, little is left to index.
                if is_present() and self._tools is tools:
                    self._listings[server], self._tools, self._known = listing, learned, known

    def learn(self, server: str, listing: tuple[Tool, ...]) -> None:
        """Add a server's tools; an unchanged listing is skipped.

        If the ranker raises because it cannot index one of the tools, nothing changes.
        """
        if self._listings.get(server) != listing:
            self._tools, self._known = self._with(server, listing, self._tools, self._known)
            self._listings[server] = listing

    def _with(
        self,
        server: str,
        listing: tuple[Tool, ...],
        tools: Mapping[str, tuple[FoundTool, ...]],
        known: KnownTools | None,
    ) -> tuple[dict[str, tuple[FoundTool, ...]], KnownTools]:
        changed = {**tools, server: listed_among_servers(server, listing).tools}
        return changed, known_tools(tuple(chain(*changed.values())), self._ranker, known)

    def forget(self, server: str) -> None:
        """Remove a server's tools."""
        if server in self._listings:
            self.learn(server, ())
            del self._listings[server], self._tools[server]

    async def search(self, query: str, servers: Mapping[str, int], limit: int) -> Sequence[FoundTool]:
        """Return the best `limit` tools for `query` on these servers, under their full names.

        `learn` must have been called for each server. Servers with the same number are the same server; their tools are
        found under the first one.
        """
        if self._known is None:
            return []
        firsts: dict[tuple[int, str], str] = {}
        for server, number in servers.items():
            for tool in self._tools[server]:
                firsts.setdefault((number, tool.item.name), tool.name)
        is_whole = len(firsts) == len(self._known.tools)
        return self._known.found(query, limit, among=None if is_whole else frozenset(firsts.values()))


class ItemsListedTogether:
    """All listed servers' resources, templates or prompts in one index.

    Args:
        primitive: The kind of item.
        ranker: Ranks the items.
    """

    form: ClassVar[type[FoundItem[Any]]] = FoundItem

    def __init__(self, primitive: Primitive[Any], ranker: Ranker) -> None:
        self.index: Callable[[Mapping[str, Any]], ToolIndex] = items_index(primitive, never_silent(ranker))
        """Indexes found items for `merge`."""
        self._index_of = items_index(primitive, ranker)
        self._listings: dict[str, Sequence[Any]] = {}
        self._indexed: tuple[Mapping[str, Sequence[Any]], Mapping[str, NamedItem[Any]], PrimitiveIndex] | None = None

    def learn(self, server: str, listing: Sequence[Any]) -> None:
        """Add a server's items, which the next search indexes."""
        self._listings[server] = listing

    async def learn_in_thread(self, server: str, listing: Sequence[Any], _: Callable[[], bool]) -> None:
        """Do as `learn` does."""
        self.learn(server, listing)

    def forget(self, server: str) -> None:
        """Remove a server's items."""
        self._listings.pop(server, None)

    async def search(self, query: str, servers: Mapping[str, int], limit: int) -> Sequence[FoundItem[Any]]:
        """Return the best `limit` items for `query` on these servers, as `ListedTogether.search` does."""
        firsts: dict[int, str] = {}
        for server, number in servers.items():
            firsts.setdefault(number, server)
        listings = {server: self._listings[server] for server in firsts.values()}
        # In a thread, because all items are indexed again whenever one of the listings has changed.
        return await to_thread.run_sync(self._ranked, query, listings, limit) if any(listings.values()) else []

    def _ranked(self, query: str, listings: Mapping[str, Sequence[Any]], limit: int) -> list[FoundItem[Any]]:
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
