"""A conversation's catalog, and the sources it comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Protocol

from mcp_ext_tools_search.client import is_for_model
from pydantic_core import PydanticSerializationError, to_json
from tools_search_hosts.toolsets import Toolset

from tools_search_client.errors import Failure
from tools_search_client.found import FoundTool

MAX_BROWSED: Final = 100
"""The most tools a server can have to be loaded as a whole; more would fill the context that deferral saves."""


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
        offered = (self.servers, self.unassigned)
        try:
            text = to_json(offered)  # for thousands of tools, many times faster than `repr`
        except PydanticSerializationError:  # an unpaired surrogate, which a host's own list can have
            text = repr(offered).encode(errors="surrogatepass")
        return hashlib.sha256(text).hexdigest()

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

    def changes(self) -> int:
        """Return how many changes of what is offered are known, without asking a server.

        If there are more than at the last survey, a conversation surveys again before it answers its model's next
        search, or call of a tool that is not loaded.
        """
        return 0

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
