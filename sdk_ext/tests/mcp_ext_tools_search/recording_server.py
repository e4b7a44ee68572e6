"""A server whose tools answer with what has come over the wire: run over stdio by tests, or loaded by them for HTTP."""

from __future__ import annotations

import json
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_ext_tools_search.server import install
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
INVALID = {"type": "object", "properties": {"region": {"type": "object", "x-mcp-header": "Re gion"}}}
TOOLS = [
    Tool(name="send_invoice", input_schema=SCHEMA, output_schema={"type": "object", "required": ["number"]}),
    Tool(name="print_invoice", input_schema=INVALID),
]


def make_server() -> Server[Any]:
    """Return a searchable server that remembers, request by request, what it was first asked for."""
    asked: dict[Any, str] = {}

    async def record(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        # A search lists within its own request: that is no message on the wire.
        asked.setdefault(ctx.request_id, ctx.method)
        return await call_next(ctx)

    async def list_tools(_ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        # On the second page, which a session's own look-up never reads.
        return ListToolsResult(tools=TOOLS) if params and params.cursor else ListToolsResult(tools=[], next_cursor="2")

    async def call_tool(ctx: ServerRequestContext[Any], _params: CallToolRequestParams) -> CallToolResult:
        headers = dict(ctx.request.headers) if ctx.request is not None else {}
        seen = {"asked": list(asked.values()), "headers": headers}
        text = TextContent(type="text", text=json.dumps(seen))
        return CallToolResult(content=[text], structured_content={"number": 7})

    schemas = {tool.name: tool.input_schema for tool in TOOLS}
    server = Server("billing", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=schemas.get)
    server.middleware.append(record)
    install(server)
    return server


async def main() -> None:
    """Serve over stdio until the client leaves."""
    server = make_server()
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
