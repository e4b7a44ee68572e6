"""The two protocol eras and two transports as data, and how clients identify themselves in each era."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, Literal

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.wire.codec import JsonObject

Era = Literal["2025-11-25", "2026-07-28"]
"""A protocol revision for cells."""

TransportName = Literal["stdio", "http"]

LEGACY: Final = "2025-11-25"
"""The handshake era: `initialize`, then plain requests."""

MODERN: Final = "2026-07-28"
"""The era without a handshake: every request identifies its client."""

ERAS: Final[tuple[Era, ...]] = (MODERN, LEGACY)
"""Both eras, the modern one first."""

OLDER: Final = "2025-06-18"
"""A revision of the handshake era older than the one used for cells."""

OLDEST: Final = ("2025-03-26", "2024-11-05")
"""The revisions of that era before that one."""

LEGACY_REVISIONS: Final = frozenset({*OLDEST, OLDER, LEGACY})
"""The revisions that a server in the handshake era can negotiate."""

DECLARED: Final[Mapping[str, Any]] = {"extensions": {EXTENSION_ID: {}}}
"""Capabilities of a client that supports the extension."""

UNDECLARED: Final[Mapping[str, Any]] = {}
"""Capabilities of a client that does not support it."""

META_PREFIX: Final = "io.modelcontextprotocol/"
"""The prefix of the base protocol's `_meta` members."""

_CLIENT: Final = {"name": "tools-search-conformance", "version": "1"}
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def envelope(capabilities: Mapping[str, Any]) -> JsonObject:
    """Return the `_meta` members for every modern request."""
    return {
        f"{META_PREFIX}protocolVersion": MODERN,
        f"{META_PREFIX}clientInfo": dict(_CLIENT),
        f"{META_PREFIX}clientCapabilities": dict(capabilities),
    }


def handshake(capabilities: Mapping[str, Any], revision: str = LEGACY) -> JsonObject:
    """Return the params for a legacy `initialize`."""
    return {"protocolVersion": revision, "capabilities": dict(capabilities), "clientInfo": dict(_CLIENT)}


def modern_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the HTTP headers that mirror a modern request."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = params.get(_NAMED.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = _header_value(name)
    return headers


def _header_value(text: str) -> str:
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode('ascii')}?="
