"""Sources of a conversation's tools: lists that a host provides, and a federation's servers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import NoneType
from typing import Final
from weakref import WeakKeyDictionary

from mcp_types import Tool
from tools_search_hosts import MAX_NAME_LENGTH, SEPARATOR, ServerEntry, qualified_name
from tools_search_hosts.toolsets import Rule, Toolset
from tools_search_ranking import FieldedRanker

from tools_search_client.conversation.catalog import MAX_BROWSED, Catalog, ServerOffer, SourceAnswer, ToolSource
from tools_search_client.errors import (
    AmbiguousToolError,
    UnknownToolError,
    refuse_single_name,
    require_kind,
    require_kinds,
)
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.federation.fanout import MAX_PARTIAL, Answer, Method, Question, in_parallel
from tools_search_client.federation.federation import Federation
from tools_search_client.federation.merging import listed_among_servers, named_among_servers
from tools_search_client.found import Found, FoundTool
from tools_search_client.known_tools import KnownTools
from tools_search_client.servers.host_connection import HostConnection
from tools_search_client.servers.server_tools import ServerTools
from tools_search_client.servers.supervision import SupervisedServer

_MAX_TOPICS: Final = 50

_MAX_SHOWN: Final = 4
_SHOWN: Final = WeakKeyDictionary[ServerTools, tuple[Sequence[Tool], dict[tuple[str, Rule], Found]]]()
"""Each server's latest list, and what a few rules show of it. While it is the same, all conversations have the same
objects, so that nothing has to be compared or counted again."""


class ListedSource(ToolSource):
    """A `ToolSource` over tools that the host already has. Conversations over the same one share an index of its tools.

    Args:
        offers: The servers with all their tools; the host can replace them when its lists change.
        unassigned: Tools whose server is unknown.
    """

    def __init__(self, offers: Iterable[ServerOffer], unassigned: Iterable[FoundTool] = ()) -> None:
        self.offers = tuple(offers)
        self.unassigned = tuple(unassigned)
        require_kinds("offers", self.offers, ServerOffer, instead="a `ServerOffer`: `ListedSource.of` takes tools")
        require_kinds("unassigned", self.unassigned, FoundTool, instead="a `FoundTool`")

    @classmethod
    def of(cls, tools: Mapping[str, Sequence[Tool]], *, deferred: Collection[str] = ()) -> ListedSource:
        """Create a source from each server's tools; the servers in `deferred` are deferred."""
        refuse_single_name("deferred", deferred)
        return cls(
            ServerOffer(server, listed_among_servers(server, own).tools, defer_loading=server in deferred)
            for server, own in tools.items()
        )

    @classmethod
    def by_prefix(
        cls, tools: Iterable[Tool], servers: Sequence[str], *, deferred: Collection[str] = ()
    ) -> ListedSource:
        """Create a source from one list of tools whose names start with their server's, as in `server_tool`.

        A tool that does not start with any of `servers` is always loaded, under its own name.
        """
        refuse_single_name("servers", servers)
        refuse_single_name("deferred", deferred)
        by_server: dict[str, list[FoundTool]] = {server: [] for server in servers}
        unassigned: list[FoundTool] = []
        for tool in tools:
            fitting = [server for server in servers if tool.name.startswith((f"{server}{SEPARATOR}", f"{server}_"))]
            server = max(fitting, key=len, default=None)
            own = unassigned if server is None else by_server[server]
            own.append(FoundTool(qualified_name("", tool.name), server or "", tool))
        offers = (ServerOffer(name, tuple(own), name in deferred) for name, own in by_server.items())
        return cls(offers, unassigned)

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return everything that the toolset shows; tools without a server are shown unless there is a toolset."""
        shown: list[ServerOffer] = []
        for offer in self.offers:
            rule = toolset.rule(offer.name)
            if rule is not None:
                tools = tuple(tool for tool in offer.tools or () if rule.shows(tool.tool.name))
                shown.append(replace(offer, tools=tools))
        return Catalog(tuple(shown), self.unassigned if toolset.rules is None else ())

    def has(self, server: str, /) -> bool:
        """Return whether the host's offers still include a server."""
        return any(offer.name == server for offer in self.offers)


