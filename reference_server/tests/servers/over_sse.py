"""An MCP server on the old HTTP+SSE transport: `over_sse.py PORT`."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("over sse")


@server.tool()
def ancient() -> str:
    """An ancient tool."""
    return "still here"


uvicorn.run(server.sse_app(), port=int(sys.argv[1]), log_level="error", ws="none")
