"""Many servers of a fleet in one process over HTTP, on the SDK: `fleet_http.py SIZE TOOLS HOST PORT`."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import uvicorn
from fleet import Fleet, Upstream, answer
from mcp.server import Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import CallToolRequestParams, PaginatedRequestParams, SubscriptionsListenRequestParams
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_PAGE: Final = 20


class _LegacyAlone:
    """Answers for some paths as servers do that have never heard of the newer revision."""

    def __init__(self, app: ASGIApp, paths: frozenset[str]) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = dict(scope.get("headers", [])).get(b"mcp-protocol-version", b"")
        if scope["type"] == "http" and version >= b"2026" and scope["path"] in self._paths:
            await PlainTextResponse("Unsupported protocol version", 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def server_of(upstream: Upstream) -> Server[Any]:
    """Build one server."""
    tools = list(upstream.tools.values())

    async def list_tools(_: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> dict[str, Any]:
        start = int((params and params.cursor) or 0)
        more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(tools) else {}
        page = {"tools": tools[start : start + _PAGE], "ttlMs": 0, "cacheScope": "public", "resultType": "complete"}
        return page | more

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> dict[str, Any]:
        arguments = params.arguments or {}
        await anyio.sleep(float(arguments.get("seconds", 0)))
        return answer(upstream, params.name, arguments, os.getpid()) | {"resultType": "complete"}

    server = Server[Any](
        upstream.name, version="1", get_tool_input_schema=lambda name: upstream.tools[name]["inputSchema"]
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    bus = ListenHandler(InMemorySubscriptionBus())
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, bus)
    return server


async def main() -> None:
    """Serve until the process is ended."""
    logging.disable()  # that a gateway has given up on an answer is no news here
    size, tools, host, port = map(int, sys.argv[1:])
    upstreams = Fleet(size, tools).hosts[host]
    app = Starlette()
    async with AsyncExitStack() as running:
        for upstream in upstreams:
            server = server_of(upstream)
            app.routes.extend(server.streamable_http_app(streamable_http_path=f"/{upstream.name}/mcp").routes)
            await running.enter_async_context(server.session_manager.run())
        legacy = frozenset(f"/{upstream.name}/mcp" for upstream in upstreams if upstream.era == "legacy")
        config = uvicorn.Config(_LegacyAlone(app, legacy), port=port, log_level="error", ws="none")
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    anyio.run(main)
