"""The one place that knows how an `MCPServer` holds its low-level server.

`MCPServer` has no public way to add a request method or to read its handlers after construction; the SDK's own `Client`
reaches its low-level server in the same way. The canary is `sdk_ext/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer, Server

__all__ = ["lowlevel_server"]


def lowlevel_server(server: MCPServer[Any] | Server[Any]) -> Server[Any]:
    """Return the low-level server behind `server`.

    Raises:
        TypeError: It is neither an `MCPServer` nor a low-level `Server`.
    """
    if isinstance(server, MCPServer):
        return server._lowlevel_server  # pyright: ignore[reportPrivateUsage] - no public accessor, see the module
    if isinstance(server, Server):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        return server
    raise TypeError(f"tools/search installs on an MCPServer or a low-level Server, not on {type(server).__name__}")
