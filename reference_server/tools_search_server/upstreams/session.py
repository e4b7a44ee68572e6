"""Facts about a session with an upstream: its revision, what the server says of itself, and whether it is lost.

The canary of the SDK's private parts is `reference_server/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp import Client, MCPError
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT, ListToolsResult, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_search_server.base.redaction import printable

_MAX_INSTRUCTIONS_CHARS: Final = 4_000
_MAX_SUMMARY_CHARS: Final = 120

_SESSION_CODES: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT})
"""-32000, -32600 and -32001: what official SDKs have used for an unknown session."""


def is_modern(client: Client) -> bool:
    """Return whether the server speaks 2026-07-28 or later."""
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


def features_of(client: Client) -> Sequence[str]:
    """Return the names of the server's features other than tools."""
    offered = client.server_capabilities
    named = {"resources": offered.resources, "prompts": offered.prompts, "completions": offered.completions}
    features = [name for name, capability in named.items() if capability is not None]
    return [*features, METHOD] if EXTENSION_ID in (offered.extensions or {}) else features


def summary_of(client: Client) -> str:
    """Return the server's own account of its purpose, on one short line."""
    info = client.server_info
    return _on_one_line((info and (info.description or info.title)) or client.instructions or "", _MAX_SUMMARY_CHARS)


def instructions_of(client: Client) -> str:
    """Return the server's instructions to models on one line, or else its summary."""
    return _on_one_line(client.instructions or "", _MAX_INSTRUCTIONS_CHARS) or summary_of(client)


def _on_one_line(text: str, max_chars: int) -> str:
    return printable(text).replace('"', "'").encode("utf-8", "replace").decode()[:max_chars]


def is_session_lost(client: Client, error: MCPError) -> bool:
    """Return whether a legacy HTTP server has forgotten the session, as it does when it restarts.

    The server answers HTTP 404, which the session does not pass on. Its text differs from server to server: "Session
    not found", "No valid session ID provided", or nothing, for which the SDK says "Session terminated".
    """
    return not is_modern(client) and error.code in _SESSION_CODES and "session" in error.message.lower()


def absorb_tools(client: Client, tools: Sequence[Tool], *, complete: bool) -> Sequence[Tool]:
    """Make the definitions known to the session, so that the `Mcp-Param-*` headers of later calls are right.

    Args:
        client: The connection.
        tools: Tools that the server has listed.
        complete: Whether these are all of its tools, and definitions of others are to be forgotten.

    Returns:
        The tools that a client may use: without those whose `x-mcp-header` is invalid, as Streamable HTTP demands.
    """
    listing = ListToolsResult(tools=list(tools))
    session = client.session
    return session._absorb_tool_listing(  # pyright: ignore[reportPrivateUsage] - there is no public pre-load
        listing, complete=complete
    ).tools
