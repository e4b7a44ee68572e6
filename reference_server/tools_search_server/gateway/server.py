"""The MCP servers in front of a gateway: the plain endpoint, and what it shares with the compatibility modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from operator import attrgetter
from typing import Any, Final

from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp_ext_tools_search.server import ToolsSearch
from mcp_types import CallToolRequestParams, PaginatedRequestParams

from tools_search_server.access.principals import remember_caller
from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.gateway import orientation, prompts_and_resources
from tools_search_server.gateway.changes import ViewNotifier
from tools_search_server.gateway.gateway import NAME
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.search import GatewaySearch, destination
from tools_search_server.gateway.search_outcomes import calls_noted
from tools_search_server.gateway.views import Ctx, View

_GREETING_SECONDS: Final = 4
"""How long a greeting waits for slow upstreams: clients take a slow greeting for an old or a dead server."""

_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_NEEDING_UPSTREAMS: Final = prompts_and_resources.METHODS | {"tools/call", "tools/list", "tools/search"}

ListTools = Callable[[Ctx, PaginatedRequestParams], Any]
CallTool = Callable[[Ctx, CallToolRequestParams], Any]
Guide = Callable[[View], str]
"""Returns a text for models on how the callers with a view find tools."""


def gateway_server(search: GatewaySearch) -> Server[Any]:
    """Build the plain endpoint: it lists, searches and relays."""
    views = search.views

    async def list_tools(ctx: Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        page = await search.listing.page(views.seen_by(ctx), params.cursor, ctx.protocol_version)
        return page | {"ttlMs": search.caching.ttl_ms, "cacheScope": search.caching.scope}

    async def call_tool(ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        return await call_by_name(views.seen_by(ctx), params.name, ctx)

    return new_endpoint(search, "plain", NAME, list_tools, call_tool, views.input_schema, extension=search.extension)


async def call_by_name(view: View, name: str, ctx: Ctx, own_tools: Iterable[str] = ()) -> dict[str, Any]:
    """Relay the call of `ctx` to the upstream that a public name belongs to.

    Raises:
        MCPError: No tool of the view, and none of `own_tools`, has that name; or as `relay`.
    """
    called = await destination(view, name)
    if called is None:
        raise unknown_tool(name, [*own_tools, *view.for_model.tools])
    upstream, own_name = called
    return await relay(upstream, ctx, {"name": own_name})


def new_endpoint(
    search: GatewaySearch,
    endpoint: str,
    name: str,
    list_tools: ListTools,
    call_tool: CallTool,
    input_schema: Callable[[str], dict[str, Any] | None],
    *,
    guide: Guide = lambda _: orientation.BY_EXTENSION,
    listed: Callable[[View], object] = attrgetter("contents"),
    extension: ToolsSearch | None = None,
) -> Server[Any]:
    """Build a server over a gateway. Prompts, resources and notifications are the same at every endpoint.

    Args:
        search: The gateway's tools.
        endpoint: Its name among the endpoints, the same at all replicas.
        name: Its name for clients.
        list_tools: Answers `tools/list`.
        call_tool: Answers `tools/call`.
        input_schema: Returns the input schema of a tool that the current caller is offered.
        guide: Returns a text on how tools are found here.
        listed: Returns what `tools/list` holds for the callers with a view, for comparison.
        extension: Offered by this endpoint.
    """
    gateway = search.gateway
    server = Server[Any](
        name,
        version=version("mcp-ext-tools-search"),
        # Without it the SDK walks the whole listing before each call on modern Streamable HTTP.
        get_tool_input_schema=input_schema,
        cache_hints=dict.fromkeys(prompts_and_resources.LISTINGS, search.caching),
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    if extension is not None:
        extension.install(server)
    server.middleware.append(startup_wait_middleware(search, guide))
    server.middleware.append(calls_noted(gateway.searches))
    prompts_and_resources.install_prompts_and_resources(server, search.views, search.limits.page_size)
    notifier = ViewNotifier(gateway, search.views, endpoint, listed)
    notifier.install(server)
    gateway.notifiers.append(notifier)
    server.middleware.insert(0, remember_caller(gateway.access.principals))
    hide_internal_errors(server)
    return server


def startup_wait_middleware(search: GatewaySearch, guide: Guide) -> ServerMiddleware[Any]:
    """Return a middleware that lets requests wait for starting upstreams, and puts `instructions` into greetings."""
    gateway, views = search.gateway, search.views
    deadline = gateway.options.start_deadline

    async def wait(ctx: Ctx, call_next: CallNext) -> HandlerResult:
        is_greeting = ctx.method in _GREETINGS
        if not is_greeting and ctx.method not in _NEEDING_UPSTREAMS:
            return await call_next(ctx)
        seconds = min(deadline, _GREETING_SECONDS) if is_greeting else deadline
        await gateway.settled(seconds, [seen.upstream for seen in views.seen_by(ctx).upstreams])
        if not is_greeting:
            gateway.replicas.note_answer()
        result = await call_next(ctx)
        if is_greeting and isinstance(result, dict):
            seen = views.seen_by(ctx)
            shown = seen.for_model
            result["instructions"] = orientation.instructions(shown.upstreams, shown.tool_count, guide(seen))
        return result

    return wait