class FederationSource:
    """A `ToolSource` over a `Federation`'s servers, for one conversation.

    A deferred server that supports search is not listed but searched when the model searches. All other servers are
    listed, cached for as long as `ServerTools` keeps the list, and searched locally with one ranking over all servers.
    A server that supports search is also searched if listing it takes too long.

    Args:
        federation: The servers.
        discovery: Which of them to list; defaults to the federation's configuration.
    """

    def __init__(self, federation: Federation, discovery: ToolDiscovery | None = None) -> None:
        require_kind("federation", federation, Federation, instead="a `Federation`: see `open_federation`")
        require_kind("discovery", discovery, ToolDiscovery, NoneType, instead="a `ToolDiscovery`")
        self.federation: Final = federation
        self.discovery: Final = discovery or federation.configuration.tool_discovery
        self._groups: dict[str, dict[str, None]] = {}
        self._surveyed: dict[str, SupervisedServer | HostConnection] = {}
        """The servers of the last survey. One that was removed meanwhile and added again is another server."""

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return the offers of the servers that the toolset shows; the others are not even connected."""
        entries = {entry.name: entry for entry in self.federation.configuration.servers}
        rules = {name: rule for name in entries if (rule := toolset.rule(name)) is not None}

        def shown(name: str, listed: Iterable[Tool]) -> Found:
            return listed_among_servers(name, (tool for tool in listed if rules[name].shows(tool.name)))

        async def ask(name: str, tools: ServerTools) -> Found:
            """Return every tool that the rule shows; for a searched server, nothing and the mode `search`."""
            rule = rules[name]
            if self._is_to_be_listed(entries[name], tools):
                listed = await tools.list()
                latest, kept = _SHOWN.get(tools) or ((), {})
                if latest is not listed:
                    _, kept = _SHOWN[tools] = listed, {}
                found = kept[name, rule] = kept.pop((name, rule), None) or shown(name, listed)
                for oldest in list(kept)[:-_MAX_SHOWN]:
                    del kept[oldest]
                return found
            if rule.excludes:
                return Found((), "search")
            # A small search for each tool that the rule names is as good as a listing, because no other tools are
            # shown.
            answers = await in_parallel(lambda tool: tools.search(tool, limit=1), sorted(rule.names))
            named = {hit.tool.name: hit for found in answers for hit in found.tools if hit.tool.name in rule.names}
            return named_among_servers(name, Found(tuple(named.values()), "list"))

        def method(name: str, tools: ServerTools) -> Method | None:
            if self._is_to_be_listed(entries[name], tools):
                return "tools/list"
            return None if rules[name].excludes else "tools/search"

        question = Question(
            ask,
            subject=lambda name: ("survey", self.discovery, rules[name]),
            method=method,
            partly=lambda name, listed: shown(name, listed[:MAX_PARTIAL]),
        )
        present = self._present(rules)
        surveyed = {name: self.federation.supervised[name] for name in present}
        answers = await self.federation.survey(question, servers=present)
        self._surveyed = surveyed
        offers = [self._offer(entries[answer.server], rules[answer.server], answer) for answer in answers]
        return Catalog(tuple(offers), problems=tuple(_missing_tools(toolset, rules, offers)))

    def changes(self) -> int:
        """Return how many changes the federation's servers have announced."""
        return self.federation.changes

    def has(self, server: str, /) -> bool:
        """Return whether the federation still has a server, and not another one with its name."""
        return server in self._surveyed and self.federation.supervised.get(server) is self._surveyed[server]

    async def search(self, query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        """Search the servers concurrently and return the results, fused by rank."""
        # Do not re-rank yet: the conversation re-ranks these together with its other results.
        found = await self.federation.search(query, limit=limit, servers=self._present(servers), reranks=False)
        for tool in found.tools:
            groups = self._groups.setdefault(tool.server, {})
            if tool.hit.group and len(tool.hit.group) <= MAX_NAME_LENGTH and len(groups) < _MAX_TOPICS:
                groups[tool.hit.group] = None
        unknown: Sequence[str] = ()
        if found.tools:  # only among the found tools: servers do not report which words their other tools mention
            unknown = KnownTools(found.tools, FieldedRanker()).unknown_words(query)
        return SourceAnswer(found.tools, failed=found.failed, unknown=tuple(unknown))

    async def browse(self, server: str, /) -> SourceAnswer:
        """List one server."""
        listing = await self.federation.list(servers=self._present([server]))
        return SourceAnswer(listing.tools, failed=listing.failed)

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        """Search the servers for a tool with this name, which the draft requires them to find."""
        try:
            found = await self.federation.find(name, servers=self._present(servers))
            return SourceAnswer((found,))
        except AmbiguousToolError as several:
            answers = [await self.look_up(full, servers=servers) for full in several.candidates]  # all known by now
            return SourceAnswer(tuple(tool for answer in answers for tool in answer.tools))
        except UnknownToolError as unknown:
            return SourceAnswer(closest=unknown.closest, failed=unknown.failed)

    def _present(self, servers: Collection[str]) -> list[str]:
        """Return the servers that the federation still has; one can be removed while a search runs."""
        return [name for name in servers if name in self.federation.supervised]

    def _is_to_be_listed(self, entry: ServerEntry, tools: ServerTools) -> bool:
        discovery, settings = self.discovery, tools.settings
        if tools.mode == "list" or not discovery.enabled:
            return True
        if discovery.auto:
            return settings is not None and settings.catalog_size is not None and settings.catalog_size <= MAX_BROWSED
        return not (discovery.defer_all or entry.defer_loading)

    def _offer(self, entry: ServerEntry, rule: Rule, answer: Answer[Found]) -> ServerOffer:
        offer = ServerOffer(entry.name, (), entry.defer_loading, entry.delegate)
        is_late = answer.failure is not None and answer.failure.kind == "timeout"
        # If only the list is late, the server can still be searched.
        is_slow_list = is_late and self.discovery.enabled and answer.tools is not None and answer.tools.mode == "search"
        if answer.tools is None or (answer.value is None and not is_slow_list):
            return replace(offer, failure=answer.failure)
        info, settings = answer.tools.info, answer.tools.settings
        offer = replace(offer, instructions=(info and info.description) or answer.tools.instructions or "")
        if answer.value is not None and answer.value.mode == "list" and not is_slow_list:
            return replace(offer, tools=answer.value.tools, failure=answer.failure)
        size = None if settings is None else settings.catalog_size
        topics = (settings.topics if settings else None) or list(self._groups.get(entry.name, {}))
        return replace(
            offer,
            tools=None,
            size=None if size is None else max(0, size - len(rule.names)),
            topics=tuple(topics[:_MAX_TOPICS]),
        )


def _missing_tools(toolset: Toolset, rules: dict[str, Rule], offers: list[ServerOffer]) -> list[str]:
    """Return a message for each tool that a toolset names but its server does not have."""
    lines: list[str] = []
    for offer in offers:
        if offer.tools is None or offer.failure is not None or rules[offer.name].excludes:
            continue
        known = {tool.tool.name for tool in offer.tools}
        for name in sorted(rules[offer.name].names - known):
            near = get_close_matches(name, known, n=1)
            meant = f"; the closest is {near[0]!r}" if near else ""
            lines.append(f"toolset {toolset.name!r}: server {offer.name!r} has no tool {name!r}{meant}")
    return lines
