"""The gateway as a program: an MCP server in front of all servers of a configuration."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp_types import CallToolRequestParams, Implementation, PaginatedRequestParams
from tools_search_hosts import load_host_file, writers_warning
from tools_search_hosts.messages import MAX_MESSAGE_BYTES

from tools_search_server.access.callers import remember_caller
from tools_search_server.access.configuration import read_access
from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.base.limits import Limits
from tools_search_server.gateway import orientation
from tools_search_server.gateway.beside_tools import LISTINGS, install_beside_tools
from tools_search_server.gateway.beside_tools import METHODS as BESIDE_TOOLS
from tools_search_server.gateway.gateway import INDEX_AT_MOST, Gateway
from tools_search_server.gateway.redis_address import RedisAddress
from tools_search_server.gateway.redis_channel import RedisChannel
from tools_search_server.gateway.relay import relay_call
from tools_search_server.gateway.remote_tools import called_tool
from tools_search_server.gateway.replicas import Replicas
from tools_search_server.gateway.searched import Searched
from tools_search_server.gateway.tool_metadata import read_host_metadata
from tools_search_server.gateway.view_changes import ViewChanges
from tools_search_server.gateway.views import View, Views
from tools_search_server.programs.following import follow_principals
from tools_search_server.programs.guard import Guard
from tools_search_server.programs.health import gateway_health, health_for_principals
from tools_search_server.programs.host_limits import warnings_of
from tools_search_server.programs.own_file import refuse_itself
from tools_search_server.programs.serving import Program
from tools_search_server.upstreams.lazy import Laziness

__all__ = ["GatewayOptions", "configured_gateway", "gateway_program", "gateway_server", "patience", "program_of"]

logger = logging.getLogger(__name__)

_NAME: Final = "tools-search-gateway"
_GREETING_SECONDS: Final = 4
"""How long a greeting waits for slow servers: clients take a slow greeting for an old or a dead server."""

_LOADED_SECONDS: Final = 60
"""A server that has not started by then is not waited for."""

_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_ABOUT_SERVERS: Final = BESIDE_TOOLS | {"tools/call", "tools/list", "tools/search"}


@dataclass(frozen=True)
class GatewayOptions:
    """What an operator may set of a gateway."""

    start_deadline: float
    """Seconds for which a request for tools waits for servers that are still starting."""

    call_timeout: float
    """Seconds after which a call is given up that reports no progress."""

    toolset: str | None = None
    """Name of the toolset of callers who are no principals; `None` shows them everything."""

    index_at_most: int = INDEX_AT_MOST
    """How many tools a server may have that can search them itself and is indexed all the same."""

    laziness: Laziness | None = field(default_factory=Laziness)
    """Which servers run only while they are used; `None` for none."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Decoded bytes of one message of a server, and of all its lists together."""

    redis: RedisAddress | None = None
    """Where list changes cross to other replicas; `None` where there are none."""


def configured_gateway(file: Path, limits: Limits, options: GatewayOptions) -> Gateway:
    """Build the gateway of a configuration; nothing is started yet.

    Raises:
        ConfigurationError: The configuration, or Redis, cannot be used.
    """
    hosts = load_host_file(file)
    if warning := writers_warning(file):
        logger.warning(warning)
    refuse_itself(file, hosts.servers)
    return Gateway(
        hosts.servers,
        page_size=limits.page_size,
        call_seconds=options.call_timeout,
        max_message_bytes=options.max_message_bytes,
        client_info=Implementation(name=_NAME, version=version("mcp-ext-tools-search")),
        access=read_access(hosts, str(file), options.toolset),
        metadata=read_host_metadata(hosts, str(file)),
        index_at_most=options.index_at_most,
        laziness=options.laziness,
        replicas=Replicas(None if options.redis is None else RedisChannel(options.redis)),
    )


