"""Resources, templates and prompts of a catalog, listed and answered for on the SDK's low-level `Server`.

Searching them takes no line here: `ToolsSearch` reads these lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    PaginatedRequestParams,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_search_server.base.errors import unknown_name
from tools_search_server.base.paging import cursor_after, invalid_cursor
from tools_search_server.catalog.catalog_file import CatalogFile, Item, key_of

_Ctx = ServerRequestContext[Any, Any]
_LEGACY_NOT_FOUND: Final = -32002


@dataclass(frozen=True)
class ListedCatalog:
    """Lists what a catalog has besides tools, and answers for it."""

    contents: Callable[[], CatalogFile]
    """Returns the catalog as it is now."""

    hidden_from: Callable[[_Ctx], Collection[str]]
    """Returns the keys of what a caller may not see."""

    unreadable_by: Callable[[_Ctx], Collection[str]]
    """Returns the URIs of what a caller may not read."""

    page_size: int
    caching: Callable[[], dict[str, Any]]
    """Returns the members for caching of each page."""

    def install(self, server: Server[Any]) -> None:
        """Offer the kinds of items of which the catalog has any now."""
        if self.contents().resources or self.contents().resource_templates:
            self._list(server, "resources/list", "resources", lambda catalog: catalog.resources)
            templates = "resources/templates/list"
            self._list(server, templates, "resourceTemplates", lambda catalog: catalog.resource_templates)
            server.add_request_handler("resources/read", ReadResourceRequestParams, self._read)
        if self.contents().prompts:
            self._list(server, "prompts/list", "prompts", lambda catalog: catalog.prompts)
            server.add_request_handler("prompts/get", GetPromptRequestParams, self._get_prompt)

    def _list(
        self, server: Server[Any], method: str, member: str, items_of: Callable[[CatalogFile], Sequence[Item]]
    ) -> None:
        async def list_page(ctx: _Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
            items, start = self._visible(ctx, items_of(self.contents())), 0
            if params.cursor is not None:
                start = next((at for at, key in enumerate(items, 1) if cursor_after(key) == params.cursor), 0)
                if not start:
                    raise invalid_cursor()
            shown = [*items.values()][start : start + self.page_size]
            wire = [item.model_dump(by_alias=True, mode="json", exclude_none=True) for item in shown]
            page: dict[str, Any] = {member: wire, "resultType": "complete", **self.caching()}
            is_last = start + len(shown) == len(items)
            return page if is_last else page | {"nextCursor": cursor_after(key_of(shown[-1]))}

        server.add_request_handler(method, PaginatedRequestParams, list_page)

    def _visible(self, ctx: _Ctx, items: Sequence[Item]) -> dict[str, Item]:
        hidden = self.hidden_from(ctx)
        return {key: item for item in items if (key := key_of(item)) not in hidden}

    async def _read(self, ctx: _Ctx, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Answer with the content that the file states, or else with the URI itself."""
        catalog, text = self.contents(), None
        if params.uri not in self.unreadable_by(ctx):
            text = catalog.contents.get(params.uri)
            if text is None and any(resource.uri == params.uri for resource in catalog.resources):
                text = json.dumps({"uri": params.uri}, ensure_ascii=False)
        if text is None:
            code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _LEGACY_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": params.uri})
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=text)])

    async def _get_prompt(self, ctx: _Ctx, params: GetPromptRequestParams) -> GetPromptResult:
        """Answer with the request itself."""
        seen = self._visible(ctx, self.contents().prompts)
        if params.name not in seen:
            raise unknown_name("prompt", params.name, seen)
        call = {"name": params.name, "arguments": params.arguments or {}}
        content = TextContent(type="text", text=json.dumps(call, ensure_ascii=False))
        return GetPromptResult(messages=[PromptMessage(role="user", content=content)])
