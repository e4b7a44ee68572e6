"""What each toolset shows of a gateway: what its callers can list, find, call and are told about.

Every answer to a caller is made from one `View`, so that nothing of what is hidden enters it. All views are searched in
one index, with statistics over their own tools alone (`Views.catalog`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import anyio
from mcp.server import ServerRequestContext
from mcp_ext_tools_search.for_models import is_for_model, is_pinned, pinned_within_bounds
from mcp_ext_tools_search.types import ServerSettings
from mcp_types import Tool
from tools_search_hosts import own_name, split_candidates
from tools_search_hosts.toolsets import Rule, Toolset
from tools_search_ranking.cache import CatalogSnapshot

from tools_search_server.access.callers import HTTP_CALLER, caller_of, name_of_caller
from tools_search_server.access.configuration import Access
from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway import orientation
from tools_search_server.gateway.gateway import Gateway, Offer
from tools_search_server.gateway.public_names import with_public_names
from tools_search_server.upstreams.delegated_search import DelegatedSearch
from tools_search_server.upstreams.state import State
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["SeenUpstream", "View", "Views"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeenUpstream:
    """A server as the callers of one toolset see it."""

    upstream: Upstream
    rule: Rule
    is_for_model: bool = False
    """Whether what is shown is meant for a model, so that tools for apps alone do not count."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.upstream.name

    @property
    def summary(self) -> str:
        """What it says it is for, in one short line; nothing where a part is hidden, of which it may speak."""
        return with_public_names(self.upstream.summary, self.name, self.tools) if self.rule.shows_all else ""

    @property
    def instructions(self) -> str:
        """What it says of itself to models; nothing where a part is hidden, of which it may speak."""
        return with_public_names(self.upstream.instructions, self.name, self.tools) if self.rule.shows_all else ""

    @property
    def state(self) -> State:
        """How it is now."""
        return self.upstream.state

    @property
    def tool_count(self) -> int | None:
        """About how many tools are shown; `None` where that is not known."""
        if self.rule.shows_all and not (self.is_for_model and self.upstream.delegated is None):
            return self.upstream.tool_count  # without a look at each of what may be many
        return len(self.tools)

    @property
    def settled(self) -> anyio.Event:
        """Set once it has been reached or has failed."""
        return self.upstream.settled

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that are shown, by the names that the server gives them."""
        tools = self.upstream.tools
        if not self.rule.shows_all:
            tools = {name: tool for name, tool in tools.items() if self.rule.shows(name)}
        return {name: tool for name, tool in tools.items() if is_for_model(tool)} if self.is_for_model else tools


@dataclass(frozen=True)
class View:
    """One state of what the callers of a toolset see."""

    upstreams: Sequence[SeenUpstream]
    offers: Mapping[str, Offer]
    """By public name, in the order of the listing."""
    pages: ToolPages

    @property
    def remotes(self) -> Sequence[tuple[SeenUpstream, DelegatedSearch]]:
        """The servers whose tools stand in no index; each of them is seen as a whole."""
        found = [(seen, remote) for seen in self.upstreams if (remote := seen.upstream.delegated) is not None]
        return [(seen, remote) for seen, remote in found if seen.rule.shows_all]

    @property
    def tool_count(self) -> int | None:
        """About how many tools are seen; `None` where that is not known."""
        counts = [remote.size for _, remote in self.remotes]
        return None if None in counts else len(self.offers) + sum(count or 0 for count in counts)

    @property
    def contents(self) -> object:
        """Something that is equal as long as lists and definitions are."""
        return self.offers, [(remote, remote.changes) for _, remote in self.remotes]

    @cached_property
    def for_model(self) -> View:
        """What of it may stand before a model: everything but the tools that are for the apps of their servers alone.

        Lists, counts and texts that are made for a model are made of this one; `tools/list` and `tools/search` are for
        hosts, which may have such apps, and show the whole view.
        """
        offers = {name: offer for name, offer in self.offers.items() if is_for_model(offer.tool)}
        if len(offers) == len(self.offers):
            return self
        seen = [replace(server, is_for_model=True) for server in self.upstreams]
        return View(seen, offers, self.pages.part(offers))

    @cached_property
    def pinned(self) -> Mapping[str, Offer]:
        """The tools that a model always has because their servers ask for that, by public name, within bounds."""
        offers = self.for_model.offers
        asked = ((offer.upstream.name, name) for name, offer in offers.items() if is_pinned(offer.tool))
        return {name: offers[name] for name in pinned_within_bounds(asked)}

    def unavailable(self, name: str) -> Upstream | None:
        """Return the server that a name belongs to, if it is one that is not ready."""
        down = {seen.name: seen.upstream for seen in self.upstreams if not seen.state.is_usable}
        readings = split_candidates(name, list(down))
        return down[readings[0][0]] if readings else None


class Views:
    """The views of a gateway, by toolset.

    Args:
        gateway: Whose tools these are.
        access: Who sees what.
    """

    def __init__(self, gateway: Gateway, access: Access) -> None:
        self._gateway = gateway
        self._access = access
        self._of_toolset: dict[str, tuple[Mapping[str, Offer], Toolset, View]] = {}
        self._catalogs: dict[str, tuple[ToolPages, CatalogSnapshot]] = {}
        self._reported: set[tuple[str, str]] = set()

    def toolset_of(self, ctx: ServerRequestContext[Any, Any]) -> Toolset:
        """Return the toolset of the caller of `ctx`.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
        """
        principal = caller_of(ctx, self._access.principals)
        return self._access.toolset if principal is None else principal.toolset

    def owner_of(self, ctx: ServerRequestContext[Any, Any]) -> str | None:
        """Return the name of the principal whose session that of `ctx` is, for `of_owner`.

        Raises:
            MCPError: As `toolset_of`.
        """
        return name_of_caller(ctx, self._access.principals)

    def of_owner(self, owner: str | None) -> tuple[Toolset, View] | None:
        """Return what the owner of a session sees now, and by which toolset; `None` for one who may see nothing."""
        toolset = self._access.toolset_of(owner)
        return None if toolset is None else (toolset, self.of(toolset))

    def current(self) -> View:
        """Return what the caller sees whose request this task is answering."""
        principal = HTTP_CALLER.get()
        return self.of(self._access.toolset if principal is None else principal.toolset)

    def settings(self) -> ServerSettings:
        """Say to that caller what can be searched."""
        view = self.current()
        # Draft, Server Settings: where callers see different numbers of tools, none is told. To a principal it is not
        # told at all: whether it is would move with the toolsets of the others.
        return orientation.settings(view.upstreams, None if HTTP_CALLER.get() is not None else view.tool_count)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return what a tool takes, or `None` for a name that this caller is not offered."""
        view = self.current()
        if (offer := view.offers.get(name)) is not None:
            return offer.tool.input_schema
        for seen, remote in view.remotes:
            own = own_name(seen.name, name)
            if own is not None and (tool := remote.seen(own)) is not None:
                return tool.input_schema
        return None

    def seen_by(self, ctx: ServerRequestContext[Any, Any]) -> View:
        """Return what the caller of `ctx` sees now.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
        """
        return self.of(self.toolset_of(ctx))

    def of(self, toolset: Toolset) -> View:
        """Return what a toolset shows now."""
        made_of, made_for, view = self._of_toolset.get(toolset.name, (None, None, None))
        if view is None or made_of is not self._gateway.offers or made_for != toolset:
            view = self._view(toolset, view)
            self._of_toolset[toolset.name] = self._gateway.offers, toolset, view
        return view

    def catalog(self, protocol_version: str) -> CatalogSnapshot:
        """Return the tools of all views as they stand in a listing of that version."""
        made_of, catalog = self._catalogs.get(protocol_version, (None, None))
        if catalog is None or made_of is not self._gateway.pages:
            catalog = CatalogSnapshot(self._gateway.pages.wire(protocol_version), after=catalog)
            self._catalogs[protocol_version] = self._gateway.pages, catalog
        return catalog

    def _view(self, toolset: Toolset, before: View | None) -> View:
        gateway = self._gateway
        seen = [SeenUpstream(up, rule) for up in gateway.upstreams if (rule := toolset.rule(up.name)) is not None]
        rules = {server.name: server.rule for server in seen}
        offers = {
            name: offer
            for name, offer in gateway.offers.items()
            if (rule := rules.get(offer.upstream.name)) is not None and rule.shows(offer.original_name)
        }
        self._report_unknown(toolset, seen)
        if len(offers) == len(gateway.offers):
            return View(seen, offers, gateway.pages)
        if before is not None and before.offers == offers:
            return View(seen, offers, before.pages)
        return View(seen, offers, gateway.pages.part(offers))

    def _report_unknown(self, toolset: Toolset, seen: Sequence[SeenUpstream]) -> None:
        """Warn once of names that a server has no tool for: what they were meant to hide is shown."""
        for server in seen:
            unknown = sorted(server.rule.names - server.upstream.tools.keys())
            place = toolset.name, server.name
            if unknown and server.state.is_usable and place not in self._reported:
                self._reported.add(place)
                logger.warning("toolset %r names tools that %s does not have: %s", *place, unknown)
