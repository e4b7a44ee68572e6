"""All private and provisional parts of the SDK that the server side uses (`spec/decisions/0005`).

* The order and composition of `Server.middleware`, which the SDK calls provisional. An extension gets neither the
  server nor its middleware, but a listing must run through all of it.
* The low-level server inside an `MCPServer`, which has no public way to add a request method or to read its handlers
  after construction. The SDK's own `Client` accesses it in the same way.

A canary test for each fails when the SDK changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.types import require_kind


def complete_chain(server: Server[Any], own: ServerMiddleware[Any], call_next: CallNext) -> CallNext:
    """Return a function that sends a request through all middleware of `server` except `own`.

    `call_next` already runs the middleware after `own`. The search has run the middleware before it, but the listing
    for the search has not: skipping it would show a caller what its own `tools/list` hides.

    Raises:
        ServerSetupError: The chain does not have `own` exactly once, so the middleware before it is unknown.
    """
    places = [place for place, middleware in enumerate(server.middleware) if middleware is own]
    if len(places) != 1:
        raise ServerSetupError(
            f"the tools/search middleware stands {len(places)} times in server.middleware instead of once: "
            "call install() once, and neither remove nor wrap what it added"
        )
    call = call_next
    for middleware in reversed(server.middleware[: places[0]]):
        call = partial(_apply, middleware, call)
    return call


async def _apply(
    middleware: ServerMiddleware[Any], call_next: CallNext, ctx: ServerRequestContext[Any, Any]
) -> HandlerResult:
    return await middleware(ctx, call_next)


def lowlevel_server(server: MCPServer[Any] | Server[Any]) -> Server[Any]:
    """Return the low-level server behind `server`. Raises `TypeError` if it is no server of the SDK."""
    if isinstance(server, MCPServer):
        return server._lowlevel_server  # pyright: ignore[reportPrivateUsage] - there is no public accessor
    require_kind("server", server, Server, instead="an MCPServer or a low-level Server")
    return server
