"""The capability gate: who may search (draft: Capability Negotiation)."""

from __future__ import annotations

from typing import Any

import mcp_types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_ext_tools_search import types as wire

__all__ = ["is_modern", "require_declared"]


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the request belongs to protocol 2026-07-28 or later, where capabilities ride on every request."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def require_declared(ctx: ServerRequestContext[Any, Any]) -> None:
    """Refuse a modern client that did not declare the extension in this very request.

    Legacy callers pass: a stateless legacy HTTP server cannot know what a client declared in `initialize`.

    Raises:
        MCPError: -32021, naming the capability that is missing.
    """
    if not is_modern(ctx) or _declares(ctx):
        return
    raise MCPError(
        mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"Declare {wire.EXTENSION_ID} in clientCapabilities.extensions to use {wire.METHOD}",
        data={"requiredCapabilities": {"extensions": {wire.EXTENSION_ID: {}}}},
    )


def _declares(ctx: ServerRequestContext[Any, Any]) -> bool:
    # Read from the request itself: the SDK drops all capabilities of a request when one of them has a wrong shape.
    match ctx.params:
        case {"_meta": {mcp_types.CLIENT_CAPABILITIES_META_KEY: {"extensions": {wire.EXTENSION_ID: dict()}}}}:
            return True
        case _:
            return False
