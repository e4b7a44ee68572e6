"""The mode `meta-tools`: a short list that never changes, whose tools find and call all others; and `auto`.

`auto` lists all tools of a caller who sees few, and the short list for one who sees more. Which of the two depends on
what the caller sees and on nothing else, so that replicas agree. Where that crosses the line, the caller is told that
the list has changed; whatever it has listed before can be called all the same, by its name or through `call_tool`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mcp.server.context import HandlerResult
from mcp_types import CallToolRequestParams, PaginatedRequestParams
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.base.paging import ToolPages
from tools_search_server.compat.answers import ToolFailure, answer
from tools_search_server.compat.browser import Browser
from tools_search_server.compat.callers_tools import not_for_models
from tools_search_server.compat.calling import call_found_tool
from tools_search_server.compat.definitions import meta_tools
from tools_search_server.compat.endpoint import Ctx, Endpoint, Parts, bare_server, checked
from tools_search_server.gateway.relay import relay_call
from tools_search_server.gateway.remote_tools import called_tool
from tools_search_server.gateway.view_changes import ViewChanges
from tools_search_server.gateway.views import View

__all__ = ["auto_endpoint", "meta_tools_endpoint"]


def meta_tools_endpoint(parts: Parts) -> Endpoint:
    """Build the endpoint of the mode `meta-tools`."""
    return _endpoint("meta-tools", _MetaTools(parts))


def auto_endpoint(parts: Parts) -> Endpoint:
    """Build the endpoint of the mode `auto`."""
    return _endpoint("auto", _Auto(parts))


def _endpoint(mode: str, tools: _MetaTools) -> Endpoint:
    parts = tools.parts
    server = bare_server(
        f"tools-search-{mode}", parts, tools.list_tools, tools.call_tool, tools.input_schema, tools.how
    )
    bus = partial(parts.gateway.replicas.bus, mode)
    changes = ViewChanges(parts.searched.views, parts.gateway.access, listed=tools.listed, bus=bus)
    changes.install(server)
    hide_internal_errors(server)
    return Endpoint(server, changes)


class _MetaTools:
    """Lists the short list, answers its tools, and calls what is always available."""

    def __init__(self, parts: Parts) -> None:
        self.parts: Final = parts
        self._views = parts.searched.views
        self._browser = Browser(parts.searched, parts.names)
        self._own = {tool.name: tool for tool in meta_tools(parts.names)}

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        self.parts.always.report(self._views.of(EVERYTHING))
        more = [offer.tool for offer in self.parts.always.of(self._views.seen_by(ctx)).values()]
        pages = ToolPages([*self._own.values(), *more], len(self._own) + len(more))
        return pages.page(params.cursor, ctx.protocol_version)

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        names, browser = self.parts.names, self._browser
        if (plain := names.plain(params.name)) is None:
            return await self._call_listed(ctx, params.name)
        arguments = checked(self._own[names(plain)], plain, params.arguments or {})
        if plain == "call_tool":
            return await call_found_tool(await browser.tools_with(ctx, [arguments["name"]]), arguments, ctx, names)
        return answer(await browser.answers[plain](ctx, arguments))

    async def _call_listed(self, ctx: Ctx, name: str) -> HandlerResult:
        seen = self._views.seen_by(ctx)
        if (offer := self.parts.always.of(seen).get(name)) is not None:
            return await relay_call(offer.upstream, offer.original_name, ctx)
        if name in seen.for_model.offers:
            advice = f'Call {self.parts.names("call_tool")} with {{"name": "{name}", "arguments": {{…}}}}.'
            raise ToolFailure(f"{name} is not in the list of this server.", [advice])
        if name in seen.offers:
            raise not_for_models(name)
        raise unknown_tool(name, [*self._own, *seen.for_model.offers])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        if name in self._own:
            return self._own[name].input_schema
        offer = self.parts.always.of(self._views.current()).get(name)
        return None if offer is None else offer.tool.input_schema

    def listed(self, view: View) -> object:
        """Return something that is equal as long as the list of the callers with this view is."""
        return self.parts.always.of(view)

    def how(self, view: View) -> str:
        """Return what a model is told about finding the tools of a view."""
        names = self.parts.names
        return (
            f"They are not in its list: find them with {names('search_tools')}, look at {names('describe_tools')} for "
            f"what they take, and call them with {names('call_tool')}."
        )


class _Auto(_MetaTools):
    """The same for callers who see many tools, and a plain list for all others."""

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        seen = self._views.seen_by(ctx)
        if self._lists_all(seen):
            return await self.parts.searched.listing.page(seen, params.cursor, ctx.protocol_version)
        return await super().list_tools(ctx, params)

    async def _call_listed(self, ctx: Ctx, name: str) -> HandlerResult:
        # In either form of the list: the client's copy may be of the other one.
        seen = self._views.seen_by(ctx)
        called = await called_tool(seen, name)
        if called is None:
            raise unknown_tool(name, [*self._own, *seen.for_model.offers])
        return await relay_call(*called, ctx)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self._own[name].input_schema if name in self._own else self._views.input_schema(name)

    def listed(self, view: View) -> object:
        return view.contents if self._lists_all(view) else super().listed(view)

    def how(self, view: View) -> str:
        return "All of them are in its list." if self._lists_all(view) else super().how(view)

    def _lists_all(self, view: View) -> bool:
        """Tell whether callers see so few tools that all are listed; a number that is not known is too many."""
        return view.tool_count is not None and view.tool_count <= self.parts.options.list_at_most
