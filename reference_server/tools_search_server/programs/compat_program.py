"""The gateway as a program with compatibility modes: over HTTP beside the plain endpoint, on stdio in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mcp.server.context import ServerMiddleware
from tools_search_hosts import load_host_file

from tools_search_server.base.limits import Limits
from tools_search_server.compat.always_available import read_always_available
from tools_search_server.compat.definitions import MetaNames
from tools_search_server.compat.endpoint import Announcers, CompatOptions, Endpoint, Parts
from tools_search_server.compat.list_changed import list_changed_endpoint
from tools_search_server.compat.meta_tools import auto_endpoint, meta_tools_endpoint
from tools_search_server.gateway.searched import Searched
from tools_search_server.gateway.views import View
from tools_search_server.programs.gateway_program import (
    GatewayOptions,
    configured_gateway,
    gateway_server,
    patience,
    program_of,
)
from tools_search_server.programs.serving import Program

__all__ = ["MODES", "compat_program"]

MODES: Final[Mapping[str, Callable[[Parts], Endpoint]]] = {
    "meta-tools": meta_tools_endpoint,
    "list-changed": list_changed_endpoint,
    "auto": auto_endpoint,
}


def compat_program(
    file: Path, limits: Limits, options: GatewayOptions, compat: CompatOptions, *, over_http: bool
) -> Program:
    """Build the servers in front of a configuration; nothing is started yet.

    Args:
        file: The configuration.
        limits: Of lists and searches.
        options: Of the gateway.
        compat: Of the modes; exactly one of them where this is not `over_http`.
        over_http: Whether each has a path of its own, beside the plain endpoint.

    Raises:
        ConfigurationError: The configuration cannot be used.
    """
    gateway = configured_gateway(file, limits, options)
    always = read_always_available(load_host_file(file), str(file))
    searched = Searched(gateway, limits)

    def waiting(how: Callable[[View], str]) -> ServerMiddleware[Any]:
        return patience(gateway, searched.views, options.start_deadline, how)

    parts = Parts(gateway, searched, MetaNames(compat.prefix), always, compat, waiting)
    endpoints = {mode: MODES[mode](parts) for mode in compat.modes}
    if not over_http:
        [endpoint] = endpoints.values()
        gateway.changes = endpoint.changes
        return program_of(gateway, file, endpoint.server)
    plain = gateway_server(gateway, limits, options, searched)
    gateway.changes = Announcers([gateway.changes, *(endpoint.changes for endpoint in endpoints.values())])
    others = {mode: endpoint.server for mode, endpoint in endpoints.items()}
    return program_of(gateway, file, plain, others, listed=searched.views)
