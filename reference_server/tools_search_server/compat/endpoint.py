"""What both compatibility modes are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.context import HandlerResult, ServerMiddleware
from mcp.server.subscriptions import ServerEvent
from mcp_types import CallToolRequestParams, PaginatedRequestParams, Tool

from tools_search_server.access.callers import remember_caller
from tools_search_server.base.arguments import complaints
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.answers import ToolFailure, answer
from tools_search_server.compat.definitions import MetaNames
from tools_search_server.compat.spellings import plainly_spelt
from tools_search_server.gateway.beside_tools import LISTINGS, install_beside_tools
from tools_search_server.gateway.changes import Announcer
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.searched import Searched
from tools_search_server.gateway.views import View
from tools_search_server.upstreams.upstream import Upstream

__all__ = [
    "LIST_AT_MOST",
    "Announcers",
    "CompatOptions",
    "Ctx",
    "Endpoint",
    "Parts",
    "bare_server",
    "checked",
    "told_failures",
]

LIST_AT_MOST: Final = 64
"""Below the lowest number of tools at which a host is known to complain, with room for the host's own."""

Ctx = ServerRequestContext[Any, Any]
ListTools = Callable[[Ctx, PaginatedRequestParams], Any]
CallTool = Callable[[Ctx, CallToolRequestParams], Any]


@dataclass(frozen=True)
class CompatOptions:
    """What an operator may set of the compatibility modes."""

    modes: tuple[str, ...]
    prefix: str
    """Stands before the names of the tools that the modes add."""
    most_tools: int
    """Found tools that stand in the list of one session."""
    list_at_most: int = LIST_AT_MOST
    """Tools of a caller up to which `auto` lists all of them."""


@dataclass(frozen=True)
class Parts:
    """What an endpoint is built on."""

    gateway: Gateway
    searched: Searched
    names: MetaNames
    always: AlwaysAvailable
    options: CompatOptions
    patience: Callable[[Callable[[View], str]], ServerMiddleware[Any]]
    """Makes what lets requests wait for servers that are starting; it is given how tools are found here."""


@dataclass(frozen=True)
class Endpoint:
    """A server of its own for one mode, and what tells its clients of changes."""

    server: Server[Any]
    changes: Announcer


@dataclass(frozen=True)
class Announcers:
    """Several announcers as one: one that is slow holds up none of the others."""

    all: Sequence[Announcer]

    async def announce(self) -> None:
        """Tell the clients of each whose list has changed."""
        async with anyio.create_task_group() as tasks:
            for changes in self.all:
                tasks.start_soon(changes.announce)

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Tell the clients of each who see the server of a change beside its tools."""
        async with anyio.create_task_group() as tasks:
            for changes in self.all:
                tasks.start_soon(changes.publish, upstream, event)

    async def missed(self) -> None:
        """Tell the clients of each that any list may have changed."""
        async with anyio.create_task_group() as tasks:
            for changes in self.all:
                tasks.start_soon(changes.missed)

    def close(self) -> None:
        """End the open subscriptions in good order."""
        for changes in self.all:
            changes.close()


def bare_server(
    name: str,
    parts: Parts,
    list_tools: ListTools,
    call_tool: CallTool,
    input_schema: Callable[[str], dict[str, Any] | None],
    how: Callable[[View], str],
) -> Server[Any]:
    """Return a server that lists and calls tools, passes on what is beside them, and does not offer the extension."""
    server = Server[Any](
        name,
        version=version("mcp-ext-tools-search"),
        get_tool_input_schema=input_schema,
        cache_hints=dict.fromkeys(LISTINGS, parts.searched.caching),
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, told_failures(call_tool))
    server.middleware.append(parts.patience(how))
    install_beside_tools(server, parts.searched.views, parts.searched.limits.page_size)
    server.middleware.insert(0, remember_caller(parts.gateway.access.principals))
    return server


def told_failures(call_tool: CallTool) -> CallTool:
    """Return a handler whose `ToolFailure`s are results that a model can read."""

    async def call(ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        try:
            return await call_tool(ctx, params)
        except ToolFailure as failure:
            return answer(failure.document, is_error=True)

    return call


def checked(tool: Tool, plain: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a meta-tool in the form that its definition asks for.

    Raises:
        ToolFailure: They do not fit.
    """
    spelt = plainly_spelt(plain, arguments)
    if wrong := complaints(tool.input_schema, spelt):
        known = {"parameters": list(tool.input_schema["properties"])}
        raise ToolFailure(f"These arguments do not fit {tool.name}.", problems=wrong, **known)
    return spelt
