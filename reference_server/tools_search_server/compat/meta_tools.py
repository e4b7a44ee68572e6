"""The modes `meta-tools` and `auto`.

* `meta-tools` lists a few tools that find and call all others. The list never changes.
* `auto` does the same for a caller who sees many tools, and lists all of them to a caller who sees few. Only what the
  caller sees decides, so replicas agree. When that crosses the line, the client is notified that its list has changed;
  tools from either list can be called all the same, by name or through `call_tool`.
"""

from __future__ import annotations

from typing import Any

from mcp.server import Server
from mcp.server.context import HandlerResult
from mcp_types import CallToolRequestParams, PaginatedRequestParams
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.base.errors import unknown_tool
from tools_search_server.base.paging import ToolPages
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.browser import Browser
from tools_search_server.compat.definitions import CompatOptions, MetaNames, checked_arguments, meta_tools
from tools_search_server.compat.model_tools import ToolFailureError, answer, failures_as_results, not_for_models
from tools_search_server.gateway.relay import relay_call
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Ctx, call_by_name, new_endpoint
from tools_search_server.gateway.views import View


def meta_tools_server(search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> Server[Any]:
    """Build the endpoint of the mode `meta-tools`."""
    return _endpoint(search, "meta-tools", _MetaTools(search, options, always, is_auto=False))


def auto_server(search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> Server[Any]:
    """Build the endpoint of the mode `auto`."""
    return _endpoint(search, "auto", _MetaTools(search, options, always, is_auto=True))


def _endpoint(search: GatewaySearch, mode: str, tools: _MetaTools) -> Server[Any]:
    return new_endpoint(
        search,
        mode,
        f"tools-search-{mode}",
        tools.list_tools,
        failures_as_results(tools.call_tool),
        tools.input_schema,
        guide=tools.guide,
        listed=tools.listed,
    )


class _MetaTools:
    def __init__(
        self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable, *, is_auto: bool
    ) -> None:
        self._search = search
        self._views = search.views
        self._always = always
        self._is_auto = is_auto
        self._list_at_most = options.list_at_most
        self._names = MetaNames(options.prefix)
        self._browser = Browser(search, self._names)
        self._own = {tool.name: tool for tool in meta_tools(self._names)}

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        seen = self._views.seen_by(ctx)
        if self._lists_all(seen):
            return await self._search.listing.page(seen, params.cursor, ctx.protocol_version)
        self._always.report(self._views.of(EVERYTHING))
        more = [exposed.tool for exposed in self._always.of(seen).values()]
        pages = ToolPages([*self._own.values(), *more], len(self._own) + len(more))
        return pages.page(params.cursor, ctx.protocol_version)

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        if (plain := self._names.plain(params.name)) is None:
            return await self._call_by_name(ctx, params.name)
        arguments = checked_arguments(self._own[self._names(plain)], plain, params.arguments or {})
        if plain == "call_tool":
            return await self._browser.call_tool(ctx, arguments)
        return answer(await self._browser.answers[plain](ctx, arguments))

    async def _call_by_name(self, ctx: Ctx, name: str) -> HandlerResult:
        seen = self._views.seen_by(ctx)
        if self._is_auto:  # even if all tools are not listed now: the client's copy of the list may be older
            return await call_by_name(seen, name, ctx, self._own)
        if (exposed := self._always.of(seen).get(name)) is not None:
            return await relay_call(exposed.upstream, exposed.original_name, ctx)
        if name in seen.for_model.tools:
            advice = f'Call {self._names("call_tool")} with {{"name": "{name}", "arguments": {{…}}}}.'
            raise ToolFailureError(f"{name} is not in the list of this server.", [advice])
        if name in seen.tools:
            raise not_for_models(name)
        raise unknown_tool(name, [*self._own, *seen.for_model.tools])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        if name in self._own:
            return self._own[name].input_schema
        if self._is_auto:
            return self._views.input_schema(name)
        exposed = self._always.of(self._views.current()).get(name)
        return None if exposed is None else exposed.tool.input_schema

    def listed(self, view: View) -> object:
        return view.contents if self._lists_all(view) else self._always.of(view)

    def guide(self, view: View) -> str:
        if self._lists_all(view):
            return "All of them are in its list."
        names = self._names
        return (
            f"They are not in its list: find them with {names('search_tools')}, look at {names('describe_tools')} for "
            f"what they take, and call them with {names('call_tool')}."
        )

    def _lists_all(self, view: View) -> bool:
        # An unknown number counts as too many.
        return self._is_auto and view.tool_count is not None and view.tool_count <= self._list_at_most
