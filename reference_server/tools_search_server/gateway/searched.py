"""One index of a gateway's tools for everything that searches them: the extension and the compatibility modes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.caching import CacheHint
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.server import Answer, ToolsSearch
from tools_search_ranking import default_ranker
from tools_search_ranking.cache import IndexCache

from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway.gateway import Gateway, Offer
from tools_search_server.gateway.remote_search import RemoteSearch
from tools_search_server.gateway.remote_tools import found_offer
from tools_search_server.gateway.views import Views
from tools_search_server.gateway.whole_listing import WholeListing

__all__ = ["Searched"]

_TTL_MS: Final = 5_000

_LARGE_RANKED_AT_ONCE: Final = 4
"""Searches of large catalogs that are ranked at the same time."""


class Searched:
    """What the callers of a gateway see, and can search.

    Args:
        gateway: Whose tools these are.
        limits: Of a search.
    """

    def __init__(self, gateway: Gateway, limits: Limits) -> None:
        self.limits = limits
        self._gateway = gateway
        self.categories = gateway.metadata.categories
        """Descriptions of categories, as the configuration states them."""
        self.views = Views(gateway, gateway.access)
        self._remote = RemoteSearch(gateway, self.views)
        self.caching = CacheHint(ttl_ms=_TTL_MS, scope="private" if gateway.access.principals else "public")
        """How long a listing may be trusted, and whether by others."""
        self._indexes = IndexCache(limits.ranker or default_ranker(), max_concurrency=_LARGE_RANKED_AT_ONCE)
        self.search = ToolsSearch(
            search=self._search,
            settings=self.views.settings,
            default_limit=limits.default_limit,
            max_limit=limits.max_limit,
            max_searches=limits.searches_at_once,
            cursor_key=limits.cursor_key,
        )
        self.listing = WholeListing(gateway, limits)
        """What `tools/list` answers."""

    def definitions(self, ctx: ServerRequestContext[Any, Any]) -> dict[str, dict[str, Any]]:
        """Return the tools by name as the listing of the caller of `ctx` carries them.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
        """
        return self.views.seen_by(ctx).pages.wire(ctx.protocol_version)

    async def found(
        self, ctx: ServerRequestContext[Any, Any], query: str
    ) -> tuple[Sequence[Hit], Mapping[str, Offer], Mapping[str, dict[str, Any]]]:
        """Return what `tools/search` finds for the caller of `ctx`, best first, without an end.

        With it come the tools found that are in no index, and the definitions of all.

        Args:
            ctx: Who asks.
            query: Text that is not blank.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
        """
        answer, offers = await self._found(ctx, query, None)
        return answer.hits, offers, answer.tools

    async def named(
        self, ctx: ServerRequestContext[Any, Any], names: Iterable[str]
    ) -> tuple[Mapping[str, Offer], Mapping[str, dict[str, Any]]]:
        """Return those of the tools with these names that are in no index, and their definitions.

        Raises:
            MCPError: Principals are configured, and an HTTP caller is none of them.
            NoAnswerError: A server that may have one of them did not answer.
        """
        view = self.views.seen_by(ctx)
        beyond = [name for name in names if name not in view.offers]
        found = [offer for name in beyond if (offer := await found_offer(self._gateway, view, name)) is not None]
        definitions = ToolPages([offer.tool for offer in found], len(found)).wire(ctx.protocol_version)
        return {offer.tool.name: offer for offer in found}, definitions

    async def _search(self, ctx: ServerRequestContext[Any, Any], query: str, note: str | None) -> Answer:
        """Answer `tools/search`."""
        answer, _ = await self._found(ctx, query, note)
        return answer

    async def _found(
        self, ctx: ServerRequestContext[Any, Any], query: str, note: str | None
    ) -> tuple[Answer, Mapping[str, Offer]]:
        tools = self.definitions(ctx)
        hits = await self._indexes.rank(tools, query, catalog=self.views.catalog(ctx.protocol_version))
        indexed = Answer(hits, tools, self.caching.ttl_ms, self.caching.scope)
        return await self._remote.extended(ctx, query, indexed, note)
