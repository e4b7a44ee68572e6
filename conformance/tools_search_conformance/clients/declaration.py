"""What a client declares of the extension, and where."""

from __future__ import annotations

from typing import Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.record import Exchange

__all__ = ["CAPABILITIES_KEY", "capabilities_of", "declared_in"]

CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
"""Where a modern request has the capabilities of its client, in `_meta`."""


def capabilities_of(exchange: Exchange) -> JsonObject:
    """Return the client capabilities that a modern request or a legacy `initialize` carries."""
    params = as_object(exchange.sent.get("params")) or {}
    if exchange.sent.get("method") == "initialize":
        return as_object(params.get("capabilities")) or {}
    return as_object((as_object(params.get("_meta")) or {}).get(CAPABILITIES_KEY)) or {}


def declared_in(exchange: Exchange, place: str | None = None) -> JsonObject | None:
    """Return the declaration of the extension, at `place` or at either; anything but an object is none."""
    capabilities = capabilities_of(exchange)
    for each in ("extensions", "experimental") if place is None else (place,):
        held: Any = (as_object(capabilities.get(each)) or {}).get(EXTENSION_ID)
        if (declared := as_object(held)) is not None:
            return declared
    return None
