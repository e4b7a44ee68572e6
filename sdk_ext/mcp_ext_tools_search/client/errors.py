"""What can go wrong in a search, by whose fault it is.

    ToolsSearchError
    ├── ToolsSearchNotAdvertised      ours: nothing was sent, the server does not offer the extension
    ├── InvalidSearchRequest          ours: nothing was sent, a parameter is wrong   (also a ValueError)
    └── InvalidSearchResult           theirs: the server answered what the draft forbids   (also a ValueError)

    mcp.MCPError                      the SDK's, untouched: an error response, a timeout, a closed connection

A host falls back to `tools/list` after `ToolsSearchNotAdvertised` and `InvalidSearchResult`.
"""

from __future__ import annotations

__all__ = ["InvalidSearchRequest", "InvalidSearchResult", "ToolsSearchError", "ToolsSearchNotAdvertised"]


class ToolsSearchError(Exception):
    """Base of the errors that this package raises."""


class ToolsSearchNotAdvertised(ToolsSearchError):
    """The server does not advertise the extension; use `tools/list`."""

    def __init__(self) -> None:
        super().__init__("the server does not advertise tools/search: use tools/list and rank locally")


class InvalidSearchRequest(ToolsSearchError, ValueError):
    """A parameter that every server would refuse."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not sent: {reason}")
        self.reason = reason
        """Which parameter is wrong, and why."""


class InvalidSearchResult(ToolsSearchError, ValueError):
    """A result that breaks the draft; nothing of it is to be used."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server answered tools/search with an invalid result: {reason}")
        self.reason = reason
        """What about the result is wrong."""
