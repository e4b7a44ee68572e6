"""An MCP server that repeats its key wherever it can: `telltale.py stdio`, `http PORT` or `sse PORT`."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

KEY = os.environ["KEY"]


async def listed(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
    names = ("refuse", "fail", "answer")
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])


async def called(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    print(f"asked with {KEY}", "x" * 4080 + KEY, file=sys.stderr, flush=True)  # noqa: T201
    if params.name == "refuse":
        raise MCPError(-32050, f"boom {KEY} end", {"header": f"Bearer {KEY}", "all": [KEY]})
    await ctx.session.report_progress(1, 2, f"half of {KEY}")
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=f"401 for {KEY}")]
    return types.CallToolResult(content=content, structured_content={"key": KEY}, is_error=params.name == "fail")


server = Server("telltale", on_list_tools=listed, on_call_tool=called, instructions=f"Connected with {KEY}.")


async def over_stdio() -> None:
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


def over_sse() -> Starlette:
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:  # pyright: ignore[reportPrivateUsage]
            await server.run(*streams, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/mcp", connect), Mount("/messages/", app=transport.handle_post_message)])


if sys.argv[1] == "stdio":
    anyio.run(over_stdio)
else:
    app = server.streamable_http_app() if sys.argv[1] == "http" else over_sse()
    uvicorn.run(app, port=int(sys.argv[2]), log_level="error", ws="none")
