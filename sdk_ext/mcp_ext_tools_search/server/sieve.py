"""Definitions that are valid in one protocol era and not in another.

The SDK checks a `tools/list` page as a whole: one tool that the caller's revision does not allow makes the listing fail
for all of them. A server whose definitions come from elsewhere (a file, other servers) sieves them first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp_types import ListToolsResult, Tool, methods
from pydantic import ValidationError

__all__ = ["sieve_tools", "wire_form"]


def sieve_tools(tools: Iterable[Tool], protocol_version: str) -> list[Tool]:
    """Return the tools whose definition `protocol_version` allows, in their order.

    For a low-level server's own `tools/list` handler: `sieve_tools(tools, ctx.protocol_version)`.
    """
    return [tool for tool in tools if wire_form(tool, protocol_version) is not None]


def wire_form(tool: Tool, protocol_version: str) -> dict[str, Any] | None:
    """Return a definition as a listing of `protocol_version` carries it, or `None` where that does not allow it."""
    page = ListToolsResult(tools=[tool]).model_dump(by_alias=True, mode="json", exclude_none=True)
    try:
        return methods.serialize_server_result("tools/list", protocol_version, page)["tools"][0]
    except ValidationError:
        return None
