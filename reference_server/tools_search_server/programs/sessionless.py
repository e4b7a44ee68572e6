"""Legacy HTTP without sessions: clients are told at the greeting what cannot be done for them then."""

from __future__ import annotations

from typing import Any, Final, cast

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["without_sessions"]

_TELLING: Final = ("listChanged", "subscribe")
_SUBSCRIBING: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})


async def without_sessions(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Promise a legacy client no notifications: nothing outlasts its request on which they could be sent.

    As a middleware it has to be the outermost. Questions to such clients are refused where they are asked, since what
    a client can answer is known from its greeting alone.
    """
    if ctx.method == "notifications/initialized":
        return None
    if ctx.method in _SUBSCRIBING and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, "This server has no sessions, and tells of no changes without one")
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        for offered in cast("dict[str, Any]", result.get("capabilities", {})).values():
            if isinstance(offered, dict):
                for telling in _TELLING:
                    cast("dict[str, Any]", offered).pop(telling, None)
    return result
