"""The connection that a request of a caller came on: the SDK has no public way from a handler to it.

The canary is `reference_server/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.connection import Connection

__all__ = ["connection_of"]


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the connection of `ctx`, which is the same for all requests of a legacy session and knows its end."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage] - no public way, see the module
