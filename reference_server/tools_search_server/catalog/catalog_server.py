"""A server with a searchable catalog of tools: the extension on the SDK's low-level `Server`.

Copy this module to build your own server. Everything that `tools/search` needs is in `catalog_server`: one
`ToolsSearch`, installed on a server that paginates its tools. The rest is an ordinary MCP server. A catalog can also
contain resources, templates and prompts (`primitives.py`), which the same `ToolsSearch` makes searchable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, Literal, TypeAlias

from mcp.server import Server, ServerRequestContext
from mcp_ext_search_primitives import PrimitivesServerSettings
from mcp_ext_search_primitives.server import Contents, ResourcesSearch
from mcp_ext_tools_search.server import Answer, ToolsSearch
from mcp_ext_tools_search.types import published_metadata
from mcp_types import CallToolRequestParams, CallToolResult, PaginatedRequestParams, Tool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from tools_search_ranking import default_ranker
from tools_search_ranking.cache import IndexCache

from tools_search_server.access.principals import bearer_token
from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import ToolPages
from tools_search_server.catalog import primitives
from tools_search_server.catalog.answers import canned_answer
from tools_search_server.catalog.catalog_file import CatalogFile

CallTool: TypeAlias = Callable[[Tool, Mapping[str, Any]], CallToolResult]
"""Answers a call to a tool with these arguments."""

_MAX_TOPICS: Final = 64

_LARGE_RANKED_AT_ONCE: Final = 4
"""Maximum concurrent rankings in large catalogs."""

_REREAD_SECONDS: Final = 1.0
"""Maximum age of the resource content that is searched, since the file may have changed."""

_TTL_MS: Final = 60_000
"""How long clients may cache a listing. Subscribers are notified of changes."""


@dataclass
class Catalog:
    """The tools that a server offers, replaced as a whole when they change."""

    contents: CatalogFile
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.replace(self.contents)

    def replace(self, contents: CatalogFile) -> None:
        """Replace the catalog's contents."""
        self.contents = contents
        tools, page_size = contents.tools, self.limits.page_size
        self.pages = everything = ToolPages(tools, page_size)
        """The listing of all tools."""
        self._of_callers = {
            token: everything.part(everything.by_name.keys() - hidden) for token, hidden in contents.hidden.items()
        }
        # Topics are advertised to every caller, so they must not come from tools that some cannot see.
        secret = frozenset[str]().union(*contents.hidden.values())
        stated = [published_metadata(tool.meta).get("group") for tool in tools if tool.name not in secret]
        groups = dict.fromkeys(group for group in stated if isinstance(group, str) and group)
        facts: dict[str, Any] = {"topics": list(groups)[:_MAX_TOPICS]} if groups else {}
        if not contents.hidden:  # Draft, Visibility: no size if callers see different numbers of tools
            facts["catalog_size"] = len(tools)
            sizes = {"resources": len(contents.resources), "prompts": len(contents.prompts)}
            facts |= {name: {"catalog_size": size} for name, size in sizes.items() if size}
        self.settings = PrimitivesServerSettings(**facts)

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        """Whether a listing for one caller may be shown to another."""
        return "private" if self._varies else "public"

    @property
    def _varies(self) -> bool:
        return bool(self.contents.hidden or self.contents.unreadable)

    @property
    def caching(self) -> dict[str, Any]:
        """The members of a page that say how long, and for whom, clients may cache it."""
        return {"ttlMs": _TTL_MS, "cacheScope": self.cache_scope}

    def seen_by(self, ctx: ServerRequestContext[Any, Any]) -> ToolPages:
        """Return the tools that the caller of `ctx` can list, find and call."""
        return self._of_callers.get(self._token(ctx), self.pages)

    def hidden_from(self, ctx: ServerRequestContext[Any, Any]) -> frozenset[str]:
        """Return the names and URIs of the items that the caller of `ctx` cannot see."""
        return frozenset(self.contents.hidden.get(self._token(ctx), ()))

    def unreadable_by(self, ctx: ServerRequestContext[Any, Any]) -> frozenset[str]:
        """Return the URIs that the caller of `ctx` cannot read, including those that it cannot see."""
        return self.hidden_from(ctx).union(self.contents.unreadable.get(self._token(ctx), ()))

    def _token(self, ctx: ServerRequestContext[Any, Any]) -> str:
        return (bearer_token(ctx.request.headers) or "") if self._varies and ctx.request is not None else ""

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return a tool's input schema, or `None` if the caller (see `with_caller`) sees no tool of that name."""
        tool = self._of_callers.get(_calling_token.get(), self.pages).by_name.get(name)
        return None if tool is None else tool.input_schema


_calling_token: ContextVar[str] = ContextVar("tools_search_calling_token", default="")


def with_caller(app: ASGIApp) -> ASGIApp:
    """Return an application that records a request's caller, which the SDK does not pass when it asks for a schema.

    Without this, a caller of a hidden tool could infer its existence from the error for a missing `Mcp-Param-*` header.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            _calling_token.set(bearer_token(Headers(scope=scope)) or "")
        await app(scope, receive, send)

    return call


def catalog_server(catalog: Catalog, answer: CallTool = canned_answer) -> Server[Any]:
    """Build a server that lists, searches and answers calls for `catalog`, in both protocol eras."""

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        return catalog.seen_by(ctx).page(params.cursor, ctx.protocol_version) | catalog.caching

    async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        seen = catalog.seen_by(ctx).by_name
        tool = seen.get(params.name)
        if tool is None:
            raise unknown_tool(params.name, seen)
        return catalog.contents.answers.get(tool.name) or answer(tool, params.arguments or {})

    async def search(ctx: ServerRequestContext[Any, Any], query: str, _note: str | None) -> Answer:
        seen, everything = catalog.seen_by(ctx), catalog.pages
        hits = await indexes.rank(everything.snapshot(ctx.protocol_version), query, seen.names_in(everything))
        return Answer(hits, seen.wire(ctx.protocol_version), _TTL_MS, catalog.cache_scope)

    server = Server[Any](
        "tools-search-server",
        version=version("mcp-ext-tools-search"),
        on_call_tool=call_tool,
        # Without this, the SDK walks the whole listing before each call over modern Streamable HTTP.
        get_tool_input_schema=catalog.input_schema,
    )
    # Not `on_list_tools`, which returns models: the definitions are already in wire form.
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    limits = catalog.limits
    ranker = limits.ranker or default_ranker()
    indexes = IndexCache(ranker, max_concurrency=_LARGE_RANKED_AT_ONCE)
    own = catalog.contents  # what it offers besides tools is fixed from here on: capabilities cannot change
    primitives.install(server, catalog)

    async def read_text(uri: str) -> str | None:
        return catalog.contents.contents.get(uri)

    def may_read(ctx: ServerRequestContext[Any, Any], uri: str) -> bool:
        return uri not in catalog.unreadable_by(ctx)

    contents = Contents(read=read_text, may_read=may_read, max_age=_REREAD_SECONDS)
    resources = ResourcesSearch(contents=contents if own.contents else False)
    ToolsSearch(
        ranker=ranker,
        resources=resources if own.resources or own.resource_templates else False,
        prompts=bool(own.prompts),
        # Optional: speeds up large catalogs. Without it, each search lists the tools with the caller's permissions.
        search=search,
        settings=lambda: catalog.settings,
        default_limit=limits.default_limit,
        max_limit=limits.max_limit,
        max_searches=limits.searches_at_once,
        cursor_key=limits.cursor_key,
    ).install(server)
    hide_internal_errors(server)
    return server
