"""A conversation's catalog, the sources it comes from, and an index of the known tools."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Protocol
from weakref import WeakKeyDictionary

from mcp_ext_tools_search.client import is_for_model
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from tools_search_hosts import SEPARATOR
from tools_search_hosts.names import tool_among_servers
from tools_search_hosts.toolsets import Toolset
from tools_search_ranking import UpdatableIndex, unknown_words
from tools_search_ranking.hits import names_of

from tools_search_client.errors import Failure
from tools_search_client.found import FoundTool

MAX_BROWSED: Final = 100
"""The most tools a server can have to be loaded as a whole; more would fill the context that deferral saves."""

_CLOSEST: Final = 3


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """What a server offers under the current toolset."""

    name: str

    tools: tuple[FoundTool, ...] | None
    """Every tool, in the server's order; `None` if the server is searched and was never listed."""

    defer_loading: bool = False
    """Whether its tools are withheld from the model until a search finds them."""

    delegate: Literal["turn"] | None = None
    """`turn`: it can be searched with the user's own text."""

    size: int | None = None
    """The approximate number of tools, for a server that was never listed."""

    topics: tuple[str, ...] = ()
    """Topics of a server that was never listed: as it states them, or the groups of tools found there."""

    instructions: str = ""
    """The server's description or instructions."""

    failure: Failure | None = None
    """Why its tools are unknown."""

    def only(self, keeps: Callable[[FoundTool], bool]) -> ServerOffer:
        """Return the offer with only the tools for which `keeps` returns true."""
        return self if self.tools is None else replace(self, tools=tuple(filter(keeps, self.tools)))


