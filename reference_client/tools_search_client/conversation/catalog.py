"""The catalog of a conversation, the sources that it comes from, and an index of the tools at hand."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Protocol

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
"""The largest server that is loaded as a whole; a larger one would fill the context that deferral is to save."""

_CLOSEST: Final = 3


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """What one server offers under the toolset of the moment."""

    name: str

    tools: tuple[FoundTool, ...] | None
    """Every tool, in the server's order; `None` where the server is searched and was never listed."""

    defer_loading: bool = False
    """Whether its tools are kept from the model until they are found."""

    delegate: Literal["turn"] | None = None
    """`turn`: it may be searched with the user's own text."""

    size: int | None = None
    """About how many tools a server has that was never listed."""

    topics: tuple[str, ...] = ()
    """What can be found on a server that was never listed: as it says, or groups of tools found there."""

    instructions: str = ""
    """What the server says of itself and of its use."""

    failure: Failure | None = None
    """Why its tools are not known."""


@dataclass(frozen=True)
class Catalog:
    """What all servers offer, in the order of the configuration."""

    servers: tuple[ServerOffer, ...] = ()

    unassigned: tuple[FoundTool, ...] = ()
    """Tools of which nobody knows the server. They are always loaded, so that none is hidden unnoticed."""

    problems: tuple[str, ...] = ()
    """What the operator should correct, such as a toolset that names a tool in vain."""

    def server(self, name: str) -> ServerOffer | None:
        """Return what the server called `name` offers."""
        return next((offer for offer in self.servers if offer.name == name), None)

    @cached_property
    def tools(self) -> tuple[FoundTool, ...]:
        """Every tool whose definition is at hand."""
        return (*(tool for offer in self.servers for tool in offer.tools or ()), *self.unassigned)

    @cached_property
    def unlisted(self) -> tuple[str, ...]:
        """The servers that are searched."""
        return tuple(offer.name for offer in self.servers if offer.tools is None)

    @cached_property
    def digest(self) -> str:
        """The same text for equal catalogs, in every process."""
        return hashlib.sha256(repr((self.servers, self.unassigned)).encode(errors="surrogatepass")).hexdigest()

    @property
    def for_model(self) -> Catalog:
        """The same without the tools that are for the user interfaces of their servers alone (MCP Apps)."""
        servers = [offer if offer.tools is None else replace(offer, tools=_kept(offer.tools)) for offer in self.servers]
        return replace(self, servers=tuple(servers), unassigned=_kept(self.unassigned))


def _kept(tools: tuple[FoundTool, ...]) -> tuple[FoundTool, ...]:
    return tuple(tool for tool in tools if is_for_model(tool.tool))


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The servers' answer to one question."""

    tools: tuple[FoundTool, ...] = ()
    """Best first where they were searched."""

    closest: tuple[str, ...] = ()
    """Full names that may have been meant, where no tool has the name that was looked up."""

    failed: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Servers that gave no answer, each with the reason."""

    unknown: tuple[str, ...] = ()
    """Words of the query, case folded, that none of `tools` mentions, where the source can say that."""


class ToolSource(Protocol):
    """What a conversation asks for tools: `FederationSource` asks a `Federation`, `ListedSource` no server at all.

    No method raises because of a server; the failures of servers are part of the answers. A source that lists every
    server has to answer the first question alone.
    """

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return what is offered under `toolset` now; called before every turn, so it is to be cheap when repeated."""
        ...

    async def search(self, query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        """Return the best tools of these servers, which were never listed, for a query that is not blank.

        A tool that is named exactly as the query says comes before the others.
        """
        return SourceAnswer()

    async def browse(self, server: str, /) -> SourceAnswer:
        """Return every tool of a server that was never listed."""
        return SourceAnswer()

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        """Return the tools of these servers, which were never listed, whose name is `name`, bare or `server__tool`."""
        return SourceAnswer()


class KnownTools:
    """The tools whose definitions are at hand, of all servers together, ready to be looked up and searched.

    Args:
        tools: With full names, each once.
        ranker: Indexes them.
        before: Those that the same ranker indexed before: only what differs is indexed again, where it can do that.
    """

    def __init__(self, tools: Iterable[FoundTool], ranker: Ranker, *, before: KnownTools | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
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

    def _definitions(self, names: Iterable[str]) -> list[Tool]:
        """Return tools under their full names, which are unique, and as a gateway over the same servers ranks them."""
        own = ((name, self._tools[name]) for name in names)
        return [tool_among_servers(tool.server, tool.tool).model_copy(update={"name": name}) for name, tool in own]

    def get(self, name: str) -> FoundTool | None:
        """Return the tool with this full name."""
        return self._tools.get(name)

    def named(self, name: str, servers: Collection[str] | None = None) -> list[FoundTool]:
        """Return the tools that `name` means, of these servers or of all: bare, as `server__tool` or `server:tool`.

        The full name of one tool takes precedence over the bare name of others.
        """
        full = self._tools.get(name)
        meant = [full] if full else self._spelled.get(name, [])
        return [tool for tool in meant if servers is None or tool.server in servers]

    def closest(self, name: str, servers: Collection[str] | None = None) -> list[str]:
        """Return the names of the tools that may have been meant: nearly spelled like it, or of the same words."""
        prefixes = {f"{tool.server}{mark}" for tool in self._tools.values() if tool.server for mark in (SEPARATOR, ":")}
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
        """Return the tools that fit `query`, best first, without a limit; nothing fits a blank one.

        Only tools with these full names, and of these servers, may be found; `None` stands for all.
        """
        if not query.strip():
            return []
        visible = among
        if servers is not None:
            own = (name for name, tool in self._tools.items() if tool.server in servers)
            visible = {name for name in own if among is None or name in among}
        return [self._tools[name] for name in names_of(self._index.search(query, visible=visible))]

    def unknown_words(self, query: str, servers: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no tool of these servers, or of all, mentions."""
        own = {name for name, tool in self._tools.items() if servers is None or tool.server in servers}
        return unknown_words(self._index, query, visible=own)


def spellings(tool: FoundTool) -> set[str]:
    """Return the names that a tool may be called by: bare, and with its server as in full names and in answers."""
    bare = tool.tool.name
    return {tool.name, bare, f"{tool.server}__{bare}", f"{tool.server}:{bare}"} if tool.server else {tool.name, bare}
