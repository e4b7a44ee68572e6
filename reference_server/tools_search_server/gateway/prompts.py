"""Prompts of all servers, named as tools are, and completions of their arguments."""

from __future__ import annotations

from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp_types import (
    INTERNAL_ERROR,
    CompleteRequestParams,
    PromptReference,
)
from tools_search_hosts import qualified_name

from tools_search_server.base.errors import unknown_name
from tools_search_server.gateway.merged_lists import merged
from tools_search_server.gateway.public_uris import public_uri
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.resources import owner_of
from tools_search_server.gateway.views import View
from tools_search_server.upstreams.listing import PROMPTS
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["complete", "get_prompt"]


async def get_prompt(view: View, name: str, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Get a prompt for the caller of `ctx`, who sees `view`.

    Raises:
        MCPError: There is no such prompt, or the server answered with an error or not at all.
    """
    upstream, own = await _named(view, name)
    params = dict(ctx.params or {})
    arguments = {"arguments": params["arguments"]} if "arguments" in params else {}
    return await relay(upstream, {"name": own, **arguments}, ctx, public=lambda uri: public_uri(upstream.name, uri))


async def complete(view: View, params: CompleteRequestParams, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Complete an argument of a prompt or of a resource template; a server that has no completions suggests nothing.

    Raises:
        MCPError: There is no such prompt or template, or the server answered with an error or not at all.
    """
    if isinstance(params.ref, PromptReference):
        upstream, own = await _named(view, params.ref.name)
        ref = {"type": "ref/prompt", "name": own}
    else:
        seen, own = await owner_of(view, params.ref.uri, ctx.protocol_version)
        upstream, ref = seen.upstream, {"type": "ref/resource", "uri": own}
    if upstream.capabilities is None or upstream.capabilities.completions is None:
        return {"completion": {"values": []}}
    given = dict(ctx.params or {})
    forwarded = {member: given[member] for member in ("argument", "context") if member in given}
    return await relay(upstream, {"ref": ref, **forwarded}, ctx)


async def _named(view: View, name: str) -> tuple[Upstream, str]:
    prompts = await merged(view, PROMPTS, qualified_name)
    if name in prompts:
        return prompts[name].seen.upstream, prompts[name].own_name
    if (down := view.unavailable(name)) is not None:
        raise MCPError(INTERNAL_ERROR, f"The MCP server {down.name!r} is {down.state}. It is tried again by itself.")
    raise unknown_name("prompt", name, prompts)
