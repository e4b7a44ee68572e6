"""A gateway's health document, and warnings about tools that hosts drop from its lists.

The document is for operators and their monitors. It contains names, states, reasons and numbers. It reveals nothing of
the configuration but the names, and nothing of requests but the queries that an operator has chosen to keep.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tools_search_hosts.toolsets import EVERYTHING, Toolset

from tools_search_server.access.principals import HTTP_CALLER
from tools_search_server.base.address import is_loopback
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.views import View, Views, VisibleServer, visible_servers

HEALTH_PATH: Final = "/healthz"

Health: TypeAlias = Mapping[str, Any]

_LOCAL_MEMBERS: Final = ("searches", "servers", "tasks", "warnings")
"""Members for callers on this machine only. Principals get the servers too; others only get counts of servers."""

_COMPAT: Final = "--compat auto or --compat meta-tools"
_HOSTS_REVISION: Final = "2025-11-25"
"""The protocol revision that today's hosts use."""

_MAX_SCHEMA_BYTES: Final = 16_384
_MAX_PAGES: Final = 64
_SHOWN: Final = 3

_TOOL_LIMITS: Final = (
    (256, "Claude Desktop's Cowork keeps the first 256 tools of a connector (2026-07)"),
    (128, "GitHub Copilot refuses more than 128, in VS Code unless it groups them (2026-07)"),
    (80, "Cursor warns about more than 80 across all servers (2025-09)"),
)
"""Numbers of tools above which a host drops some, with the month of the public report, since hosts change.
`reference_server/docs/hosts-without-search.md` has the reports."""


def gateway_health(gateway: Gateway) -> Health:
    """Describe a gateway: `ok` if every server is ready or idle and changes reach replicas, else `degraded`."""
    replicas = gateway.replicas.state
    seen = visible_servers(gateway, EVERYTHING)
    return {
        **_health(seen),
        **({} if replicas is None or replicas.kind == "ready" else {"status": "degraded"}),
        **({} if replicas is None else {"replication": {"state": replicas.kind, "since": _iso(replicas.since)}}),
        "searches": gateway.searches.document(),
        "warnings": lost_on_hosts(View(seen, gateway.tools, gateway.pages)),
        "tasks": len(asyncio.all_tasks()),  # anyio would describe each, which takes a tenth of a second
    }


def health_for_principals(gateway: Gateway) -> Health:
    """Describe what the current principal sees. Other callers only learn that the gateway is running.

    The document says nothing about the process, such as its number of tasks, since that depends on servers and callers
    that the principal cannot see. For the same reason, only a principal who sees everything learns whether changes
    reach replicas.
    """
    principal = HTTP_CALLER.get()
    if principal is None:
        return {"status": "ok"}
    if principal.toolset.rules is None:
        return {name: value for name, value in gateway_health(gateway).items() if name != "tasks"}
    return _health(visible_servers(gateway, principal.toolset))


def _health(seen: Sequence[VisibleServer]) -> Health:
    counts = Counter(server.state.kind for server in seen)
    return {
        "status": "ok" if counts["ready"] + counts["idle"] == len(seen) else "degraded",
        "version": version("mcp-ext-tools-search"),
        "tools": sum(server.tool_count or 0 for server in seen),
        **{kind: counts[kind] for kind in ("ready", "idle", "starting", "down")},
        "servers": [
            {
                "name": server.name,
                "transport": server.upstream.transport,
                "state": server.state.kind,
                "since": _iso(server.state.since),
                # A ready server's reason is about its lists, of which callers limited to single tools see only a part.
                "reason": server.state.reason if server.rule.shows_more or not server.state.is_usable else "",
                "protocol": server.upstream.greeting.protocol,
                "tools": server.tool_count,
                "indexed": server.upstream.delegated is None,
            }
            for server in seen
        ],
    }


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def health_route(health: Callable[[], Health]) -> Route:
    """Return the route that serves a health document."""

    async def answer(request: Request) -> Response:
        document = health()
        is_local = request.client is not None and is_loopback(request.client.host)
        if HTTP_CALLER.get() is None and not is_local:
            document = {name: value for name, value in document.items() if name not in _LOCAL_MEMBERS}
        return JSONResponse(dict(document), headers={"Cache-Control": "no-store"})

    return Route(HEALTH_PATH, answer, methods=["GET"])


def lost_on_hosts(view: View) -> list[str]:
    """Return a warning, with a remedy, for each known host limit that a view's plain list exceeds."""
    pages, tools = view.pages, view.tool_count or len(view.tools)
    warnings: list[str] = []
    counts = pages.counts(_HOSTS_REVISION)
    page_count = len(counts)
    if page_count > 1 or view.delegated:
        warnings.append(
            f"tools/list has several pages, and hosts that read only the first one see {sum(counts[:1])} of "
            f"{tools} tools: claude.ai (2026-03), Codex (2026-07), Factory Droid (2026-08). For these, use {_COMPAT}."
        )
    if page_count > _MAX_PAGES:
        warnings.append(
            f"tools/list has {page_count} pages, and hosts on the TypeScript SDK stop after {_MAX_PAGES} (2026-09). "
            f"Use a larger --page-size, or {_COMPAT}."
        )
    if exceeded := [what for limit, what in _TOOL_LIMITS if tools > limit]:
        warnings.append(f"tools/list has {tools} tools. {'; '.join(exceeded)}. For these, use {_COMPAT}, or a toolset.")
    if large := pages.with_large_schemas(_HOSTS_REVISION, _MAX_SCHEMA_BYTES):
        names = ", ".join(large[:_SHOWN]) + (f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else "")
        warnings.append(
            f"Claude Desktop connectors drop tools whose input schema has more than {_MAX_SCHEMA_BYTES} bytes "
            f"(2026-07): {names}. For these, use --compat meta-tools."
        )
    return warnings


def lost_by_toolsets(views: Views, toolsets: Iterable[Toolset]) -> list[str]:
    """Return the `lost_on_hosts` warnings for each toolset."""
    warnings = [
        line if toolset.rules is None else f"toolset {toolset.name!r}: {line}"
        for toolset in toolsets
        for line in lost_on_hosts(views.of(toolset))
    ]
    return list(dict.fromkeys(warnings))
