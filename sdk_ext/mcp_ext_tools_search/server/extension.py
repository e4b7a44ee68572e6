"""`ToolsSearch`: the extension as a server offers it, and the middleware that it installs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp_types.methods import SPEC_CLIENT_METHODS

from mcp_ext_tools_search.cursor import CursorKey, InvalidCursorError
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_ext_tools_search.server import negotiation
from mcp_ext_tools_search.server._sdk import complete_chain, lowlevel_server
from mcp_ext_tools_search.server.errors import internal_faults_hidden, invalid_params, too_busy
from mcp_ext_tools_search.server.listing import ListPage, list_page_of_search
from mcp_ext_tools_search.server.search import ListingSearch, Search, SearchMethod, cut_page
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD, TOOLS, SearchToolsRequestParams, ServerSettings

if TYPE_CHECKING:
    from mcp_ext_search_primitives.server import PromptsSearch, ResourcesSearch

logger = logging.getLogger(__name__)

_MIN_QUERY_CHARS: Final = 1024  # Draft, Request: a query of up to 1,024 characters is always accepted
_MAX_BY_DEFAULT: Final = 20  # Draft, Request: without `limit`, a page should not hold more


class ToolsSearch(Extension):
    """Serves `tools/search` over what each caller's own `tools/list` shows.

    One line makes a server searchable: `ToolsSearch().install(server)`. `MCPServer(extensions=[search])` followed by
    `search.install(server)` is the same; without `install` every search is refused, since an extension alone does not
    know what the caller may see.

    Args:
        ranker: Orders the tools; by default a `SimpleRanker`, which suits catalogs of hundreds of tools. Its indexes
            may be searched from several threads.
        settings: What is advertised, or a function that is asked for it at every connection and discovery. `maxLimit`
            is that of pages: `max_limit`, or what a value says itself where that is lower.
        cursor_key: Secret of at least 32 bytes that replicas of one server share; random by default.
        default_limit: Largest page of a request without `limit`, from 1 to 20.
        max_limit: Largest page of all. A request for more gets this many.
        max_query_chars: Longest query, at least 1,024 characters.
        max_concurrency: Number of searches over large listings that are ranked at the same time.
        max_searches: Number of searches that are answered at the same time, waiting ones included. One more is refused
            as one too many, with error -32603 that says when to search again.
        search: Finds the tools in place of listing and ranking (`ranker` and `max_concurrency` then have no effect):
            for servers that keep their listings ready, or that search other servers. By default each search lists as
            its caller does, through every middleware, and cannot find what the caller is not shown; a function passed
            here has to see to that itself.
        resources: `True` serves `resources/search` and `resources/templates/search` too, in the same way over the
            caller's own lists; a `ResourcesSearch` says how (draft: Search of Resources and Prompts).
        prompts: The same for `prompts/search`.

    Raises:
        ValueError: An argument is out of its bounds.
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
        resources: bool | ResourcesSearch = False,
        prompts: bool | PromptsSearch = False,
    ) -> None:
        if not 1 <= default_limit <= _MAX_BY_DEFAULT:
            raise ValueError(f"default_limit must be from 1 to {_MAX_BY_DEFAULT}, not {default_limit}")
        if max_limit < 1:
            raise ValueError(f"max_limit must be at least 1, not {max_limit}")
        if max_query_chars < _MIN_QUERY_CHARS:
            raise ValueError(f"max_query_chars must be at least {_MIN_QUERY_CHARS}, not {max_query_chars}")
        if max_searches < 1:
            raise ValueError(f"max_searches must be at least 1, not {max_searches}")
        self._settings = settings
        self._default_limit = default_limit
        stated = settings.max_limit if isinstance(settings, ServerSettings) else None
        self._max_limit = max_limit if stated is None else min(max_limit, stated)
        self._max_query_chars = max_query_chars
        self.max_searches = max_searches
        ranker = ranker or SimpleRanker()
        searches = {TOOLS: search or ListingSearch(ranker, max_concurrency=max_concurrency)}
        self._optional: dict[str, dict[str, Any]] = {}
        self._attach: Callable[[MCPServer[Any] | Server[Any], Server[Any]], None] = lambda _, __: None
        if resources or prompts:
            from mcp_ext_search_primitives.server import optional_searches

            more, self._optional, self._attach = optional_searches(resources, prompts, ranker, max_concurrency)
            searches |= more
        self.search_methods = {
            one.method: SearchMethod(one, own, CursorKey(cursor_key, one.method)) for one, own in searches.items()
        }

    def settings(self) -> dict[str, Any]:
        """Return the settings as they are advertised now."""
        stated = self._settings() if callable(self._settings) else self._settings or ServerSettings()
        said = stated.model_copy(update={"max_limit": self._max_limit}).to_wire()
        for name in ("resources", "prompts"):  # what is not searched is not advertised
            own = said.pop(name, {}) | {"maxLimit": self._max_limit}
            said |= {name: self._optional[name] | own} if name in self._optional else {}
        return said

    def methods(self) -> Sequence[MethodBinding]:
        """Return the bindings, or nothing where the SDK has made `tools/search` a method of its own."""
        if METHOD in SPEC_CLIENT_METHODS:
            logger.warning("this SDK defines %s itself: the extension stands aside", METHOD)
            return ()
        return [MethodBinding(method, negotiation.AnyParams, self._serve) for method in self.search_methods]

    def install(self, server: MCPServer[Any] | Server[Any]) -> None:
        """Make `server` searchable: bind the method, advertise it, see each caller's listing.

        The middleware goes first. What is later put before it still decides what can be found, since a search lists
        through the complete chain; it then runs for the search and for each page of the listing.

        Raises:
            TypeError: `server` is neither an `MCPServer` nor a low-level `Server`.
            ValueError: It does not list what is to be searched, or is searchable already.
        """
        lowlevel = lowlevel_server(server)
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
        """Answer one search. What the middleware has read is read again: one behind it may have changed it."""
        params = self.read(ctx)
        size = min(self._default_limit if params.limit is None else params.limit, self._max_limit)
        method = self.search_methods[ctx.method]
        with internal_faults_hidden(ctx.method):
            try:
                continuation = None if params.cursor is None else method.cursors.read(params.cursor, params.query)
                # What the page before has noted, so that the answer is put together again in the same way.
                note = None if continuation is None else continuation.note
                answer = await method.search(ctx, params.query, note)
                page = cut_page(method, params.query, answer, continuation, size)
            except InvalidCursorError as error:
                raise invalid_params("cursor", str(error)) from None
            if not negotiation.is_modern(ctx):
                return page
            # For caching; equal on every page, as it comes from the whole answer.
            return page | {"resultType": "complete", "ttlMs": answer.ttl_ms, "cacheScope": answer.cache_scope}

    def read(self, ctx: ServerRequestContext[Any, Any]) -> SearchToolsRequestParams:
        """Return the parameters of a search; an `MCPError` for a client without a declaration, or a wrong parameter."""
        negotiation.require_declared(ctx)
        return negotiation.read_params(ctx, self._max_query_chars)


