"""How a gateway and the servers behind it are, as a JSON document for operators and their monitors.

It holds names, states, reasons and numbers; nothing of the configuration but the names, and nothing of any request.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tools_search_hosts.toolsets import Rule

from tools_search_server.access.callers import HTTP_CALLER
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.views import SeenUpstream, View
from tools_search_server.programs.host_limits import lost_on_hosts

__all__ = ["HEALTH_PATH", "Health", "gateway_health", "health_for_principals", "health_route", "server_health"]

HEALTH_PATH: Final = "/healthz"

Health: TypeAlias = Mapping[str, Any]

_FOR_THIS_MACHINE: Final = ("servers", "tasks", "warnings")
"""Members that only callers on this machine see, and of these a principal the first: others learn how many servers
there are."""


def gateway_health(gateway: Gateway) -> Health:
    """Describe a gateway: `ok` when every server is ready or idle and changes reach replicas, else `degraded`."""
    replicas = gateway.replicas.state
    seen = [SeenUpstream(upstream, Rule()) for upstream in gateway.upstreams]
    return {
        **_health(seen),
        **({} if replicas is None or replicas.kind == "ready" else {"status": "degraded"}),
        **({} if replicas is None else {"replication": {"state": replicas.kind, "since": _iso(replicas.since)}}),
        "warnings": lost_on_hosts(View(seen, gateway.offers, gateway.pages)),
        "tasks": len(asyncio.all_tasks()),  # anyio would describe each, which takes a tenth of a second
    }


def health_for_principals(gateway: Gateway) -> Health:
    """Describe what the principal sees whose request this task is answering; others learn that the gateway serves.

    Nothing else enters it. What is of the process, such as its tasks, moves with servers and callers that the principal
    does not see; so whether changes reach replicas is told to one who sees everything alone.
    """
    principal = HTTP_CALLER.get()
    if principal is None:
        return {"status": "ok"}
    if principal.toolset.rules is None:
        return {name: value for name, value in gateway_health(gateway).items() if name != "tasks"}
    rules = [(upstream, principal.toolset.rule(upstream.name)) for upstream in gateway.upstreams]
    return _health([SeenUpstream(upstream, rule) for upstream, rule in rules if rule is not None])


def _health(seen: Sequence[SeenUpstream]) -> Health:
    counts = Counter(server.state.kind for server in seen)
    return {
        "status": "ok" if counts["ready"] + counts["idle"] == len(seen) else "degraded",
        "version": version("mcp-ext-tools-search"),
        "tools": sum(server.tool_count or 0 for server in seen),
        "ready": counts["ready"],
        "idle": counts["idle"],
        "starting": counts["starting"],
        "down": counts["down"],
        "servers": [server_health(server) for server in seen],
    }


def server_health(seen: SeenUpstream) -> Health:
    """Describe one server: its state, since when (ISO 8601, UTC) and, if it is down, why."""
    upstream, state = seen.upstream, seen.state
    # That of a server that is ready speaks of its other lists, which one who is shown single tools does not see.
    reason = state.reason if seen.rule.shows_more or not state.is_usable else ""
    return {
        "name": upstream.name,
        "transport": upstream.transport,
        "state": state.kind,
        "since": _iso(state.since),
        "reason": reason,
        "protocol": upstream.protocol,
        "tools": seen.tool_count,
        "indexed": upstream.delegated is None,
    }


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def health_route(health: Callable[[], Health]) -> Route:
    """Serve a health document."""

    async def answer(request: Request) -> Response:
        document = dict(health())
        if HTTP_CALLER.get() is None and not _is_local(request):
            for member in _FOR_THIS_MACHINE:
                document.pop(member, None)
        return JSONResponse(document, headers={"Cache-Control": "no-store"})

    return Route(HEALTH_PATH, answer, methods=["GET"])


def _is_local(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
