"""The one place that uses what the SDK's client session keeps private.

A gateway relays what it is given. The public `send_request` checks every result as a whole, so that one bad definition
hides a whole page and an unusual result never reaches the caller; it also declares the same client capabilities for
every caller. The canary is `reference_server/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp import Client, MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    ListToolsResult,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["absorb_tools", "is_modern", "is_session_gone", "raw_request"]


_SESSION_CODES: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT})
"""-32000, -32600 and -32001: what official SDKs have used for a session that they do not know."""


def is_modern(client: Client) -> bool:
    """Tell whether the server speaks 2026-07-28 or later."""
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_session_gone(client: Client, error: MCPError) -> bool:
    """Tell whether a legacy HTTP server has forgotten the session, as it does when it restarts.

    It answers HTTP 404, which the session does not pass on; what it writes beside that differs from server to server:
    "Session not found", "No valid session ID provided", or nothing, for which the SDK says "Session terminated".
    """
    return not is_modern(client) and error.code in _SESSION_CODES and "session" in error.message.lower()


async def raw_request(
    client: Client,
    method: str,
    params: Mapping[str, Any],
    *,
    seconds: float | None,
    on_progress: ProgressFnT | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Send a request as this connection frames it and return the result as it came.

    Args:
        client: A connected client.
        method: What to ask.
        params: The parameters; the modern envelope is added.
        seconds: When to give up and cancel; `None` for never.
        on_progress: Told of each progress notification.
        capabilities: What the caller can answer on a modern connection, beside what the client itself declares.

    Raises:
        MCPError: The server answered with an error, took too long, or is gone.
    """
    session = client.session
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {}
    if seconds is not None:
        options["timeout"] = seconds
    if on_progress is not None:
        options["on_progress"] = on_progress
    session._stamp(data, options)  # pyright: ignore[reportPrivateUsage] - no public raw request, see the module
    if capabilities and is_modern(client):
        declared = data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY]
        data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] = {**declared, **capabilities}
    dispatcher = session._dispatcher  # pyright: ignore[reportPrivateUsage] - no public raw request, see the module
    return await dispatcher.send_raw_request(method, data["params"], options)


def absorb_tools(client: Client, tools: Sequence[Tool]) -> Sequence[Tool]:
    """Let the session know the definitions, so that `Mcp-Param-*` headers of later calls are right.

    Returns:
        The tools that a client may use: without those whose `x-mcp-header` is invalid, as Streamable HTTP demands.
    """
    listing = ListToolsResult(tools=list(tools))
    session = client.session
    return session._absorb_tool_listing(  # pyright: ignore[reportPrivateUsage] - no public pre-load, see the module
        listing, complete=True
    ).tools