def gateway_program(file: Path, limits: Limits, options: GatewayOptions) -> Program:
    """Build the server in front of a configuration; nothing is started yet.

    Raises:
        ConfigurationError: The configuration cannot be used.
    """
    gateway = configured_gateway(file, limits, options)
    searched = Searched(gateway, limits)
    return program_of(gateway, file, gateway_server(gateway, limits, options, searched), listed=searched.views)


def program_of(
    gateway: Gateway,
    file: Path,
    server: Server[Any],
    others: Mapping[str, Server[Any]] | None = None,
    *,
    listed: Views | None = None,
) -> Program:
    """Return the program that serves `gateway` by `server`, and over HTTP by `others` too, at paths of their own.

    Args:
        gateway: Whose tools these are.
        file: Its configuration.
        server: What stdio reaches, and HTTP at the plain path.
        others: What HTTP reaches beside it.
        listed: What callers see, where `server` lists all of it, of which hosts may lose some.
    """

    async def loaded() -> None:
        await gateway.settled(_LOADED_SECONDS, gateway.upstreams)
        for said in [] if listed is None else warnings_of(listed, gateway.access.toolsets):
            logger.warning("%s", said)

    program = Program(
        server, beside=gateway.running, farewell=gateway.changes.close, others=others or {}, loaded=loaded
    )
    if not gateway.access.principals:
        return replace(program, health=partial(gateway_health, gateway))

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        async with gateway.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(follow_principals, file, gateway.access)
            yield
            tasks.cancel_scope.cancel()

    guard = partial(Guard, access=gateway.access)
    return replace(program, beside=running, guard=guard, health=partial(health_for_principals, gateway))


def gateway_server(
    gateway: Gateway, limits: Limits, options: GatewayOptions, searched: Searched | None = None
) -> Server[Any]:
    """Build the server that lists, searches and relays for `gateway`."""
    access = gateway.access
    searched = searched or Searched(gateway, limits)
    views = searched.views

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        page = await searched.listing.page(views.seen_by(ctx), params.cursor, ctx.protocol_version)
        return page | {"ttlMs": searched.caching.ttl_ms, "cacheScope": searched.caching.scope}

    async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> HandlerResult:
        seen = views.seen_by(ctx)
        called = await called_tool(seen, params.name)
        if called is None:
            raise unknown_tool(params.name, seen.for_model.offers)
        return await relay_call(*called, ctx)

    server = Server[Any](
        _NAME,
        version=version("mcp-ext-tools-search"),
        get_tool_input_schema=views.input_schema,
        cache_hints=dict.fromkeys(LISTINGS, searched.caching),
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    searched.search.install(server)
    server.middleware.append(patience(gateway, views, options.start_deadline))
    install_beside_tools(server, views, limits.page_size)
    changes = ViewChanges(views, access, bus=partial(gateway.replicas.bus, "plain"))
    changes.install(server)
    gateway.changes = changes
    server.middleware.insert(0, remember_caller(access.principals))
    hide_internal_errors(server)
    return server


def patience(
    gateway: Gateway, views: Views, start_deadline: float, how: Callable[[View], str] | None = None
) -> ServerMiddleware[Any]:
    """Return what lets requests wait for servers that are starting, and greets with what they offer.

    Args:
        gateway: Whose servers these are.
        views: What its callers see.
        start_deadline: Seconds to wait at most.
        how: Returns how the callers with a view find tools, where that is not by the extension.
    """

    async def wait(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method in _ABOUT_SERVERS:
            await gateway.settled(start_deadline, views.seen_by(ctx).upstreams)
            gateway.replicas.note_answer()
        if ctx.method not in _GREETINGS:
            return await call_next(ctx)
        await gateway.settled(min(start_deadline, _GREETING_SECONDS), views.seen_by(ctx).upstreams)
        result = await call_next(ctx)
        if isinstance(result, dict):
            seen = views.seen_by(ctx)
            guide = orientation.BY_EXTENSION if how is None else how(seen)
            shown = seen.for_model
            result["instructions"] = orientation.instructions(shown.upstreams, shown.tool_count, guide)
        return result

    return wait
