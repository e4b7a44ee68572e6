"""All private and provisional parts of the SDK that the server side uses (`spec/decisions/0005`).

* The order and composition of `Server.middleware`, which the SDK calls provisional. An extension is given neither the
  server nor its middleware, and a listing has to run through all of it.
* The low-level server that an `MCPServer` holds: it has no public way to add a request method or to read its handlers
  after construction. The SDK's own `Client` reaches it in the same way.

A canary test for each fails when the SDK changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

from mcp_ext_tools_search.server.errors import ServerSetupError


def complete_chain(server: Server[Any], own: ServerMiddleware[Any], call_next: CallNext) -> CallNext:
    """Return a call of a request through every middleware of `server` but `own`.

    `call_next` already runs those behind `own`. Those before it have been passed by the search, but not by the listing
    that the search is about to make: leaving them out would show a caller what its own `tools/list` hides.

    Raises:
        ServerSetupError: `own` does not stand in the chain exactly once, so that what stands before it is unknown.
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
    """Return the low-level server behind `server`.

    Raises:
        TypeError: It is neither an `MCPServer` nor a low-level `Server`.
    """
    if isinstance(server, MCPServer):
        return server._lowlevel_server  # pyright: ignore[reportPrivateUsage] - there is no public accessor
    if isinstance(server, Server):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        return server
    raise TypeError(f"tools/search installs on an MCPServer or a low-level Server, not on {type(server).__name__}")
