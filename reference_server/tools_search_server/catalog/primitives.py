"""A catalog's resources, templates and prompts, served with the SDK's low-level `Server`.

This module has no code for search: `ToolsSearch` reads these lists.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.types import Primitive
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
from tools_search_server.base.paging import cursor_after, invalid_cursor, room_for, size_of

if TYPE_CHECKING:
    from tools_search_server.catalog.catalog_server import Catalog

_Ctx = ServerRequestContext[Any, Any]


def install(server: Server[Any], catalog: Catalog) -> None:
    """Offer the kinds of items that the catalog currently has."""
    # Those that are added to the file later are not offered, since a server cannot change its capabilities.
    now = catalog.contents
    kinds: list[Primitive[Any]] = []
    if now.resources or now.resource_templates:
        kinds += [RESOURCES, RESOURCE_TEMPLATES]
        server.add_request_handler("resources/read", ReadResourceRequestParams, partial(_read, catalog))
    if now.prompts:
        kinds += [PROMPTS]
        server.add_request_handler("prompts/get", GetPromptRequestParams, partial(_get_prompt, catalog))
    for kind in kinds:
        server.add_request_handler(kind.list_method, PaginatedRequestParams, partial(_list, catalog, kind))


async def _list(catalog: Catalog, kind: Primitive[Any], ctx: _Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
    items = _visible(catalog, kind, ctx)
    keys, start = [*items], 0
    if params.cursor is not None:
        start = next((at for at, key in enumerate(keys, 1) if cursor_after(key) == params.cursor), 0)
        if not start:
            raise invalid_cursor()
    shown = keys[start : start + catalog.limits.page_size]
    wire = [items[key].model_dump(by_alias=True, mode="json", exclude_none=True) for key in shown]
    end = start + room_for(list(map(size_of, wire)))
    page: dict[str, Any] = {kind.member: wire[: end - start], "resultType": "complete", **catalog.caching}
    return page if end == len(keys) else page | {"nextCursor": cursor_after(keys[end - 1])}


def _visible(catalog: Catalog, kind: Primitive[Any], ctx: _Ctx) -> dict[str, Any]:
    hidden = catalog.hidden_from(ctx)
    return {key: item for key, item in kind.by_key(catalog.contents).items() if key not in hidden}


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
    seen = _visible(catalog, PROMPTS, ctx)
    if params.name not in seen:
        raise unknown_name("prompt", params.name, seen)
    call = {"name": params.name, "arguments": params.arguments or {}}
    content = TextContent(type="text", text=json.dumps(call, ensure_ascii=False))
    return GetPromptResult(messages=[PromptMessage(role="user", content=content)])
