"""`tools/list` by pages, in the form that each protocol era allows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

from mcp import MCPError
from mcp_ext_tools_search.server import sieve_tools
from mcp_types import INVALID_PARAMS, ListToolsResult, Tool

__all__ = ["ToolPages"]


class ToolPages:
    """One state of a listing, cut into pages of at most `size` tools.

    The object never changes: a changed listing is a new `ToolPages`. A cursor names the last tool of a page by digest,
    so that it holds on every replica, and over changes elsewhere in the listing.
    """

    def __init__(self, tools: Sequence[Tool], size: int) -> None:
        self.tools = tools
        self._size = size
        self._of_era = cache(self._sieve)

    def page(self, cursor: str | None, protocol_version: str) -> ListToolsResult:
        """Return the page after `cursor`, without the definitions that are invalid in that version.

        Raises:
            MCPError: -32602, this listing has no such cursor.
        """
        tools, positions = self._of_era(protocol_version)
        start = 0 if cursor is None else positions.get(cursor)
        if start is None:
            reason = "is not from this listing, or the listing has changed; list again from the start"
            raise MCPError(INVALID_PARAMS, "Invalid cursor", {"field": "cursor", "reason": reason})
        end = start + self._size
        return ListToolsResult(
            tools=list(tools[start:end]), next_cursor=_cursor(tools[end - 1]) if end < len(tools) else None
        )

    def _sieve(self, protocol_version: str) -> tuple[Sequence[Tool], dict[str, int]]:
        tools = sieve_tools(self.tools, protocol_version)
        return tools, {_cursor(tool): position for position, tool in enumerate(tools, start=1)}


def _cursor(last: Tool) -> str:
    return "after-" + hashlib.sha256(last.name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
