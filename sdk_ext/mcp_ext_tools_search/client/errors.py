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

from typing import Final

from mcp import MCPError
from mcp_types import INTERNAL_ERROR

_DAY_MS: Final = 86_400_000


class ToolsSearchError(Exception):
    """Base of the errors that this package raises."""


class ToolsSearchNotAdvertisedError(ToolsSearchError):
    """The server does not advertise the extension; use `tools/list`."""

    def __init__(self) -> None:
        super().__init__("the server does not advertise tools/search: use tools/list and rank locally")


class InvalidSearchRequestError(ToolsSearchError, ValueError):
    """A parameter that every server would refuse; `reason` says which, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not sent: {reason}")
        self.reason = reason


class InvalidSearchResultError(ToolsSearchError, ValueError):
    """A result that cannot be used; `reason` says what is wrong about it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server answered tools/search with an unusable result: {reason}")
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
