"""The one place that composes server middleware, which the SDK calls provisional.

The canary is `sdk_ext/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

from mcp_ext_tools_search.server.failure import ServerFault

__all__ = ["complete_chain"]


def complete_chain(server: Server[Any], own: ServerMiddleware[Any], call_next: CallNext) -> CallNext:
    """Return what runs a request through every middleware of `server` but `own`.

    `call_next` already runs those behind `own`. Those before it have been passed by the search, but not by the listing
    that the search is about to make: leaving them out would show a caller what its own `tools/list` hides.

    Raises:
        ServerFault: `own` does not stand in the chain exactly once, so that what stands before it is unknown.
    """
    places = [place for place, middleware in enumerate(server.middleware) if middleware is own]
    if len(places) != 1:
        raise ServerFault(
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
