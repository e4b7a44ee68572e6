"""The errors of a search, by whose fault they are.

    ToolsSearchError
    ├── ToolsSearchNotAdvertisedError      ours: nothing was sent, the server does not offer the extension
    ├── InvalidSearchRequestError          ours: nothing was sent, a parameter is wrong   (also a ValueError)
    └── InvalidSearchResultError           theirs: the server's answer cannot be used   (also a ValueError)

    mcp.MCPError                      the SDK's, untouched: an error response, a timeout, a closed connection

A host falls back to `tools/list` after `ToolsSearchNotAdvertisedError`, `InvalidSearchResultError` and the errors
-32601 and -32021. It does not list a server that is too busy (`retry_after`).
"""

from __future__ import annotations

from typing import Any, Final

from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from mcp_ext_tools_search.types import TOOLS, Primitive

_DAY_MS: Final = 86_400_000


class ToolsSearchError(Exception):
    """Base of the errors that this package raises."""


class ToolsSearchNotAdvertisedError(ToolsSearchError):
    """The server does not advertise the method; use the list."""

    def __init__(self, primitive: Primitive[Any] = TOOLS) -> None:
        super().__init__(
            f"the server does not advertise {primitive.method}: use {primitive.list_method} and rank locally"
        )


class InvalidSearchRequestError(ToolsSearchError, ValueError):
    """A parameter that every server would refuse; `reason` says which, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not sent: {reason}")
        self.reason = reason


class InvalidSearchResultError(ToolsSearchError, ValueError):
    """A result that cannot be used; `reason` says what is wrong about it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server answered a search with an unusable result: {reason}")
        self.reason = reason


def retry_after(error: MCPError) -> float | None:
    """Return after how many seconds a server that was too busy may be searched again, a day at most; or else `None`."""
    match error.data:
        case {"retryAfterMs": bool()}:
            return None
        case {"retryAfterMs": int() | float() as delay} if error.code == INTERNAL_ERROR and delay >= 0:
            return min(delay, _DAY_MS) / 1000
        case _:
            return None
