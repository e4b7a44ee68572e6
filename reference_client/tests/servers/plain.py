"""A server of the SDK with three tools and without the extension: over stdio, or `--http`, printing its address."""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("plain", version="1.0")


@server.tool()
def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.tool()
def reverse_text(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


@server.tool()
def fail_always() -> str:
    """Fail, whatever happens."""
    raise ValueError("as promised")


def serve(app: object, path: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}{path}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve(server.streamable_http_app(), "/mcp")
    elif "--sse" in sys.argv:
        serve(server.sse_app(), "/sse")
    else:
        server.run()
