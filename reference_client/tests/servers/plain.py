"""A server of the SDK with three tools and without the extension: over stdio, or `--http`, printing its address.

Over HTTP, `--ignores=tools/list` leaves requests of that method without an answer.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import anyio
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


class Ignoring:
    """An application without answers to one method."""

    def __init__(self, app: Any, method: str) -> None:
        self.app, self.method = app, method.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def receive_unless_ignored() -> Any:
            message = await receive()
            if b'"' + self.method + b'"' in message.get("body", b""):
                await anyio.sleep_forever()
            return message

        await self.app(scope, receive_unless_ignored, send)


def serve(app: object, path: str) -> None:
    for option in sys.argv:
        if option.startswith("--ignores="):
            app = Ignoring(app, option.partition("=")[2])
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
