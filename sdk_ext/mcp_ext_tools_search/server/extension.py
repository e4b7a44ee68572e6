"""`ToolsSearch`: the server side of the extension, and the middleware that it installs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp_types.methods import SPEC_CLIENT_METHODS

from mcp_ext_tools_search import types
from mcp_ext_tools_search.cursor import CursorKey, InvalidCursorError
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_ext_tools_search.server import negotiation
from mcp_ext_tools_search.server._sdk import complete_chain, lowlevel_server
from mcp_ext_tools_search.server.errors import ServerSetupError, internal_faults_hidden, invalid_params, too_busy
from mcp_ext_tools_search.server.listing import ListPage, list_page_of_search
from mcp_ext_tools_search.server.search import Answer, ListingSearch, PageSearch, Search, SearchMethod, cut_page
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD, TOOLS, SearchToolsRequestParams, ServerSettings

if TYPE_CHECKING:
    from mcp_ext_search_primitives.server import PromptsSearch, ResourcesSearch

logger = logging.getLogger(__name__)

_SETTINGS: Final = "a ServerSettings(...), or an ordinary function that returns one"
_MIN_QUERY_CHARS: Final = 1024  # Draft, Request: a query of up to 1,024 characters is always accepted
_MAX_BY_DEFAULT: Final = 20  # Draft, Request: without `limit`, a page should not hold more


class ToolsSearch(Extension):
    """Serves `tools/search` over each caller's own `tools/list`.

    One line makes a server searchable: `ToolsSearch().install(server)`. To use `MCPServer(extensions=[search])`, also
    call `search.install(server)`. Without `install`, every search is refused, since an extension alone does not know
    what the caller may see.

    Args:
        ranker: Ranks the tools. The default, `SimpleRanker`, suits catalogs of hundreds of tools. Several threads may
            search its indexes.
        settings: The settings to advertise, or a function that returns them at every connection and discovery. The
            advertised `maxLimit` is `max_limit`, or a lower one in these settings.
        cursor_key: Secret of at least 32 bytes, shared by the replicas of one server. Random by default.
        default_limit: Maximum page size for a request without `limit`, from 1 to 20.
        max_limit: Maximum page size for any request. A larger `limit` is reduced to it.
        max_query_chars: Maximum query length, at least 1,024 characters.
        max_concurrency: Maximum number of concurrent rankings of large listings.
        max_searches: Maximum number of open searches, including waiting ones. Any more are refused as too busy.
        search: Replaces listing and ranking, for servers that keep their listings ready or that search other servers.
            `ranker` and `max_concurrency` then have no effect. By default, each search lists as its caller does,
            through all middleware, and cannot find what the caller does not see. A function passed here has to ensure
            that itself.
        page_search: Like `search`, for tools that are not in memory. Called for one page at a time.
        resources: `True` also serves `resources/search` and `resources/templates/search`, over the caller's own lists.
            Pass a `ResourcesSearch` to configure them (draft: Search of Resources and Prompts).
        prompts: The same for `prompts/search`.

    Raises:
        ValueError: An argument is out of range.
    """

    identifier = EXTENSION_ID

    def __init__(
        self,
        *,
        ranker: Ranker | None = None,
        settings: ServerSettings | Callable[[], ServerSettings] | None = None,
        cursor_key: bytes | None = None,
        default_limit: int = 10,
        max_limit: int = 50,
        max_query_chars: int = 4096,
        max_concurrency: int = 4,
        max_searches: int = 64,
        search: Search | None = None,
        page_search: PageSearch | None = None,
        resources: bool | ResourcesSearch = False,
        prompts: bool | PromptsSearch = False,
    ) -> None:
        if type(default_limit) is not int or not 1 <= default_limit <= _MAX_BY_DEFAULT:
            raise ValueError(f"default_limit must be from 1 to {_MAX_BY_DEFAULT}, not {default_limit!r}")
        bounds = {"max_limit": (max_limit, 1), "max_query_chars": (max_query_chars, _MIN_QUERY_CHARS)}
        bounds |= {"max_concurrency": (max_concurrency, 1), "max_searches": (max_searches, 1)}
        for name, (value, least) in bounds.items():
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
        for name, function in (("search", search), ("page_search", page_search)):
            types.require_kind(name, function, Callable, type(None), instead="an async function that returns an Answer")
        types.require_kind("settings", settings, ServerSettings, Callable, type(None), instead=_SETTINGS)
        self._settings = settings
        self._default_limit = default_limit
        stated = settings.max_limit if isinstance(settings, ServerSettings) else None
        self._max_limit = max_limit if stated is None else min(max_limit, stated)
        self._max_query_chars = max_query_chars
        self.max_searches = max_searches
        ranker = SimpleRanker() if ranker is None else ranker
        searches = {TOOLS: search or ListingSearch(ranker, max_concurrency=max_concurrency)}
        self._optional: dict[str, dict[str, Any]] = {}
        self._attach: Callable[[MCPServer[Any] | Server[Any], Server[Any]], None] = lambda _, __: None
        if resources is not False or prompts is not False:
            from mcp_ext_search_primitives.server import optional_searches

            more, self._optional, self._attach = optional_searches(resources, prompts, ranker, max_concurrency)
            searches |= more
        self.search_methods = {
            kind.method: SearchMethod(kind, own, CursorKey(cursor_key, kind.method)) for kind, own in searches.items()
        }
        self._page_search = page_search

    def settings(self) -> dict[str, Any]:
        """Return the settings to advertise now."""
        stated = self._settings() if callable(self._settings) else self._settings or ServerSettings()
        types.require_kind("what the settings function returns", stated, ServerSettings, instead=_SETTINGS)
        said = stated.model_copy(update={"max_limit": self._max_limit}).to_wire()
        for name in ("resources", "prompts"):  # what is not searched is not advertised
            own = said.pop(name, {}) | {"maxLimit": self._max_limit}
            said |= {name: self._optional[name] | own} if name in self._optional else {}
        return said

    def methods(self) -> Sequence[MethodBinding]:
        """Return the bindings, or none if the SDK itself defines `tools/search`."""
        if METHOD in SPEC_CLIENT_METHODS:  # a binding of such a method would raise, and the server would not start
            logger.warning("this SDK defines %s itself: the extension stands aside", METHOD)
            return ()
        return [MethodBinding(method, negotiation.AnyParams, self._serve) for method in self.search_methods]

    def install(self, server: MCPServer[Any] | Server[Any]) -> None:
        """Make `server` searchable: bind the method, advertise it, and use each caller's own listing.

        The middleware is installed first in the chain. Middleware added before it later still decides what a search can
        find, since a search lists through the whole chain; it runs for the search and for each page of the listing.

        Raises:
            TypeError: `server` is neither an `MCPServer` nor a low-level `Server`.
            ValueError: The server has no list to search, or is already searchable.
        """
        lowlevel = lowlevel_server(server)
        # All checks come before all changes, so that an install that fails leaves the server as it was.
        bindings = self.methods()
        if not bindings:
            lowlevel.extensions.pop(EXTENSION_ID, None)
            return
        for listed in ("tools", *self._optional):
            if lowlevel.get_request_handler(f"{listed}/list") is None:
                raise ValueError(f"{lowlevel.name!r} has no {listed}/list: pass on_list_{listed} to Server() first")
        if any(isinstance(middleware, _SearchMiddleware) for middleware in lowlevel.middleware):
            raise ValueError(f"{lowlevel.name!r} is searchable already: install one ToolsSearch, once")
        for method in self.search_methods:
            bound = lowlevel.get_request_handler(method)
            if bound is not None and bound.handler != self._serve:
                raise ValueError(f"{lowlevel.name!r} has another {method} handler: remove it, or do without this one")
        self._attach(server, lowlevel)
        lowlevel.extensions[EXTENSION_ID] = self.settings()
        for binding in bindings:
            lowlevel.add_request_handler(binding.method, binding.params_type, binding.handler)
        lowlevel.middleware.insert(0, _SearchMiddleware(self, lowlevel))

    async def _serve(self, ctx: ServerRequestContext[Any, Any], _params: negotiation.AnyParams) -> HandlerResult:
        """Answer one search. The parameters are read again, because later middleware may have changed them."""
        params = self.read(ctx)
        size = min(self._default_limit if params.limit is None else params.limit, self._max_limit)
        method = self.search_methods[ctx.method]
        with internal_faults_hidden(ctx.method):
            try:
                continuation = None if params.cursor is None else method.cursors.read(params.cursor, params.query)
                if self._page_search is None or method.primitive is not TOOLS:
                    # The note of the previous page, so that the answer is composed in the same way.
                    note = None if continuation is None else continuation.note
                    found = method.search(ctx, params.query, note)
                else:
                    start = 0 if continuation is None else continuation.position
                    found = self._page_search(ctx, params.query, range(start, start + size))
                answer = await found if isawaitable(found) else None
                if not isinstance(answer, Answer):
                    raise ServerSetupError("a search must be an async function that returns an Answer")
                page = cut_page(method, params.query, answer, continuation, size)
            except InvalidCursorError as error:
                raise invalid_params("cursor", str(error)) from None
            # The SDK sends what a handler returns, and legacy results do not have the members below.
            if not negotiation.is_modern(ctx):
                return page
            # For caching; the same on every page, because these belong to the whole answer.
            return page | {"resultType": "complete", "ttlMs": answer.ttl_ms, "cacheScope": answer.cache_scope}

    def read(self, ctx: ServerRequestContext[Any, Any]) -> SearchToolsRequestParams:
        """Return the parameters of a search. Raises `MCPError` if the client declared nothing, or one is invalid."""
        negotiation.require_declared(ctx)
        return negotiation.read_params(ctx, self._max_query_chars)


def install(server: MCPServer[Any] | Server[Any], search: ToolsSearch | None = None) -> ToolsSearch:
    """Make `server` searchable with `search`, by default a new `ToolsSearch`, and return it."""
    types.require_kind("the second argument of install", search, ToolsSearch, type(None), instead="a ToolsSearch(...)")
    search = search or ToolsSearch()
    search.install(server)
    return search


class _SearchMiddleware:
    """Advertises the extension in both eras, limits concurrent searches, and lets each search list as its caller."""

    def __init__(self, search: ToolsSearch, server: Server[Any]) -> None:
        self._search, self._server = search, server
        self._under_way = 0

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer one message (`ServerMiddleware` of the SDK)."""
        method = self._search.search_methods.get(ctx.method)
        if ctx.request_id is not None and ctx.method in negotiation.PLACES:
            answer = await call_next(ctx)
            with internal_faults_hidden(f"advertising {METHOD}"):  # the settings may come from the operator's function
                return negotiation.advertise_in(ctx.method, answer, self._search.settings())
        if ctx.request_id is None or method is None:  # a notification, or another request
            return await call_next(ctx)
        self._search.read(ctx)  # raises for an invalid search, before it takes the place of another
        if self._under_way >= self._search.max_searches:
            raise too_busy()
        self._under_way += 1
        token = list_page_of_search.set((ctx.session, self._lister(ctx, call_next, method.primitive.list_method)))
        try:
            return await call_next(ctx)
        finally:
            list_page_of_search.reset(token)
            self._under_way -= 1

    def _lister(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, list_method: str) -> ListPage:
        """Return a function that lists for the caller of `ctx`, through all middleware except this one."""
        own: ServerMiddleware[Any] = self
        meta = (ctx.params or {}).get("_meta")  # on modern connections, it identifies the client

        async def list_page(cursor: str | None) -> dict[str, Any]:
            call = complete_chain(self._server, own, call_next)
            params = {name: value for name, value in (("_meta", meta), ("cursor", cursor)) if value is not None}
            return negotiation.as_object(await call(replace(ctx, method=list_method, params=params)))

        return list_page
