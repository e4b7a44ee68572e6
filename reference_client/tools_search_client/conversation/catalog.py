"""What the servers offer, as far as it is known, and how a conversation asks for the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from mcp_ext_tools_search.for_models import is_for_model
from tools_search_hosts.toolsets import Toolset

from tools_search_client.found import FoundTool

__all__ = ["Catalog", "ServerOffer", "SourceAnswer", "ToolSource"]


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

    failure: str | None = None
    """Why its tools are not known."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What all servers offer, in the order of the configuration."""

    servers: tuple[ServerOffer, ...] = ()

    unassigned: tuple[FoundTool, ...] = ()
    """Tools of which nobody knows the server. They are always loaded, so that none is hidden unnoticed."""

    problems: tuple[str, ...] = ()
    """What the operator should mend, such as a toolset that names a tool in vain."""

    def server(self, name: str) -> ServerOffer | None:
        """Return what the server called `name` offers."""
        return next((offer for offer in self.servers if offer.name == name), None)

    @property
    def tools(self) -> tuple[FoundTool, ...]:
        """Every tool whose definition is at hand."""
        return (*(tool for offer in self.servers for tool in offer.tools or ()), *self.unassigned)

    @property
    def for_model(self) -> Catalog:
        """The same without the tools that are for the user interfaces of their servers alone (MCP Apps)."""
        servers = [offer if offer.tools is None else replace(offer, tools=_kept(offer.tools)) for offer in self.servers]
        return replace(self, servers=tuple(servers), unassigned=_kept(self.unassigned))

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The servers that are searched."""
        return tuple(offer.name for offer in self.servers if offer.tools is None)


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """What asking the servers came to."""

    tools: tuple[FoundTool, ...] = ()
    """Best first where they were searched."""

    closest: tuple[str, ...] = ()
    """Full names that may have been meant, where no tool has the name that was looked up."""

    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Servers that gave no answer, each with the reason."""


def _kept(tools: tuple[FoundTool, ...]) -> tuple[FoundTool, ...]:
    return tuple(tool for tool in tools if is_for_model(tool.tool))


class ToolSource(Protocol):
    """What a conversation asks for tools: `FederationSource` does it over layer 2, `ListedSource` without any server.

    No method raises because of a server; what goes wrong with one is told in what is returned.
    """

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return what is offered under `toolset` now; called before every turn, so it is to be cheap when repeated."""
        ...

    async def search(self, query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        """Return the best tools of these servers, which were never listed, for a query that is not blank.

        A tool that is named exactly as the query says comes before the others.
        """
        ...

    async def browse(self, server: str, /) -> SourceAnswer:
        """Return every tool of a server that was never listed."""
        ...

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        """Return the tools of these servers, which were never listed, whose name is `name`, bare or `server__tool`."""
        ...
