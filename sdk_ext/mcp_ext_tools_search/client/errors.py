"""The errors of a search, by whose fault they are.

    ToolsSearchError
    ├── ToolsSearchNotAdvertisedError      ours: nothing was sent, the server does not offer the extension
    ├── InvalidSearchRequestError          ours: nothing was sent, a parameter is invalid   (also a ValueError)
    └── InvalidSearchResultError           theirs: the server's result is unusable   (also a ValueError)

    mcp.MCPError                      the SDK's, unchanged: an error response, a timeout, a closed connection

A host falls back to `tools/list` after `ToolsSearchNotAdvertisedError`, `InvalidSearchResultError` and the errors
-32601 and -32021. It does not list the tools of a server that is too busy (`retry_after`).
"""

from __future__ import annotations

from typing import Any, Final

from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from mcp_ext_tools_search.types import TOOLS, Primitive

_DAY_MS: Final = 86_400_000


class ToolsSearchError(Exception):
    """Base class of the errors that this package raises."""


class ToolsSearchNotAdvertisedError(ToolsSearchError):
    """The server does not advertise the method. Use the list."""

    def __init__(self, primitive: Primitive[Any] = TOOLS) -> None:
        there = f"use {primitive.list_method} and rank locally"
        super().__init__(f"the server does not advertise {primitive.method}: {there}")


class InvalidSearchRequestError(ToolsSearchError, ValueError):
    """A parameter is invalid on every server. `reason` says which one and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not sent: {reason}")
        self.reason = reason


class InvalidSearchResultError(ToolsSearchError, ValueError):
    """The server's result is unusable. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server answered a search with an unusable result: {reason}")
        self.reason = reason


def retry_after(error: Exception) -> float | None:
    """Return the seconds to wait before searching a busy server again, at most a day, or `None` for other errors."""
    data = error.data if isinstance(error, MCPError) and error.code == INTERNAL_ERROR else None
    match data:
        case {"retryAfterMs": bool()}:  # which Python takes for an integer
            return None
        case {"retryAfterMs": int() | float() as delay} if delay >= 0:
            return min(delay, _DAY_MS) / 1000
        case _:
            return None
