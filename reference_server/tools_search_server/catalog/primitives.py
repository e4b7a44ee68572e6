"""A catalog's resources, templates and prompts, served with the SDK's low-level `Server`.

This module has no code for search: `ToolsSearch` reads these lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types import (
    GetPromptRequestParams,
    GetPromptResult,
    PaginatedRequestParams,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

from tools_search_server.base.errors import not_found_code, unknown_name
from tools_search_server.base.paging import cursor_after, invalid_cursor
from tools_search_server.catalog.catalog_file import CatalogFile, Item, key_of

if TYPE_CHECKING:
    from tools_search_server.catalog.catalog_server import Catalog

_Ctx = ServerRequestContext[Any, Any]


def install(server: Server[Any], catalog: Catalog) -> None:
    """Offer the kinds of items that the catalog currently has."""
    now = catalog.contents
    if now.resources or now.resource_templates:
        _list(server, catalog, "resources/list", "resources", lambda contents: contents.resources)
        templates = "resources/templates/list"
        _list(server, catalog, templates, "resourceTemplates", lambda contents: contents.resource_templates)
        server.add_request_handler("resources/read", ReadResourceRequestParams, partial(_read, catalog))
    if now.prompts:
        _list(server, catalog, "prompts/list", "prompts", lambda contents: contents.prompts)
        server.add_request_handler("prompts/get", GetPromptRequestParams, partial(_get_prompt, catalog))


def _list(
    server: Server[Any], catalog: Catalog, method: str, member: str, items_of: Callable[[CatalogFile], Sequence[Item]]
) -> None:
    async def list_page(ctx: _Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        items, start = _visible(catalog, ctx, items_of(catalog.contents)), 0
        if params.cursor is not None:
            start = next((at for at, key in enumerate(items, 1) if cursor_after(key) == params.cursor), 0)
            if not start:
                raise invalid_cursor()
        shown = [*items.values()][start : start + catalog.limits.page_size]
        wire = [item.model_dump(by_alias=True, mode="json", exclude_none=True) for item in shown]
        page: dict[str, Any] = {member: wire, "resultType": "complete", **catalog.caching}
        is_last = start + len(shown) == len(items)
        return page if is_last else page | {"nextCursor": cursor_after(key_of(shown[-1]))}

    server.add_request_handler(method, PaginatedRequestParams, list_page)


def _visible(catalog: Catalog, ctx: _Ctx, items: Sequence[Item]) -> dict[str, Item]:
    hidden = catalog.hidden_from(ctx)
    return {key: item for item in items if (key := key_of(item)) not in hidden}


async def _read(catalog: Catalog, ctx: _Ctx, params: ReadResourceRequestParams) -> ReadResourceResult:
    """Answer with the content in the file, or else with the URI itself."""
    contents, text = catalog.contents, None
    if params.uri not in catalog.unreadable_by(ctx):
        text = contents.contents.get(params.uri)
        if text is None and any(resource.uri == params.uri for resource in contents.resources):
            text = json.dumps({"uri": params.uri}, ensure_ascii=False)
    if text is None:
        raise MCPError(not_found_code(ctx.protocol_version), "Resource not found", {"uri": params.uri})
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=text)])


async def _get_prompt(catalog: Catalog, ctx: _Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    """Answer with the request itself."""
    seen = _visible(catalog, ctx, catalog.contents.prompts)
    if params.name not in seen:
        raise unknown_name("prompt", params.name, seen)
    call = {"name": params.name, "arguments": params.arguments or {}}
    content = TextContent(type="text", text=json.dumps(call, ensure_ascii=False))
    return GetPromptResult(messages=[PromptMessage(role="user", content=content)])
