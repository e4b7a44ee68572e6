"""Which tools a caller sees: all of them, unless the catalogue hides some from whoever shows its token."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp_ext_tools_search.server import Catalogue
from mcp_types import Tool

from tools_search_server.paging import ToolPages

__all__ = ["VisibleTools", "bearer_token"]

_SCHEME: Final = "bearer "


class VisibleTools:
    """What one caller can list, and therefore find and call.

    Args:
        tools: The tools of the catalogue, in its order.
        page_size: Tools on one page of the listing.
        hidden: Names of those that this caller does not see.
    """

    def __init__(self, tools: Iterable[Tool], page_size: int, hidden: frozenset[str] = frozenset()) -> None:
        seen = [tool for tool in tools if tool.name not in hidden]
        self.pages = ToolPages(seen, page_size)
        self.by_name = {tool.name: tool for tool in seen}
        self.catalogue: Callable[[str], Catalogue] = cache(self._catalogue)
        """Returns the definitions as a listing in a protocol version carries them, the same object each time."""

    def _catalogue(self, protocol_version: str) -> Catalogue:
        return Catalogue(self.pages.wire(protocol_version))


def bearer_token(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the token that an HTTP caller shows, or `None` for all others."""
    shown = "" if ctx.request is None else ctx.request.headers.get("authorization", "")
    return shown[len(_SCHEME) :].strip() if shown.lower().startswith(_SCHEME) else None
