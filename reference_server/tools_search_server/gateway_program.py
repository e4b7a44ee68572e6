"""The gateway as a program: an MCP server in front of all servers of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp_ext_tools_search.hosts import load_host_file
from mcp_ext_tools_search.server import ToolsSearch
from mcp_types import CallToolRequestParams, Implementation, ListToolsResult, PaginatedRequestParams

from tools_search_server import orientation
from tools_search_server.faults import hide_faults
from tools_search_server.gateway import Gateway
from tools_search_server.health import gateway_health
from tools_search_server.limits import Limits
from tools_search_server.own_file import refuse_itself
from tools_search_server.relay import relay_call
from tools_search_server.serving import Program
from tools_search_server.unknown_tool import unknown_tool

__all__ = ["GatewayOptions", "configured_gateway", "gateway_program", "gateway_server"]

_NAME: Final = "tools-search-gateway"
_TTL_MS: Final = 5_000
_GREETING_SECONDS: Final = 4
"""How long a greeting waits for slow servers: clients take a slow greeting for an old or a dead server."""

_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_ABOUT_TOOLS: Final = frozenset({"tools/call", "tools/list", "tools/search"})


@dataclass(frozen=True)
class GatewayOptions:
    """What an operator may set of a gateway."""

    start_deadline: float
    """Seconds for which a request for tools waits for servers that are still starting."""

    call_timeout: float
    """Seconds after which a call is given up."""


def configured_gateway(file: Path, limits: Limits, options: GatewayOptions) -> Gateway:
    """Build the gateway of a configuration; nothing is started yet.

    Raises:
        ConfigurationError: The configuration cannot be used.
    """
    entries = load_host_file(file).servers
    refuse_itself(file, entries)
    return Gateway(
        entries,
        page_size=limits.page_size,
        call_seconds=options.call_timeout,
        client_info=Implementation(name=_NAME, version=version("mcp-ext-tools-search")),
    )


def gateway_program(file: Path, limits: Limits, options: GatewayOptions) -> Program:
    """Build the server in front of a configuration; nothing is started yet.

    Raises:
        ConfigurationError: The configuration cannot be used.
    """
    gateway = configured_gateway(file, limits, options)
    server = gateway_server(gateway, limits, options)
    health = partial(gateway_health, gateway)
    return Program(server, beside=gateway.running, farewell=gateway.changes.close, health=health)


def gateway_server(gateway: Gateway, limits: Limits, options: GatewayOptions) -> Server[Any]:
    """Build the server that lists, searches and relays for `gateway`."""

    async def list_tools(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return gateway.pages.page(params.cursor if params else None, ctx.protocol_version)

    async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> HandlerResult:
        offer = gateway.offers.get(params.name)
        upstream = offer.upstream if offer else gateway.unavailable(params.name)
        if upstream is None:
            raise unknown_tool(params.name, gateway.offers)
        return await relay_call(upstream, offer.original_name if offer else params.name, ctx)

    server = Server[Any](
        _NAME,
        version=version("mcp-ext-tools-search"),
        on_list_tools=list_tools,
        get_tool_input_schema=gateway.input_schema,
        cache_hints={"tools/list": CacheHint(ttl_ms=_TTL_MS, scope="public")},
    )
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    ToolsSearch(
        settings=lambda: orientation.settings(gateway.upstreams, len(gateway.offers), limits.max_limit),
        default_limit=limits.default_limit,
        max_limit=limits.max_limit,
        cursor_key=limits.cursor_key,
    ).install(server)
    server.middleware.append(_patience(gateway, options.start_deadline))
    gateway.changes.install(server)
    hide_faults(server)
    return server


def _patience(gateway: Gateway, start_deadline: float) -> ServerMiddleware[Any]:
    """Return what lets requests wait for servers that are starting, and greets with what they offer."""

    async def patience(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method in _ABOUT_TOOLS:
            await gateway.settled(start_deadline)
        if ctx.method not in _GREETINGS:
            return await call_next(ctx)
        await gateway.settled(min(start_deadline, _GREETING_SECONDS))
        result = await call_next(ctx)
        if isinstance(result, dict):
            result["instructions"] = orientation.instructions(gateway.upstreams, len(gateway.offers))
        return result

    return patience
