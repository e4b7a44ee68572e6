"""What a gateway offers beside tools: the handlers, and capabilities that say no more than the servers behind it do."""

from __future__ import annotations

from typing import Any, Final

from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_types import (
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)
from tools_search_hosts import qualified_name

from tools_search_server.gateway.merged_lists import Public, merged, page
from tools_search_server.gateway.prompts import complete, get_prompt
from tools_search_server.gateway.public_uris import public_uri
from tools_search_server.gateway.resources import read_resource
from tools_search_server.gateway.views import View, Views
from tools_search_server.upstreams.listing import PROMPTS, RESOURCES, TEMPLATES, Kind

__all__ = ["LISTINGS", "METHODS", "install_beside_tools"]

LISTINGS: Final = ("prompts/list", "resources/list", "resources/templates/list")

METHODS: Final = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
    }
)
"""The requests about what servers offer beside tools."""

_GREETINGS: Final = frozenset({"initialize", "server/discover"})


def install_beside_tools(server: Server[Any], views: Views, page_size: int) -> None:
    """Serve prompts, resources and completions on `server`, to each caller those of the servers that it sees whole."""

    def lists(kind: Kind, public: Public) -> None:
        async def answer(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> HandlerResult:
            entries = await merged(views.seen_by(ctx), kind, public)
            return page(entries, kind, params.cursor, page_size, ctx.protocol_version)

        server.add_request_handler(kind.method, PaginatedRequestParams, answer)

    async def read(ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> HandlerResult:
        return await read_resource(views.seen_by(ctx), params.uri, ctx)

    async def get(ctx: ServerRequestContext[Any, Any], params: GetPromptRequestParams) -> HandlerResult:
        return await get_prompt(views.seen_by(ctx), params.name, ctx)

    async def suggest(ctx: ServerRequestContext[Any, Any], params: CompleteRequestParams) -> HandlerResult:
        return await complete(views.seen_by(ctx), params, ctx)

    async def declare(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in _GREETINGS and isinstance(result, dict):
            _declare(result.setdefault("capabilities", {}), views.seen_by(ctx))
        return result

    lists(PROMPTS, qualified_name)
    lists(RESOURCES, public_uri)
    lists(TEMPLATES, public_uri)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get)
    server.add_request_handler("completion/complete", CompleteRequestParams, suggest)
    server.middleware.append(declare)


def _declare(declared: dict[str, Any], view: View) -> None:
    """Leave out what no server offers; one that has not been reached yet may offer anything."""
    offered = [seen.upstream.capabilities for seen in view.upstreams if seen.rule.shows_more]
    for name in ("prompts", "resources", "completions"):
        if all(one is not None and getattr(one, name) is None for one in offered):
            declared.pop(name, None)
    for name in ("prompts", "resources"):
        if name in declared:
            declared[name]["listChanged"] = True
    if "resources" in declared:
        resources = [one.resources for one in offered if one is not None and one.resources is not None]
        declared["resources"]["subscribe"] = None in offered or any(one.subscribe for one in resources)
