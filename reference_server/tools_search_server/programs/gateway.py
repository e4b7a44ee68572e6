"""The gateway as a program: its configuration, its endpoints, and principals that may change while it serves."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
from mcp.server import Server
from tools_search_hosts import ConfigurationError, ServerEntry, StdioTarget, load_host_file, writers_warning

from tools_search_server.access.configuration import Access, read_access
from tools_search_server.base.file_changes import changes_of
from tools_search_server.base.limits import Limits
from tools_search_server.compat.always_available import AlwaysAvailable, read_always_available
from tools_search_server.compat.definitions import CompatOptions
from tools_search_server.compat.list_changed import list_changed_server
from tools_search_server.compat.meta_tools import auto_server, meta_tools_server
from tools_search_server.gateway.gateway import Gateway, GatewayOptions
from tools_search_server.gateway.redis_channel import RedisChannel
from tools_search_server.gateway.replicas import Replicas
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import gateway_server
from tools_search_server.gateway.tool_metadata import read_host_metadata
from tools_search_server.programs.guard import Guard
from tools_search_server.programs.health import gateway_health, health_for_principals, lost_by_toolsets
from tools_search_server.programs.serving import Program

logger = logging.getLogger(__name__)

_LOADED_SECONDS: Final = 60
"""How long the first reading of the tools waits for an upstream."""

_LOOK_SECONDS: Final = 0.5
_OPTION: Final = "--config"

_Mode: TypeAlias = Callable[[GatewaySearch, CompatOptions, AlwaysAvailable], Server[Any]]

MODES: Final[Mapping[str, _Mode]] = {
    "meta-tools": meta_tools_server,
    "list-changed": list_changed_server,
    "auto": auto_server,
}
"""The compatibility modes by name."""


def configured_gateway(file: Path, limits: Limits, options: GatewayOptions) -> Gateway:
    """Build the gateway of a configuration; nothing is started yet.

    Raises:
        ConfigurationError: The configuration, or Redis, cannot be used.
    """
    hosts = load_host_file(file)
    if warning := writers_warning(file):
        logger.warning(warning)
    _refuse_itself(file, hosts.servers)
    return Gateway(
        hosts.servers,
        options,
        page_size=limits.page_size,
        access=read_access(hosts, str(file), options.toolset),
        metadata=read_host_metadata(hosts, str(file)),
        replicas=Replicas(None if options.redis is None else RedisChannel(options.redis)),
    )


def gateway_program(
    file: Path,
    limits: Limits,
    options: GatewayOptions,
    compat: CompatOptions | None = None,
    *,
    over_http: bool = False,
) -> Program:
    """Build the servers in front of a configuration; nothing is started yet.

    Args:
        file: The configuration.
        limits: Bounds of lists and searches.
        options: Settings of the gateway.
        compat: Compatibility modes, if there are any. Over HTTP each has a path of its own, next to the plain endpoint;
            on stdio there is exactly one, in its place.
        over_http: Whether the program serves HTTP.

    Raises:
        ConfigurationError: The configuration, or Redis, cannot be used.
    """
    search = GatewaySearch(configured_gateway(file, limits, options), limits)
    if compat is None or not compat.modes:
        return program_of(search, file, gateway_server(search), is_plain=True)
    always = read_always_available(load_host_file(file), str(file))
    if not over_http:
        [mode] = compat.modes
        return program_of(search, file, MODES[mode](search, compat, always), is_plain=False)
    plain = gateway_server(search)
    endpoints = {mode: MODES[mode](search, compat, always) for mode in compat.modes}
    return program_of(search, file, plain, endpoints, is_plain=True)


def program_of(
    search: GatewaySearch,
    file: Path,
    server: Server[Any],
    endpoints: Mapping[str, Server[Any]] | None = None,
    *,
    is_plain: bool,
) -> Program:
    """Return the program of a gateway.

    Args:
        search: The gateway and its tools.
        file: Its configuration.
        server: Serves stdio, and HTTP at the plain path.
        endpoints: Further servers over HTTP, by what is added to the path.
        is_plain: Whether `server` lists all tools, of which some hosts lose a part.
    """
    gateway = search.gateway

    async def loaded() -> None:
        await gateway.settled(_LOADED_SECONDS, gateway.upstreams)
        for warning in lost_by_toolsets(search.views, gateway.access.toolsets) if is_plain else []:
            logger.warning("%s", warning)

    program = Program(server, gateway.running, gateway.close_subscriptions, endpoints=endpoints or {}, loaded=loaded)
    if not gateway.access.principals:
        return replace(program, health=partial(gateway_health, gateway))

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        async with gateway.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(_follow_principals, file, gateway.access)
            yield
            tasks.cancel_scope.cancel()

    guard = partial(Guard, access=gateway.access)
    return replace(program, lifespan=running, guard=guard, health=partial(health_for_principals, gateway))


async def _follow_principals(file: Path, access: Access) -> None:
    """Apply the principals and toolsets of the file each time it changes; never returns.

    A file that is missing or invalid is reported, and changes nothing.
    """
    async for _ in changes_of(file, _LOOK_SECONDS):
        try:
            stated = read_access(load_host_file(file), str(file), None).principals
        except ConfigurationError as error:
            logger.warning("%s\nPrincipals and toolsets stay as they were.", error)
            continue
        if not stated:
            logger.warning("%s names no `principals` any more, who stay as they were: restart to serve without", file)
            continue
        access.replace_principals(stated)
        logger.info("%s changed: %d principals", file, len(stated))


def _refuse_itself(file: Path, entries: Sequence[ServerEntry]) -> None:
    """Refuse a file that names a gateway over the same file, which would start itself without end.

    Raises:
        ConfigurationError: It does.
    """
    advice = "is a gateway over this same file: keep the other servers in a file of their own, and name that one"
    problems: list[str] = []
    for entry in entries:
        if isinstance(target := entry.target, StdioTarget):
            named = [value for option, value in pairwise(target.args) if option == _OPTION]
            named += [one.removeprefix(f"{_OPTION}=") for one in target.args if one.startswith(f"{_OPTION}=")]
            if any(Path(target.cwd or "", name).resolve() == file.resolve() for name in named):
                problems.append(f"server {entry.name!r}: {advice}")
    if problems:
        raise ConfigurationError(str(file), problems)
