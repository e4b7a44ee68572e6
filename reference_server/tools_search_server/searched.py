"""One index of a gateway's tools for everything that searches them: the extension and the compatibility modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.caching import CacheHint
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.server import Listing, ToolsSearch

from tools_search_server.gateway import Gateway
from tools_search_server.limits import Limits
from tools_search_server.views import Views

__all__ = ["Searched"]

_TTL_MS: Final = 5_000


class Searched:
    """What the callers of a gateway see, and can search.

    Args:
        gateway: Whose tools these are.
        limits: Of a search.
    """

    def __init__(self, gateway: Gateway, limits: Limits) -> None:
        self.limits = limits
        self.categories = gateway.metadata.categories
        """Descriptions of categories, as the configuration states them."""
        self.views = Views(gateway, gateway.access)
        self.caching = CacheHint(ttl_ms=_TTL_MS, scope="private" if gateway.access.principals else "public")
        """How long a listing may be trusted, and whether by others."""
        self.search = ToolsSearch(
            settings=lambda: self.views.settings(limits.max_limit),
            default_limit=limits.default_limit,
            max_limit=limits.max_limit,
            cursor_key=limits.cursor_key,
            catalogue=self.views.catalogue,
            listing=self._listing,
        )

    def definitions(self, ctx: ServerRequestContext[Any, Any]) -> dict[str, dict[str, Any]]:
        """Return the tools by name as the listing of the caller of `ctx` carries them.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
        """
        return self.views.seen_by(ctx).pages.wire(ctx.protocol_version)

    async def hits(self, ctx: ServerRequestContext[Any, Any], query: str) -> Sequence[Hit]:
        """Return what `tools/search` finds for the caller of `ctx`, best first, without an end.

        Args:
            ctx: Who asks.
            query: Text that is not blank.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
        """
        return await self.search.rank(self.definitions(ctx), query, ctx.protocol_version)

    def _listing(self, ctx: ServerRequestContext[Any, Any]) -> Listing:
        return Listing(self.definitions(ctx), ttl_ms=self.caching.ttl_ms, cache_scope=self.caching.scope)
