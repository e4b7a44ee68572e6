"""The mode `meta-tools`: a short list that never changes, whose tools find and call all others."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mcp.server.context import HandlerResult
from mcp_types import CallToolRequestParams, PaginatedRequestParams

from tools_search_server.compat.answers import ToolFailure, answer
from tools_search_server.compat.browser import Browser
from tools_search_server.compat.calling import call_found_tool
from tools_search_server.compat.definitions import meta_tools
from tools_search_server.compat.endpoint import Ctx, Endpoint, Parts, bare_server, checked
from tools_search_server.faults import hide_faults
from tools_search_server.paging import ToolPages
from tools_search_server.relay import relay_call
from tools_search_server.toolsets import EVERYTHING
from tools_search_server.unknown_tool import unknown_tool
from tools_search_server.view_changes import ViewChanges
from tools_search_server.views import View

__all__ = ["meta_tools_endpoint"]

_NAME: Final = "tools-search-meta-tools"


def meta_tools_endpoint(parts: Parts) -> Endpoint:
    """Build the endpoint of the mode `meta-tools`."""
    views, names, always = parts.searched.views, parts.names, parts.always
    browser = Browser(parts.searched, names)
    own = {tool.name: tool for tool in meta_tools(names)}

    async def list_tools(ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        always.report_unknown(views.of(EVERYTHING))
        more = [offer.tool for offer in always.of(views.seen_by(ctx)).values()]
        pages = ToolPages([*own.values(), *more], len(own) + len(more))
        return pages.page(params.cursor, ctx.protocol_version)

    async def call_tool(ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        if (plain := names.plain(params.name)) is not None:
            arguments = checked(own[names(plain)], plain, params.arguments or {})
            if plain == "call_tool":
                return await call_found_tool(await browser.tools_with(ctx, [arguments["name"]]), arguments, ctx, names)
            return answer(await browser.answers[plain](ctx, arguments))
        seen = views.seen_by(ctx)
        if (offer := always.of(seen).get(params.name)) is not None:
            return await relay_call(offer.upstream, offer.original_name, ctx)
        if params.name in seen.offers:
            advice = f'Call {names("call_tool")} with {{"name": "{params.name}", "arguments": {{…}}}}.'
            raise ToolFailure(f"{params.name} is not in the list of this server.", [advice])
        raise unknown_tool(params.name, [*own, *seen.offers])

    def input_schema(name: str) -> dict[str, Any] | None:
        if name in own:
            return own[name].input_schema
        offer = always.of(views.current()).get(name)
        return None if offer is None else offer.tool.input_schema

    def listed(view: View) -> object:
        return always.of(view)

    how = (
        f"They are not in its list: find them with {names('search_tools')}, look at {names('describe_tools')} for what "
        f"they take, and call them with {names('call_tool')}."
    )
    server = bare_server(_NAME, parts, list_tools, call_tool, input_schema, how)
    bus = partial(parts.gateway.replicas.bus, "meta-tools")
    changes = ViewChanges(views, parts.gateway.access, listed=listed, bus=bus)
    changes.install(server)
    hide_faults(server)
    return Endpoint(server, changes)
