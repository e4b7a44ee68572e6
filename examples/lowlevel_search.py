"""A searchable low-level server with its own catalog, pagination and settings.

Run it over stdio with `python examples/lowlevel_search.py`.
"""

from typing import Any

import anyio
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_ext_tools_search import ServerSettings
from mcp_ext_tools_search.server import ToolsSearch, sieve_tools
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

AMOUNT = {"type": "object", "properties": {"customer": {"type": "string"}, "amount": {"type": "integer"}}}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}}
CATALOG = {
    "send_invoice": Tool(name="send_invoice", description="Send an invoice to a customer.", input_schema=AMOUNT),
    "cancel_invoice": Tool(name="cancel_invoice", description="Cancel an invoice.", input_schema=NUMBER),
    # An array is a valid output schema since 2026-07-28: clients of older revisions must not be shown this tool.
    "list_invoices": Tool(
        name="list_invoices", description="List invoices.", input_schema=NUMBER, output_schema={"type": "array"}
    ),
}
PAGE = 2


async def list_tools(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    """Return one page of the tools that the caller's protocol version allows."""
    tools = sieve_tools(CATALOG.values(), ctx.protocol_version)
    start = int(params.cursor) if params and params.cursor else 0
    more = str(start + PAGE) if start + PAGE < len(tools) else None
    return ListToolsResult(tools=tools[start : start + PAGE], next_cursor=more)


async def call_tool(_ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    """Return the called tool's name and arguments."""
    return CallToolResult(content=[TextContent(type="text", text=f"{params.name} {params.arguments}")])


server = Server("billing", on_list_tools=list_tools, on_call_tool=call_tool)
ToolsSearch(settings=ServerSettings(topics=["invoices"], catalog_size=len(CATALOG))).install(server)


async def main() -> None:
    """Serve one client over stdio."""
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
