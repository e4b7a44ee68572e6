"""The MCP servers of a gateway: the plain endpoint, which is also the base class of the compatibility modes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp_ext_search_primitives import RESOURCES
from mcp_types import CallToolRequestParams, PaginatedRequestParams
from tools_search_hosts import own_name
from tools_search_hosts.json_values import as_object
from tools_search_hosts.results import UNREAD

from tools_search_server.access.principals import remember_caller
from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.gateway import orientation, prompts_and_resources
from tools_search_server.gateway.changes import LegacySessions, ViewNotifier
from tools_search_server.gateway.item_search import FOUND_UNREAD
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.search import GatewaySearch, destination
from tools_search_server.gateway.views import Ctx, View
from tools_search_server.upstreams.listing import GATEWAYS
from tools_search_server.upstreams.upstream import NAME

_GREETING_SECONDS: Final = 4
"""How long a greeting waits for slow upstreams. Clients take a server with a slow greeting for old or dead."""

_NEEDING_UPSTREAMS: Final = prompts_and_resources.METHODS | {"tools/call", "tools/list"}


class Endpoint:
    """The plain endpoint, which lists, searches and relays. Compatibility modes override how it lists and calls tools.

    Prompts, resources and notifications are the same at every endpoint.
    """

    mode: str = "plain"
    """The endpoint's name; the same at all replicas."""

    def __init__(self, search: GatewaySearch) -> None:
        self.search = search
        self.views = search.views
        self.sessions = LegacySessions()

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        """Answer `tools/list`."""
        page = await self.search.listing.page(self.views.current(), params.cursor, ctx.protocol_version)
        return page | {"ttlMs": self.search.caching.ttl_ms, "cacheScope": self.search.caching.scope}

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> dict[str, Any]:
        """Answer `tools/call`."""
        return await self.call_by_name(ctx, params.name)

    async def call_by_name(self, ctx: Ctx, name: str, own_tools: Iterable[str] = ()) -> dict[str, Any]:
        """Relay a call to the upstream that a public name belongs to.

        Raises:
            MCPError: The caller sees no tool with that name. The error suggests similar names, also from `own_tools`.
                Or `relay` failed.
        """
        view = self.views.current()
        called = await destination(view, name)
        if called is None:
            raise unknown_tool(name, [*own_tools, *view.for_model.tools])
        upstream, own = called
        return await relay(upstream, ctx, {"name": own})

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the input schema of a tool, or `None` if the current caller sees no tool of that name."""
        view = self.views.current()
        if (exposed := view.tools.get(name)) is not None:
            return exposed.tool.input_schema
        for seen, delegate in view.delegated:
            own = own_name(seen.name, name)
            if own is not None and (tool := delegate.seen(own)) is not None:
                return tool.input_schema
        return None

    def guide(self, view: View) -> str:
        """Return instructions for models on how to find tools."""
        return orientation.BY_EXTENSION

    def listed(self, view: View) -> object:
        """Return a value that changes when the `tools/list` of a view's callers does."""
        return view.contents

    def server(self) -> Server[Any]:
        """Build the server."""
        gateway = self.search.gateway
        is_plain = self.mode == "plain"
        server = Server[Any](
            NAME if is_plain else f"tools-search-{self.mode}",
            version=version("mcp-ext-tools-search"),
            # Without this, the SDK walks the whole listing before each call over modern Streamable HTTP.
            get_tool_input_schema=self.input_schema,
            cache_hints=dict.fromkeys(prompts_and_resources.LISTINGS, self.search.caching),
        )
        server.add_request_handler("tools/list", PaginatedRequestParams, self.list_tools)
        server.add_request_handler("tools/call", CallToolRequestParams, self.call_tool)
        # From the outermost: `hide_internal_errors`, `remember_caller` (all others depend on the caller), the search
        # extension, the wait for upstreams (the others need their lists), and then the rest in any order.
        server.middleware.append(self._wait_for_upstreams)
        server.middleware.append(self._describe_gateway)
        server.middleware.append(gateway.searches.note_calls)
        prompts_and_resources.install(server, self.views, self.search.limits.page_size)
        if is_plain:
            self.search.extension.install(server)
        notifier = ViewNotifier(self.views, self.mode, self.listed, self.sessions)
        notifier.install(server)
        gateway.notifiers.append(notifier)
        server.middleware.insert(0, remember_caller(gateway.access.principals))
        hide_internal_errors(server)
        return server

    async def _wait_for_upstreams(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Middleware that makes requests wait for starting upstreams."""
        gateway, is_greeting = self.search.gateway, ctx.method in prompts_and_resources.GREETINGS
        is_search = ctx.method in self.search.extension.search_methods
        # A stream with changes of lists alone begins at once, so that none is missed.
        follows = ctx.method == "subscriptions/listen" and "resourceSubscriptions" in as_object(
            (ctx.params or {}).get("notifications")
        )
        if not (is_greeting or is_search or follows or ctx.method in _NEEDING_UPSTREAMS):
            return await call_next(ctx)
        seconds = min(gateway.options.start_deadline, _GREETING_SECONDS if is_greeting else math.inf)
        await gateway.settled(seconds, [seen.upstream for seen in self.views.current().upstreams])
        if not is_greeting:
            gateway.replicas.note_answer()
        return await call_next(ctx)

    async def _describe_gateway(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Middleware that adds what this gateway says about itself to results.

        These are `instructions` in greetings, the ids of gateways in a list for another gateway, and a mark in a search
        for resources that went without texts.
        """
        result = await call_next(ctx)
        if ctx.method == RESOURCES.method and isinstance(result, dict) and FOUND_UNREAD.get():
            return {**result, "_meta": {**result.get("_meta", {}), UNREAD: True}}
        is_greeting = ctx.method in prompts_and_resources.GREETINGS
        asks_for_ids = ctx.method == "tools/list" and GATEWAYS in ((ctx.params or {}).get("_meta") or {})
        if not isinstance(result, dict) or not (is_greeting or asks_for_ids):
            return result
        view = self.views.current()
        if asks_for_ids:  # only gateways of upstreams that the caller can see
            ids = {self.search.gateway.id}.union(*(seen.upstream.gateways for seen in view.upstreams))
            return {**result, "_meta": {**result.get("_meta", {}), GATEWAYS: sorted(ids)}}
        shown = view.for_model
        return {**result, "instructions": orientation.instructions(shown.upstreams, shown.tool_count, self.guide(view))}
