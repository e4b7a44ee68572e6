"""Tools that a host has listed itself: nothing is asked, everything is at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool
from tools_search_hosts import SEPARATOR, qualified_name
from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation.catalog import Catalog, ServerOffer, SourceAnswer
from tools_search_client.federation.reports import FederatedTool

__all__ = ["ListedSource"]


class ListedSource:
    """A `ToolSource` over tools that are at hand.

    Args:
        offers: The servers with all their tools; the host may replace them when its lists change.
        unassigned: Tools of which nobody knows the server.
    """

    def __init__(self, offers: Iterable[ServerOffer], unassigned: Iterable[FederatedTool] = ()) -> None:
        self.offers = tuple(offers)
        self.unassigned = tuple(unassigned)

    @classmethod
    def of(cls, tools: Mapping[str, Sequence[Tool]], *, deferred: Collection[str] = ()) -> ListedSource:
        """Return the source for the tools of each server, of which some are deferred."""
        return cls(
            ServerOffer(server, tuple(_tool(server, tool) for tool in own), defer_loading=server in deferred)
            for server, own in tools.items()
        )

    @classmethod
    def by_prefix(
        cls, tools: Iterable[Tool], servers: Sequence[str], *, deferred: Collection[str] = ()
    ) -> ListedSource:
        """Return the source for one list of tools whose names begin with the server's, as in `server_tool`.

        A tool that begins with the name of none of `servers` is always loaded, under the name that it has.
        """
        by_server: dict[str, list[FederatedTool]] = {server: [] for server in servers}
        unassigned: list[FederatedTool] = []
        for tool in tools:
            server = _server_of(tool.name, servers)
            if server is None:
                unassigned.append(replace(_tool("", tool), name=qualified_name("", tool.name)))
            else:
                by_server[server].append(_tool(server, tool, name=qualified_name("", tool.name)))
        offers = (ServerOffer(name, tuple(own), name in deferred) for name, own in by_server.items())
        return cls(offers, unassigned)

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return everything that the toolset shows; a tool without a server is shown unless there is a toolset."""
        shown: list[ServerOffer] = []
        for offer in self.offers:
            rule = toolset.rule(offer.name)
            if rule is not None:
                tools = tuple(tool for tool in offer.tools or () if rule.shows(tool.tool.name))
                shown.append(replace(offer, tools=tools))
        return Catalog(tuple(shown), self.unassigned if toolset.rules is None else ())

    async def search(self, query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        """Return nothing: no server is searched, since all were listed."""
        return SourceAnswer()

    async def browse(self, server: str, /) -> SourceAnswer:
        """Return nothing: all servers were listed."""
        return SourceAnswer()

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        """Return nothing: all servers were listed."""
        return SourceAnswer()


def _tool(server: str, tool: Tool, *, name: str | None = None) -> FederatedTool:
    return FederatedTool(name or qualified_name(server, tool.name), server, tool, HitMetadata(), "list")


def _server_of(name: str, servers: Iterable[str]) -> str | None:
    fitting = [server for server in servers if server and name.startswith((f"{server}{SEPARATOR}", f"{server}_"))]
    return max(fitting, key=len, default=None)
