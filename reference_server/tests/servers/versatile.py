"""An MCP server on the SDK that does what servers do: `versatile.py FOLDER [--searching] [[--legacy] --http PORT]`.

Files in FOLDER record the effects of its tools. With `--searching`, it serves all searches; one for "wait" never ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_ext_search_primitives.server import PromptsSearch, ResourcesSearch
from mcp_ext_tools_search.server import Answer, ToolsSearch
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    NotificationParams,
    PaginatedRequestParams,
    SubscriptionsListenRequestParams,
)
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(sys.argv[1])
BUS = InMemorySubscriptionBus()
SESSIONS: list[Any] = []
COMPLETE = {"resultType": "complete"}
OBJECT: dict[str, Any] = {"type": "object"}
NAMES = ["ask", "count", "die", "echo", "fail", "malformed", "picture", "refuse", "unheard_of", "wait"]
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"Tool to {name}", "inputSchema": OBJECT} for name in NAMES
] + [
    {"name": "grow", "description": "Adds a tool", "inputSchema": OBJECT, "_meta": {"com.example/mine": 1}},
    {
        "name": "region",
        "inputSchema": OBJECT | {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    },
    {"name": "wrong", "inputSchema": OBJECT | {"properties": {"a": {"type": "object", "x-mcp-header": "A"}}}},
    {"name": "numbers", "inputSchema": OBJECT, "outputSchema": {"type": "array", "items": {"type": "integer"}}},
]

server = Server[Any]("versatile", version="1", description="Does what servers do.")


async def list_tools(ctx: ServerRequestContext[Any], params: PaginatedRequestParams) -> dict[str, Any]:
    start = int(params.cursor or 0)
    page: dict[str, Any] = {"tools": TOOLS[start : start + 5], "ttlMs": 0, "cacheScope": "public"} | COMPLETE
    if ctx.protocol_version < "2026":
        page["tools"] = [tool for tool in page["tools"] if tool["name"] != "numbers"]
    return page | ({"nextCursor": str(start + 5)} if start + 5 < len(TOOLS) else {})


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **COMPLETE, **more}


async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> dict[str, Any]:
    match params.name:
        case "echo":
            seen = {"arguments": params.arguments, "meta": dict((ctx.params or {}).get("_meta", {}))}
            return text("echoed", structuredContent=seen, _meta={"com.example/answered": True})
        case "region":
            return text(str(params.arguments))
        case "picture":
            image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
            link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
            return {"content": [image, {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, link]} | COMPLETE
        case "fail":
            return text("it went wrong", isError=True)
        case "refuse":
            raise MCPError(INVALID_PARAMS, "not like that", {"field": "x"})
        case "unheard_of":
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        case "numbers":
            return text("[1]", structuredContent=[1])
        case "malformed":
            return {"content": "no list", "resultType": "com.example/odd"}
        case "die":
            os._exit(3)
        case _:
            return await take_time(ctx, params)


async def wait() -> None:
    try:
        (FOLDER / "waiting").touch()
        await anyio.sleep_forever()
    except BaseException:
        (FOLDER / "cancelled").touch()
        raise


async def search(_ctx: ServerRequestContext[Any], query: str, _note: str | None) -> Answer:
    if query == "wait":
        await wait()
    return Answer([], {})


async def list_nothing(ctx: ServerRequestContext[Any], _: PaginatedRequestParams) -> dict[str, Any]:
    return {ctx.method.partition("/")[0]: list[Any](), "ttlMs": 0, "cacheScope": "public"} | COMPLETE


async def take_time(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> dict[str, Any]:
    match params.name:
        case "count":
            for step in (1, 2, 3):
                await ctx.session.report_progress(step, 3, f"step {step}")
            return text("counted")
        case "wait":
            await wait()
        case "ask":
            if params.request_state == "asked" and params.input_responses:
                return text("thanks")
            form: dict[str, Any] = {"type": "object", "properties": {}}
            question = {"mode": "form", "message": "Your name?", "requestedSchema": form}
            return {
                "resultType": "input_required",
                "inputRequests": {"name": {"method": "elicitation/create", "params": question}},
                "requestState": "asked",
            }
        case "grow":
            TOOLS.append({"name": f"grown_{len(TOOLS)}", "description": "A marmalade machine", "inputSchema": OBJECT})
            await BUS.publish(ToolsListChanged())
            for session in SESSIONS:
                await session.send_tool_list_changed()
            return text("grown")
        case _:
            return {}
    return {}


async def remember(ctx: ServerRequestContext[Any], _: NotificationParams) -> None:
    SESSIONS.append(ctx.session)


class RefuseModern(BaseHTTPMiddleware):
    """Answers as servers do that have never heard of the newer revision."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.headers.get("mcp-protocol-version", "") >= "2026":
            return Response("Unsupported protocol version", status_code=400)
        return await call_next(request)


async def main() -> None:
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(BUS))
    server.add_notification_handler("notifications/initialized", NotificationParams, remember)
    if "--searching" in sys.argv:
        server.add_request_handler("resources/list", PaginatedRequestParams, list_nothing)
        server.add_request_handler("prompts/list", PaginatedRequestParams, list_nothing)
        resources = ResourcesSearch(search=search, templates=search)
        ToolsSearch(search=search, resources=resources, prompts=PromptsSearch(search=search)).install(server)
    draft = FOLDER / f"{os.getpid()}.draft"
    draft.write_text(str(os.getpid()))
    draft.replace(FOLDER / "pid")  # tests wait until the file exists, and read it then
    if "--http" in sys.argv:
        app = server.streamable_http_app()
        if "--legacy" in sys.argv:
            app.add_middleware(RefuseModern)
        await uvicorn.Server(uvicorn.Config(app, port=int(sys.argv[-1]), log_level="error", ws="none")).serve()
        return
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, options)


anyio.run(main)
