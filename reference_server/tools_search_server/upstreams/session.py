"""What a gateway has to know of the SDK's client session beside asking it: what it tells of the server.

The canary is `reference_server/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp import Client, MCPError
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    ListToolsResult,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_search_server.base.redaction import printable

_MOST_SAID: Final = 4_000
"""Characters of a server's instructions."""

_SESSION_CODES: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT})
"""-32000, -32600 and -32001: what official SDKs have used for a session that they do not know."""


def is_modern(client: Client) -> bool:
    """Tell whether the server speaks 2026-07-28 or later."""
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


def features_beside_tools(client: Client) -> Sequence[str]:
    """Name what the server offers beside a list of tools."""
    offered = client.server_capabilities
    named = {"resources": offered.resources, "prompts": offered.prompts, "completions": offered.completions}
    features = [name for name, capability in named.items() if capability is not None]
    return [*features, METHOD] if EXTENSION_ID in (offered.extensions or {}) else features


def about(client: Client) -> str:
    """Return what the server says it is for, in one short line."""
    info = client.server_info
    return _on_one_line((info and (info.description or info.title)) or client.instructions or "", 120)


def says(client: Client) -> str:
    """Return what the server says of itself to models, on one line: its instructions, or else what it is for."""
    return _on_one_line(client.instructions or "", _MOST_SAID) or about(client)


def _on_one_line(text: str, most_chars: int) -> str:
    return printable(text).replace('"', "'").encode("utf-8", "replace").decode()[:most_chars]


def is_session_gone(client: Client, error: MCPError) -> bool:
    """Tell whether a legacy HTTP server has forgotten the session, as it does when it restarts.

    It answers HTTP 404, which the session does not pass on; what it writes beside that differs from server to server:
    "Session not found", "No valid session ID provided", or nothing, for which the SDK says "Session terminated".
    """
    return not is_modern(client) and error.code in _SESSION_CODES and "session" in error.message.lower()


def absorb_tools(client: Client, tools: Sequence[Tool], *, complete: bool) -> Sequence[Tool]:
    """Let the session know the definitions, so that `Mcp-Param-*` headers of later calls are right.

    Args:
        client: The connection.
        tools: What it lists.
        complete: Whether that is all, and what was known of others is to be forgotten.

    Returns:
        The tools that a client may use: without those whose `x-mcp-header` is invalid, as Streamable HTTP demands.
    """
    listing = ListToolsResult(tools=list(tools))
    session = client.session
    return session._absorb_tool_listing(  # pyright: ignore[reportPrivateUsage] - no public pre-load, see the module
        listing, complete=complete
    ).tools
