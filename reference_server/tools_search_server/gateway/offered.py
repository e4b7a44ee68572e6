"""The tools of all servers under their public names, put together when somebody looks at them.

Many servers come and go at once when a gateway starts, or a machine behind it fails; nobody looks in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_types import Tool

from tools_search_server.base.paging import ToolPages
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["Offer", "Offered"]


@dataclass(frozen=True)
class Offer:
    """A tool as the gateway offers it, and where a call of it goes."""

    tool: Tool
    upstream: Upstream
    original_name: str


class Offered:
    """What the gateway offers.

    Args:
        servers: Names of the servers, in the order in which their tools are listed.
        page_size: Tools on one page of the listing.
    """

    def __init__(self, servers: Sequence[str], page_size: int) -> None:
        self._of_server: dict[str, Sequence[Offer]] = dict.fromkeys(servers, ())
        self._offers: Mapping[str, Offer] = {}
        self._pages = ToolPages([], page_size)
        self._page_size = page_size
        self._is_current = True

    def put(self, server: str, offers: Sequence[Offer]) -> bool:
        """Take what a server offers from now on; tell whether that is something else than before."""
        if list(offers) == list(self._of_server[server]):
            return False
        self._of_server[server] = offers
        self._is_current = False
        return True

    @property
    def offers(self) -> Mapping[str, Offer]:
        """The tools by public name, in the order of the listing: the same object until it changes."""
        self._put_together()
        return self._offers

    @property
    def pages(self) -> ToolPages:
        """The listing of all of them: the same object until it changes."""
        self._put_together()
        return self._pages

    def _put_together(self) -> None:
        if not self._is_current:
            # Qualified names are never equal.
            self._offers = {offer.tool.name: offer for offers in self._of_server.values() for offer in offers}
            tools = [offer.tool for offer in self._offers.values()]
            self._pages = ToolPages(tools, self._page_size, after=self._pages)
            self._is_current = True
