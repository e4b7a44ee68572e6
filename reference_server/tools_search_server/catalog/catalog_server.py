"""A server that offers a catalog of tools and makes it searchable: the extension on the SDK's low-level `Server`.

This is the module to copy. Everything that `tools/search` needs is in `catalog_server`: one `ToolsSearch`, installed
on a server that lists its tools by pages. The rest is an ordinary MCP server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, Literal, TypeAlias, cast

from mcp.server import Server, ServerRequestContext
from mcp_ext_tools_search.server import Answer, ToolsSearch
from mcp_ext_tools_search.types import EXTENSION_ID, ServerSettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
    Tool,
)
from tools_search_ranking import default_ranker
from tools_search_ranking.cache import CatalogSnapshot, IndexCache

from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import ToolPages
from tools_search_server.catalog.canned import canned_answer
from tools_search_server.catalog.catalog_file import CatalogFile
from tools_search_server.catalog.visible_tools import VisibleTools, bearer_token

__all__ = ["Catalog", "catalog_server"]

_Called: TypeAlias = Callable[[Tool, Mapping[str, Any]], CallToolResult]
"""What a tool answers to arguments."""

_MAX_TOPICS: Final = 64

_LARGE_RANKED_AT_ONCE: Final = 4
"""Searches of large catalogs that are ranked at the same time."""

_TTL_MS: Final = 60_000
"""How long a client may trust a listing; a change is announced to whoever subscribed."""


@dataclass
class Catalog:
    """The tools that a server offers, replaced as a whole when they change."""

    contents: CatalogFile
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.replace(self.contents)

    def replace(self, contents: CatalogFile) -> None:
        """Offer these tools from now on."""
        self.contents = contents
        tools, page_size = contents.tools, self.limits.page_size
        self._all = VisibleTools(ToolPages(tools, page_size))
        self._of_callers = {token: self._all.without(hidden) for token, hidden in contents.hidden.items()}
        secret = frozenset[str]().union(*contents.hidden.values())
        groups = dict.fromkeys(group for tool in tools if tool.name not in secret and (group := _group(tool)))
        told: dict[str, Any] = {"topics": list(groups)[:_MAX_TOPICS]} if groups else {}
        if not contents.hidden:  # what each caller sees is another number (draft: Visibility)
            told["catalog_size"] = len(tools)
        self.settings = ServerSettings(**told)

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        """Whether one caller may be shown what another one was listed."""
        return "private" if self.contents.hidden else "public"

    def seen_by(self, ctx: ServerRequestContext[Any, Any]) -> VisibleTools:
        """Return the tools that the caller of `ctx` sees."""
        return self._of_callers.get(bearer_token(ctx) or "", self._all) if self._of_callers else self._all

    def catalog(self, protocol_version: str) -> CatalogSnapshot:
        """Return all tools as a listing in that version carries them."""
        return self._all.catalog(protocol_version)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return what the tool takes, or `None` for a name that is not in the catalog."""
        tool = self._all.by_name.get(name)
        return None if tool is None else tool.input_schema


def catalog_server(catalog: Catalog, answer: _Called = canned_answer) -> Server[Any]:
    """Build a server that lists, searches and answers for `catalog`, in both protocol eras."""

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        page = catalog.seen_by(ctx).pages.page(params.cursor, ctx.protocol_version)
        return page | {"ttlMs": _TTL_MS, "cacheScope": catalog.cache_scope}

    async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        seen = catalog.seen_by(ctx).by_name
        tool = seen.get(params.name)
        if tool is None:
            raise unknown_tool(params.name, seen)
        return catalog.contents.answers.get(tool.name) or answer(tool, params.arguments or {})

    async def search(ctx: ServerRequestContext[Any, Any], query: str, _note: str | None) -> Answer:
        tools = catalog.seen_by(ctx).pages.wire(ctx.protocol_version)
        hits = await indexes.rank(tools, query, catalog=catalog.catalog(ctx.protocol_version))
        return Answer(hits, tools, _TTL_MS, catalog.cache_scope)

    server = Server[Any](
        "tools-search-server",
        version=version("mcp-ext-tools-search"),
        on_call_tool=call_tool,
        # Without it the SDK walks the whole listing before each call on modern Streamable HTTP.
        get_tool_input_schema=catalog.input_schema,
    )
    # Not as `on_list_tools`: its results are models, and the definitions are in wire form already.
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    limits = catalog.limits
    indexes = IndexCache(limits.ranker or default_ranker(), max_concurrency=_LARGE_RANKED_AT_ONCE)
    ToolsSearch(
        # Only for speed in large catalogs: without it, each search lists as its caller does.
        search=search,
        settings=lambda: catalog.settings,
        default_limit=limits.default_limit,
        max_limit=limits.max_limit,
        max_searches=limits.searches_at_once,
        cursor_key=limits.cursor_key,
    ).install(server)
    hide_internal_errors(server)
    return server


def _group(tool: Tool) -> str | None:
    """Return the part of the catalog that a definition says it belongs to."""
    published = (tool.meta or {}).get(EXTENSION_ID)
    group = cast("dict[str, Any]", published).get("group") if isinstance(published, dict) else None
    return group if isinstance(group, str) else None
