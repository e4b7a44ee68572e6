"""The gateway as a program: its configuration, which it reloads while it serves, and its endpoints."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcp.server import Server
from tools_search_hosts import ConfigurationError, ServerEntry, StdioTarget, load_host_file, writers_warning
from tools_search_hosts.locations import real_path

from tools_search_server.access.configuration import Access, read_access
from tools_search_server.base.limits import Limits
from tools_search_server.compat.always_available import AlwaysAvailable, read_always_available
from tools_search_server.compat.definitions import CompatOptions
from tools_search_server.compat.list_changed import ListChanged
from tools_search_server.compat.meta_tools import MetaTools
from tools_search_server.gateway.gateway import Gateway, GatewayOptions
from tools_search_server.gateway.replicas import Replicas
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.gateway.tool_metadata import ToolMetadata, read_metadata
from tools_search_server.programs.guard import Guard
from tools_search_server.programs.health import gateway_health, health_for_principals, lost_by_toolsets
from tools_search_server.programs.serving import Program, changes_of

logger = logging.getLogger(__name__)

_LOADED_SECONDS: Final = 60
"""How long the first load of the tools waits for an upstream."""

_POLL_SECONDS: Final = 0.5
_OPTION: Final = "--config"

_ENDPOINTS: Final[Mapping[str, Callable[[GatewaySearch, CompatOptions, AlwaysAvailable], Endpoint]]] = {
    "meta-tools": MetaTools,
    "list-changed": ListChanged,
    "auto": partial(MetaTools, mode="auto"),
}
"""The compatibility modes by name."""


def configured_gateway(file: Path, limits: Limits, options: GatewayOptions) -> tuple[Gateway, AlwaysAvailable]:
    """Build the gateway for a configuration, and read its always-available tools. Start nothing yet.

    Raises:
        ConfigurationError: The configuration, or Redis, cannot be used.
    """
    stated = _read(file, options)
    if warning := writers_warning(file):
        logger.warning(warning)
    gateway = Gateway(
        stated.servers,
        options,
        page_size=limits.page_size,
        access=stated.access,
        metadata=stated.metadata,
        replicas=Replicas(options.redis),
    )
    return gateway, AlwaysAvailable(stated.always)


class _Configuration(NamedTuple):
    servers: Sequence[ServerEntry]
    access: Access
    metadata: ToolMetadata
    always: frozenset[str]


def _read(file: Path, options: GatewayOptions) -> _Configuration:
    """Return the contents of a configuration file. Raises `ConfigurationError` if it cannot be used."""
    hosts, source = load_host_file(file), str(file)
    _refuse_itself(file, hosts.servers)
    access, metadata = read_access(hosts, source, options.toolset), read_metadata(hosts, source)
    return _Configuration(hosts.servers, access, metadata, read_always_available(hosts, source))


def gateway_program(
    file: Path,
    limits: Limits,
    options: GatewayOptions,
    compat: CompatOptions | None = None,
    *,
    over_http: bool = False,
) -> Program:
    """Build the gateway's endpoints for a configuration. Start nothing yet.

    Over HTTP each compatibility mode has its own path next to the plain endpoint. On stdio there is exactly one
    endpoint: that of the compatibility mode, if there is one.

    Raises:
        ConfigurationError: The configuration, or Redis, cannot be used.
    """
    gateway, always = configured_gateway(file, limits, options)
    search = GatewaySearch(gateway, limits)
    endpoints: dict[str, Server[Any]] = {}
    if compat is not None:
        endpoints = {mode: _ENDPOINTS[mode](search, compat, always).server() for mode in compat.modes}
    is_plain = over_http or not endpoints
    server = Endpoint(search).server() if is_plain else endpoints.popitem()[1]

    async def loaded() -> None:
        await gateway.settled(_LOADED_SECONDS, gateway.upstreams)
        # Hosts drop tools from long lists only, and those of compatibility modes are short.
        for warning in lost_by_toolsets(search.views, gateway.access.toolsets) if is_plain else []:
            logger.warning("%s", warning)

    has_principals = bool(gateway.access.principals)
    return Program(
        server,
        partial(_running, search),
        gateway.close_subscriptions,
        health=partial(health_for_principals if has_principals else gateway_health, gateway),
        guard=partial(Guard, access=gateway.access) if has_principals else None,
        endpoints=endpoints,
        loaded=loaded,
        background=(partial(_follow, file, gateway, always),),
    )


@asynccontextmanager
async def _running(search: GatewaySearch) -> AsyncGenerator[None]:
    # The connections to the database outlast the gateway, whose searches use them.
    async with nullcontext() if search.shared is None else search.shared.running(), search.gateway.running():
        yield


async def _follow(file: Path, gateway: Gateway, always: AlwaysAvailable) -> None:
    """Apply the file whenever it changes, unless it is unusable or requires a restart. Never returns."""
    applied: _Configuration | None = None
    async for _ in changes_of(file, _POLL_SECONDS):
        try:
            stated = _read(file, gateway.options)
        except ConfigurationError as error:
            logger.warning("%s\nThe previous configuration stays in effect.", error)
            continue
        if bool(stated.access.principals) != bool(gateway.access.principals):
            change = "no longer has" if gateway.access.principals else "now has"
            logger.warning("%s %s `principals`: restart to apply it, nothing has changed until then", file, change)
            continue
        # Hosts keep other data in their files and write them all the time.
        if stated != applied:
            always.names = stated.always
            gateway.access.replace(stated.access)
            gateway.reconfigure(stated.servers, stated.metadata)
            logger.info("reloaded %s", file)
            applied = stated


def _refuse_itself(file: Path, entries: Sequence[ServerEntry]) -> None:
    """Refuse a file that names a gateway for the same file, which would start itself endlessly."""
    advice = "is a gateway for this same file: move the other servers to a separate file, and name that one"
    problems: list[str] = []
    for entry in entries:
        if isinstance(target := entry.target, StdioTarget):
            named = [value for option, value in pairwise(target.args) if option == _OPTION]
            named += [
                argument.removeprefix(f"{_OPTION}=") for argument in target.args if argument.startswith(f"{_OPTION}=")
            ]
            if any(real_path(Path(target.cwd or "", name)) == real_path(file) for name in named):
                problems.append(f"server {entry.name!r}: {advice}")
    if problems:
        raise ConfigurationError(str(file), problems)
