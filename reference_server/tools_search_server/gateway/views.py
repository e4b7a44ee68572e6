"""Views: the parts of a gateway that the callers with each toolset see.

Every answer to a caller is built from one `View`, so it contains nothing hidden. All views share one search index, but
each search uses statistics over its view's tools only (`IndexCache`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mcp.server import ServerRequestContext
from mcp_ext_tools_search.client import is_for_model
from mcp_types import Tool
from tools_search_hosts import split_candidates
from tools_search_hosts.names import is_pinned, pinned_within_bounds
from tools_search_hosts.toolsets import Rule, Toolset

from tools_search_server.access.principals import HTTP_CALLER
from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway.gateway import ExposedTool, Gateway
from tools_search_server.gateway.public_names import with_public_names
from tools_search_server.upstreams.delegated_search import DelegatedSearch
from tools_search_server.upstreams.state import State
from tools_search_server.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

Ctx = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class VisibleServer:
    """An upstream as the callers with one toolset see it."""

    upstream: Upstream
    rule: Rule
    is_for_model: bool = False
    """Whether tools that are only for the server's user interface are excluded."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.upstream.name

    @property
    def summary(self) -> str:
        """Its own short description; empty if part of the server is hidden, since the text may mention that part."""
        return self._public(self.upstream.greeting.summary)

    @property
    def instructions(self) -> str:
        """Its own instructions for models; empty if part of the server is hidden, since they may mention that part."""
        return self._public(self.upstream.greeting.instructions)

    def _public(self, text: str) -> str:
        return with_public_names(text, self.name, self.tools) if self.rule.shows_all else ""

    @property
    def state(self) -> State:
        """Its state."""
        return self.upstream.state

    @property
    def tool_count(self) -> int | None:
        """The approximate number of visible tools; `None` if unknown."""
        if self.rule.shows_all and not (self.is_for_model and self.upstream.delegated is None):
            return self.upstream.tool_count  # skip the loop over all tools, which may be many
        return len(self.tools)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The visible tools, by their names at the server."""
        tools = self.upstream.tools
        if not self.rule.shows_all:
            tools = {name: tool for name, tool in tools.items() if self.rule.shows(name)}
        return {name: tool for name, tool in tools.items() if is_for_model(tool)} if self.is_for_model else tools


@dataclass(frozen=True, eq=False)
class View:
    """A snapshot of everything that the callers with a toolset see."""

    upstreams: Sequence[VisibleServer]
    tools: Mapping[str, ExposedTool]
    """The indexed tools by public name, in the order of the listing."""
    pages: ToolPages

    @property
    def delegated(self) -> Sequence[tuple[VisibleServer, DelegatedSearch]]:
        """The fully visible upstreams to which searches are delegated because they are not indexed here."""
        shown = [seen for seen in self.upstreams if seen.rule.shows_all]
        return [(seen, delegate) for seen in shown if (delegate := seen.upstream.delegated) is not None]

    def delegated_named(self, name: str) -> list[tuple[VisibleServer, DelegatedSearch]]:
        """Return the members of `delegated` that may have a tool with this public name, the likeliest first."""
        by_name = {seen.name: (seen, delegate) for seen, delegate in self.delegated}
        return [by_name[server] for server, _ in split_candidates(name, by_name)]

    @property
    def tool_count(self) -> int | None:
        """The approximate number of visible tools; `None` if unknown."""
        counts = [delegate.size for _, delegate in self.delegated]
        return None if None in counts else len(self.tools) + sum(count or 0 for count in counts)

    @property
    def contents(self) -> object:
        """A value that compares equal as long as lists and definitions are unchanged."""
        return self.tools, [(delegate, delegate.changes) for _, delegate in self.delegated]

    @cached_property
    def for_model(self) -> View:
        """The view without tools that are only for their server's user interface.

        Lists, counts and texts for models are built from it. `tools/list` and `tools/search` show hosts the whole view,
        since a host may render such an interface.
        """
        tools = {name: exposed for name, exposed in self.tools.items() if is_for_model(exposed.tool)}
        if len(tools) == len(self.tools):
            return self
        return View([replace(seen, is_for_model=True) for seen in self.upstreams], tools, self.pages.part(tools))

    @cached_property
    def pinned(self) -> Mapping[str, ExposedTool]:
        """The tools that their servers ask to be always available to models, by public name, within limits."""
        tools = self.for_model.tools
        asked = ((exposed.upstream.name, name) for name, exposed in tools.items() if is_pinned(exposed.tool))
        return {name: tools[name] for name in pinned_within_bounds(asked)}

    def unavailable(self, name: str) -> Upstream | None:
        """Return the upstream that a public name belongs to, if that upstream is unavailable."""
        down = {seen.name: seen.upstream for seen in self.upstreams if not seen.state.is_usable}
        readings = split_candidates(name, list(down))
        return down[readings[0][0]] if readings else None


def visible_servers(gateway: Gateway, toolset: Toolset) -> list[VisibleServer]:
    """Return the upstreams that the callers with a toolset see, in the order of the configuration."""
    return [
        VisibleServer(upstream, rule)
        for upstream in gateway.upstreams
        if (rule := toolset.rule(upstream.name)) is not None
    ]


class Views:
    """The views of a gateway, by toolset."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._of_toolset: dict[str, tuple[Mapping[str, ExposedTool], Toolset, View]] = {}
        self._reported: set[tuple[str, str]] = set()

    def toolset(self) -> Toolset:
        """Return the toolset of the caller whose request this task is answering."""
        principal = HTTP_CALLER.get()
        return self.gateway.access.toolset if principal is None else principal.toolset

    def current(self) -> View:
        """Return the view of the caller whose request this task is answering."""
        return self.of(self.toolset())

    def of(self, toolset: Toolset) -> View:
        """Return the view of the callers with a toolset."""
        # Made again when a tool or the toolset changes; all callers with it share the view until then.
        made_of, made_for, view = self._of_toolset.get(toolset.name, (None, None, None))
        if view is None or made_of is not self.gateway.tools or made_for != toolset:
            view = self._view(toolset, view)
            self._of_toolset[toolset.name] = self.gateway.tools, toolset, view
        return view

    def _view(self, toolset: Toolset, before: View | None) -> View:
        gateway = self.gateway
        seen = visible_servers(gateway, toolset)
        rules = {server.name: server.rule for server in seen}
        tools = {
            name: exposed
            for name, exposed in gateway.tools.items()
            if (rule := rules.get(exposed.upstream.name)) is not None and rule.shows(exposed.original.name)
        }
        for server in seen:  # warn about unknown names: the tools that they should hide may be visible
            unknown = sorted(server.rule.names - server.upstream.tools.keys())
            place = toolset.name, server.name
            if unknown and server.state.is_usable and place not in self._reported:
                self._reported.add(place)
                logger.warning("toolset %r names tools that %s does not have: %s", *place, unknown)
        if len(tools) == len(gateway.tools):
            return View(seen, tools, gateway.pages)
        # A change of other tools: the pages of this view, and their wire forms, stay valid.
        if before is not None and before.tools == tools:
            return View(seen, tools, before.pages)
        return View(seen, tools, gateway.pages.part(tools))
