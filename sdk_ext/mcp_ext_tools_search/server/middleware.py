"""What stands in a server's middleware chain: advertises the extension, and admits and equips each search."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.session import ServerSession

from mcp_ext_tools_search.server._chain import complete_chain
from mcp_ext_tools_search.server.advertisement import PLACES, advertise_in, as_object
from mcp_ext_tools_search.server.failure import ServerFault, internal_faults_hidden
from mcp_ext_tools_search.server.listing import ListPage
from mcp_ext_tools_search.server.request import too_busy
from mcp_ext_tools_search.types import METHOD

__all__ = ["SearchMiddleware", "caller_listing"]

_list_page: ContextVar[tuple[ServerSession, ListPage] | None] = ContextVar("tools_search_list_page", default=None)
"""How the search under way lists tools. The session tells whose search: contexts are copied into tasks of others."""


def caller_listing(ctx: ServerRequestContext[Any, Any]) -> ListPage:
    """Return what lists tools for the caller of `ctx`, as the middleware has left it for this very request.

    Raises:
        ServerFault: The middleware is not installed on this server.
    """
    current = _list_page.get()
    if current is None or current[0] is not ctx.session:
        raise ServerFault("the method is bound but not installed: call ToolsSearch.install(server)")
    return current[1]


class SearchMiddleware:
    """Advertises the extension in both eras, bounds the searches, and lets each list as its caller does.

    Args:
        server: The server in whose chain it stands.
        settings: Asked for what is advertised, each time.
        read: Raises for a search that is refused whatever else is under way.
        most_searches: Searches that are answered at the same time.
    """

    def __init__(
        self,
        server: Server[Any],
        settings: Callable[[], dict[str, Any]],
        read: Callable[[ServerRequestContext[Any, Any]], object],
        most_searches: int,
    ) -> None:
        self._server = server
        self._settings = settings
        self._read = read
        self._most_searches = most_searches
        self._searches = 0

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer one message, as the SDK's `ServerMiddleware` asks for."""
        if ctx.request_id is None:
            return await call_next(ctx)
        if ctx.method in PLACES:
            answer = await call_next(ctx)
            with internal_faults_hidden(f"advertising {METHOD}"):
                return advertise_in(ctx.method, answer, self._settings())
        if ctx.method != METHOD:
            return await call_next(ctx)
        self._read(ctx)  # what is refused takes no other search's place
        if self._searches >= self._most_searches:
            raise too_busy()
        self._searches += 1
        token = _list_page.set((ctx.session, self._lister(ctx, call_next)))
        try:
            return await call_next(ctx)
        finally:
            _list_page.reset(token)
            self._searches -= 1

    def _lister(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> ListPage:
        """Return what lists tools for the caller of `ctx`, through every middleware but this one."""
        own: ServerMiddleware[Any] = self
        meta = (ctx.params or {}).get("_meta")  # on modern connections it carries who is asking

        async def list_page(cursor: str | None) -> dict[str, Any]:
            call = complete_chain(self._server, own, call_next)
            params = {name: value for name, value in (("_meta", meta), ("cursor", cursor)) if value is not None}
            return as_object(await call(replace(ctx, method="tools/list", params=params)))

        return list_page
