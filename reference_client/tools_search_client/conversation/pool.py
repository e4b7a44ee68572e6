"""What is known of the tools at one moment, and what changed since the moment before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mcp_ext_tools_search.for_models import is_pinned, pinned_within_bounds
from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts.toolsets import EVERYTHING, Toolset

from tools_search_client.conversation.catalog import Catalog, ServerOffer, ToolSource
from tools_search_client.conversation.known_tools import KnownTools
from tools_search_client.conversation.partition import eager_tools
from tools_search_client.conversation.reach import Reach
from tools_search_client.conversation.statistics import TokenCounts
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.found import FoundTool

__all__ = ["Pool"]


class Pool:
    """The tools that a conversation can draw on.

    Args:
        source: Where tools come from.
        discovery: The host's choices.
        ranker: Ranks what is at hand.
        tokens: Counts definitions.
        reserved: Definitions of the host's own that are always sent.
    """

    def __init__(
        self, source: ToolSource, discovery: ToolDiscovery, ranker: Ranker, tokens: TokenCounts, reserved: int
    ) -> None:
        self._source = source
        self._discovery = discovery
        self._ranker = ranker
        self._tokens = tokens
        self._reserved = reserved
        self.most: int | None = None
        """The most definitions that are ever sent at once; `None` means any number."""
        self.toolset = EVERYTHING
        self.catalog = Catalog()
        self._indexed: tuple[FoundTool, ...] = ()
        self._known = KnownTools((), ranker)
        self._pins: dict[str, str] = {}
        self.reach = self._reach([])
        self.listed = (0, 0)
        """How many definitions and tokens the whole catalog is."""

    @property
    def needs_search(self) -> bool:
        """Whether there is anything that has to be found."""
        if not self._discovery.enabled:
            return self.excess > 0
        return bool(self.reach.deferred or self.catalog.unlisted)

    def learn(self, catalog: Catalog, toolset: Toolset) -> bool:
        """Take note of what is offered now, and tell whether anything changed.

        A server that fails for the moment is taken to offer what it offered before. What no model may see is left out.
        """
        catalog = catalog.for_model
        if toolset == self.toolset:
            catalog = replace(catalog, servers=tuple(map(self._not_forgotten, catalog.servers)))
        if (catalog, toolset) == (self.catalog, self.toolset):
            return False
        self.catalog, self.toolset = catalog, toolset
        self.listed = self._tokens.listed(catalog)
        return True

    def eager(self) -> tuple[FoundTool, ...]:
        """Return the tools that need not be found.

        Servers that pin others from turn to turn do not get more of them loaded than their bound, until the list is
        begun again.
        """
        tools = self.catalog.tools
        self._pins |= {tool.name: tool.server for tool in tools if is_pinned(tool.tool) and tool.name not in self._pins}
        return self._eager(self.most)

    def forget_pins(self) -> None:
        """Count the tools that servers pin from the start: the list is begun again."""
        self._pins.clear()

    @property
    def excess(self) -> int:
        """How many tools have to be found only because so many are not sent at once."""
        return 0 if self.most is None else len(self._eager(None)) - len(self._eager(self.most))

    def open(self, loaded: Collection[str]) -> None:
        """Make everything but what is `loaded` from the start something that a search finds."""
        self.reach = self._reach(loaded)

    def has_lost(self, tool: FoundTool) -> bool:
        """Tell whether the server of a tool was listed without it."""
        offer = self.catalog.server(tool.server)
        listed = offer is None or (offer.tools is not None and offer.failure is None)
        return listed and self.reach.known.get(tool.name) is None

    def shows(self, tool: FoundTool) -> bool:
        """Tell whether the toolset shows a tool."""
        rule = self.toolset.rule(tool.server)
        return rule is not None and rule.shows(tool.tool.name)

    def _eager(self, most: int | None) -> tuple[FoundTool, ...]:
        pinned = pinned_within_bounds((server, name) for name, server in self._pins.items())
        return eager_tools(
            self.catalog,
            self._discovery,
            tokens=self._tokens.of_tool,
            most=most,
            reserved=self._reserved,
            pinned=pinned,
        )

    def _reach(self, loaded: Collection[str]) -> Reach:
        tools = self.catalog.tools
        if tools != self._indexed:
            self._indexed, self._known = tools, KnownTools(tools, self._ranker)
        return Reach(
            self.catalog,
            self.toolset,
            self._known,
            frozenset(tool.name for tool in tools if tool.name not in loaded),
            self._discovery.max_search_results,
            self._source,
            self._ranker,
        )

    def _not_forgotten(self, offer: ServerOffer) -> ServerOffer:
        before = self.catalog.server(offer.name)
        if offer.failure is None or before is None:
            return offer
        return replace(before, failure=offer.failure)
