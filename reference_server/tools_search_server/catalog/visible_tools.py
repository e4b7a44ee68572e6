"""Which tools a caller sees: all of them, unless the catalog hides some from whoever shows its token."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import cache
from typing import Any, Final

from mcp.server import ServerRequestContext
from tools_search_ranking.cache import CatalogSnapshot

from tools_search_server.base.paging import ToolPages

__all__ = ["VisibleTools", "bearer_token"]

_SCHEME: Final = "bearer "


class VisibleTools:
    """What one caller can list, and therefore find and call.

    Args:
        pages: The listing.
    """

    def __init__(self, pages: ToolPages) -> None:
        self.pages = pages
        self.by_name = {tool.name: tool for tool in pages.tools}
        self.catalog: Callable[[str], CatalogSnapshot] = cache(self._catalog)
        """Returns the definitions as a listing in a protocol version carries them, the same object each time."""

    def without(self, hidden: Set[str]) -> VisibleTools:
        """Return what a caller sees from whom the tools of these names are hidden."""
        return VisibleTools(self.pages.part(self.by_name.keys() - hidden))

    def _catalog(self, protocol_version: str) -> CatalogSnapshot:
        return CatalogSnapshot(self.pages.wire(protocol_version))


def bearer_token(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the token that an HTTP caller shows, or `None` for all others."""
    shown = "" if ctx.request is None else ctx.request.headers.get("authorization", "")
    return shown[len(_SCHEME) :].strip() if shown.lower().startswith(_SCHEME) else None