def install(server: MCPServer[Any] | Server[Any], search: ToolsSearch | None = None) -> ToolsSearch:
    """Make `server` searchable by `search`, or a `ToolsSearch()` with every default, and return that."""
    search = search or ToolsSearch()
    search.install(server)
    return search


class _SearchMiddleware:
    """Advertises the extension in both eras, bounds the searches, and lets each list as its caller does."""

    def __init__(self, search: ToolsSearch, server: Server[Any]) -> None:
        self._search, self._server = search, server
        self._under_way = 0

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer one message, as the SDK's `ServerMiddleware` asks for."""
        method = self._search.search_methods.get(ctx.method)
        if ctx.request_id is not None and ctx.method in negotiation.PLACES:
            answer = await call_next(ctx)
            with internal_faults_hidden(f"advertising {METHOD}"):
                return negotiation.advertise_in(ctx.method, answer, self._search.settings())
        if ctx.request_id is None or method is None:
            return await call_next(ctx)
        self._search.read(ctx)  # what is refused takes no other search's place
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
        """Return what lists for the caller of `ctx`, through every middleware but this one."""
        own: ServerMiddleware[Any] = self
        meta = (ctx.params or {}).get("_meta")  # on modern connections it carries who is asking

        async def list_page(cursor: str | None) -> dict[str, Any]:
            call = complete_chain(self._server, own, call_next)
            params = {name: value for name, value in (("_meta", meta), ("cursor", cursor)) if value is not None}
            return negotiation.as_object(await call(replace(ctx, method=list_method, params=params)))

        return list_page
