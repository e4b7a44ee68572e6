"""How a gateway and the servers behind it are, as a JSON document for operators and their monitors.

It holds names, states, reasons and numbers; nothing of the configuration but the names, and nothing of any request.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tools_search_server.gateway import Gateway
from tools_search_server.upstream import Upstream

__all__ = ["HEALTH_PATH", "Health", "gateway_health", "health_route", "server_health"]

HEALTH_PATH: Final = "/healthz"

Health: TypeAlias = Mapping[str, Any]

_FOR_THIS_MACHINE: Final = ("servers", "tasks")
"""Members that only callers on this machine see: others learn how many servers there are, not which."""


def gateway_health(gateway: Gateway) -> Health:
    """Describe a gateway: `ok` when every server is ready and changes reach replicas, else `degraded`."""
    counts = Counter(upstream.state.kind for upstream in gateway.upstreams)
    replicas = gateway.replicas.state
    is_whole = counts["ready"] == len(gateway.upstreams) and (replicas is None or replicas.kind == "ready")
    return {
        "status": "ok" if is_whole else "degraded",
        "version": version("mcp-ext-tools-search"),
        "tools": sum(upstream.tool_count or 0 for upstream in gateway.upstreams),
        "ready": counts["ready"],
        "starting": counts["starting"],
        "down": counts["down"],
        **({} if replicas is None else {"replication": {"state": replicas.kind, "since": _iso(replicas.since)}}),
        "tasks": len(asyncio.all_tasks()),  # anyio would describe each, which takes a tenth of a second
        "servers": [server_health(upstream) for upstream in gateway.upstreams],
    }


def server_health(upstream: Upstream) -> Health:
    """Describe one server: its state, since when (ISO 8601, UTC) and, if it is down, why."""
    state = upstream.state
    return {
        "name": upstream.name,
        "transport": upstream.transport,
        "state": state.kind,
        "since": _iso(state.since),
        "reason": state.reason,
        "protocol": upstream.protocol,
        "tools": upstream.tool_count,
        "indexed": upstream.remote is None,
    }


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def health_route(health: Callable[[], Health], security: TransportSecuritySettings | None) -> Route:
    """Serve a health document, guarded against DNS rebinding as the MCP endpoint is.

    Args:
        health: Gives the document.
        security: What the `Host` and `Origin` of a request must be; `None` for anything.
    """
    guard = TransportSecurityMiddleware(security)

    async def answer(request: Request) -> Response:
        if refusal := await guard.validate_request(request):
            return refusal
        document = dict(health())
        if not _is_local(request):
            for member in _FOR_THIS_MACHINE:
                document.pop(member, None)
        return JSONResponse(document, headers={"Cache-Control": "no-store"})

    return Route(HEALTH_PATH, answer, methods=["GET"])


def _is_local(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
