"""Where a server says that it can be searched (draft: Capability Negotiation)."""

from __future__ import annotations

from typing import Any, Final, cast

from mcp import MCPError
from mcp.server.context import HandlerResult
from mcp_types import ErrorData
from pydantic import BaseModel

from mcp_ext_tools_search.types import EXTENSION_ID

__all__ = ["PLACES", "advertise_in", "as_object"]

PLACES: Final = {
    "server/discover": ("extensions",),
    # The SDK takes `extensions` out of the legacy result, and older clients know no such member: both places, always.
    "initialize": ("extensions", "experimental"),
}
"""Members of `capabilities` that hold the settings, by the method whose result they stand in."""


def as_object(result: HandlerResult) -> dict[str, Any]:
    """Return what a handler or middleware answered as a JSON object.

    Raises:
        MCPError: It answered with an error instead of raising it, as the SDK allows.
    """
    if isinstance(result, ErrorData):
        raise MCPError.from_error_data(result)
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return result or {}


def advertise_in(method: str, result: HandlerResult, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `method` with `settings` at each of its places, and with `tools` declared beside them."""
    answer = as_object(result)
    capabilities = _member(answer, "capabilities")
    for place in PLACES[method]:
        capabilities[place] = {**_member(capabilities, place), EXTENSION_ID: settings}
    return {**answer, "capabilities": {"tools": {}, **capabilities}}


def _member(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