@dataclass(frozen=True)
class Catalog:
    """What all servers offer, in the order of the configuration."""

    servers: tuple[ServerOffer, ...] = ()

    unassigned: tuple[FoundTool, ...] = ()
    """Tools whose server is unknown. They are always loaded, so that none is hidden unnoticed."""

    problems: tuple[str, ...] = ()
    """Configuration problems for the operator, such as a toolset that names a nonexistent tool."""

    def server(self, name: str) -> ServerOffer | None:
        """Return the offer of the server named `name`."""
        return next((offer for offer in self.servers if offer.name == name), None)

    @cached_property
    def tools(self) -> tuple[FoundTool, ...]:
        """Every tool whose definition is known."""
        return (*(tool for offer in self.servers for tool in offer.tools or ()), *self.unassigned)

    @cached_property
    def unlisted(self) -> tuple[str, ...]:
        """The names of the servers that are searched, not listed."""
        return tuple(offer.name for offer in self.servers if offer.tools is None)

    @cached_property
    def digest(self) -> str:
        """A digest that is the same for equal catalogs in every process."""
        return hashlib.sha256(repr((self.servers, self.unassigned)).encode(errors="surrogatepass")).hexdigest()

    @property
    def for_model(self) -> Catalog:
        """The catalog without tools meant only for their servers' user interfaces (MCP Apps)."""
        unassigned = tuple(tool for tool in self.unassigned if is_for_model(tool.tool))
        servers = tuple(offer.only(lambda tool: is_for_model(tool.tool)) for offer in self.servers)
        return replace(self, servers=servers, unassigned=unassigned)


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The servers' answer to one question."""

    tools: tuple[FoundTool, ...] = ()
    """Best first if they were searched."""

    closest: tuple[str, ...] = ()
    """Full names of similar tools, if no tool has the name that was looked up."""

    failed: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Servers that did not answer, each with the reason."""

    unknown: tuple[str, ...] = ()
    """Words of the query, case folded, that none of `tools` mentions, if the source knows them."""


class ToolSource(Protocol):
    """Where a conversation gets tools from: `FederationSource` asks a `Federation`, `ListedSource` no server at all.

    Methods do not raise server errors; server failures are part of the answers. A source that lists every server only
    needs to implement `survey`.
    """

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return what is currently offered under `toolset`. Called before every turn, so repeating it must be cheap."""
        ...

    def has(self, server: str, /) -> bool:
        """Return whether a server of the last survey is still there, without asking it.

        A conversation forgets a server that is not before it answers its model, even in the middle of a turn.
        """
        return True

    async def search(self, query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        """Return the best tools on these never-listed servers for a query that is not blank.

        A tool whose name equals the query comes first.
        """
        return SourceAnswer()

    async def browse(self, server: str, /) -> SourceAnswer:
        """Return all tools of a server that was never listed."""
        return SourceAnswer()

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        """Return the tools on these never-listed servers that are named `name`, bare or as `server__tool`.

        Each turn looks up the loaded tools, so remember them until the server's list changes.
        """
        return SourceAnswer()


def known_tools(tools: tuple[FoundTool, ...], ranker: Ranker, before: KnownTools) -> KnownTools:
    """Return an index of `tools`: `before`, or the latest one by `ranker`, if that has the same tools, or a new one.

    So conversations over the same servers share one, if it can be updated. A new one is made from `before`, or if that
    is empty, from the latest one, and indexes only the differences.
    """
    if before.tools == tools:
        return before
    try:
        latest = _LATEST.get(ranker)
    except TypeError:  # it cannot be hashed or weakly referenced
        return KnownTools(tools, ranker, before=before)
    if latest is not None and latest.tools == tools:
        return latest
    made = KnownTools(tools, ranker, before=before if before.tools else latest)
    if made.is_updatable:  # other indexes may refer to their ranker, which could then never be freed
        _LATEST[ranker] = made
    return made


class KnownTools:
    """The known tools of all servers, indexed for lookup and search. It is immutable.

    Args:
        tools: The tools, with unique full names.
        ranker: Indexes the tools.
        before: An earlier index by the same ranker. If its index can be updated, only changes are indexed.
    """

    def __init__(self, tools: Iterable[FoundTool], ranker: Ranker, *, before: KnownTools | None = None) -> None:
        self.tools: Final = tuple(tools)
        self._tools = {tool.name: tool for tool in self.tools}
        self._spelled: dict[str, list[FoundTool]] = {}
        for tool in self._tools.values():
            for spelling in spellings(tool):
                self._spelled.setdefault(spelling, []).append(tool)
        if before is None or not isinstance(before._index, UpdatableIndex):
            self._index = floored(ranker)(self._definitions(self._tools))
            return
        known = {name: (tool.server, tool.tool) for name, tool in before._tools.items()}
        new = [name for name, tool in self._tools.items() if known.pop(name, None) != (tool.server, tool.tool)]
        changed = [name for name in new if name in before._tools]
        self._index = before._index.updated([*known, *changed], self._definitions(new))

    @property
    def is_updatable(self) -> bool:
        """Whether an index with a few changed tools can be made from this one."""
        return isinstance(self._index, UpdatableIndex)

    def _definitions(self, names: Iterable[str]) -> list[Tool]:
        """Return tools under their unique full names, in the form that a gateway over the same servers ranks."""
        own = ((name, self._tools[name]) for name in names)
        return [tool_among_servers(tool.server, tool.tool).model_copy(update={"name": name}) for name, tool in own]

    def get(self, name: str) -> FoundTool | None:
        """Return the tool with this full name."""
        return self._tools.get(name)

    def named(self, name: str, servers: Collection[str] | None = None) -> list[FoundTool]:
        """Return the tools that `name` means, on these servers or all: bare, `server__tool` or `server:tool`.

        A full name takes precedence over bare names.
        """
        full = self._tools.get(name)
        meant = [full] if full else self._spelled.get(name, [])
        return [tool for tool in meant if servers is None or tool.server in servers]

    def closest(self, name: str, servers: Collection[str] | None = None) -> list[str]:
        """Return names of similar tools: close spellings first, then tools that match its words."""
        prefixes = {f"{tool.server}{mark}" for tool in self._tools.values() if tool.server for mark in (SEPARATOR, ":")}
        # Without the server's name, by which all its tools would be similar.
        bare = name.removeprefix(max(filter(name.startswith, prefixes), key=len, default=""))
        among = {
            tool.tool.name: full for full, tool in self._tools.items() if servers is None or tool.server in servers
        }
        near = [among[match] for match in difflib.get_close_matches(bare, among, n=_CLOSEST)]
        near += [tool.name for tool in self.ranked(name, servers=servers)[:_CLOSEST]]
        return list(dict.fromkeys(near))[:_CLOSEST]

    def ranked(
        self, query: str, *, among: Collection[str] | None = None, servers: Collection[str] | None = None
    ) -> Sequence[FoundTool]:
        """Return the tools that fit `query`, best first, without a limit; a blank query finds nothing.

        `among` (full names) and `servers` restrict the tools; `None` means no restriction.
        """
        if not query.strip():
            return []
        visible = among
        if servers is not None:
            own = (name for name, tool in self._tools.items() if tool.server in servers)
            visible = {name for name in own if among is None or name in among}
        return [self._tools[name] for name in names_of(self._index.search(query, visible=visible))]

    def unknown_words(self, query: str, servers: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no tool on these servers (all by default) mentions."""
        own = {name for name, tool in self._tools.items() if servers is None or tool.server in servers}
        return unknown_words(self._index, query, visible=own)


_LATEST: Final = WeakKeyDictionary[Ranker, KnownTools]()
"""Each ranker's latest index. All conversations of a federation have its ranker."""


def spellings(tool: FoundTool) -> set[str]:
    """Return the names that refer to a tool: its full name, its bare name, `server__tool` and `server:tool`."""
    bare = tool.tool.name
    return {tool.name, bare, f"{tool.server}__{bare}", f"{tool.server}:{bare}"} if tool.server else {tool.name, bare}
