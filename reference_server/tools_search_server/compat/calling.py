"""`call_tool`: a call of a found tool, checked against its own schema before its server sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mcp import MCPError
from mcp.server import ServerRequestContext

from tools_search_server.base.arguments import complaints
from tools_search_server.base.redaction import quoted
from tools_search_server.compat.answers import ToolFailure
from tools_search_server.compat.callers_tools import CallersTools
from tools_search_server.compat.definitions import MetaNames
from tools_search_server.gateway.relay import relay_call

__all__ = ["call_found_tool"]

_MAX_SCHEMA_CHARS: Final = 8_000
_MOST_SAID: Final = 4_000
"""Characters of a server's error."""


async def call_found_tool(
    tools: CallersTools, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any], names: MetaNames
) -> dict[str, Any]:
    """Call the tool that `arguments` name and return its own result, unread.

    Args:
        tools: What the caller sees.
        arguments: Those of `call_tool`.
        ctx: The call of `call_tool`: its progress, cancellation and answers to questions are those of the inner call.
        names: How the meta-tools are called.

    Raises:
        ToolFailure: There is no such tool, the arguments do not fit, or the server refused the call.
    """
    name, given = arguments["name"], arguments.get("arguments", {})
    if (plain := names.plain(name)) is not None:
        raise ToolFailure(f"{names(plain)} is a tool of this server.", ["Call it directly."])
    relayed = replace(ctx, params={**(ctx.params or {}), "name": name, "arguments": given})
    if name not in tools.definitions and (upstream := tools.view.unavailable(name)) is not None:
        return await relay_call(upstream, name, relayed)  # which says since when it is down, and why
    offer = tools.known(name)
    schema = offer.tool.input_schema
    if wrong := complaints(schema, given):
        shown = schema if len(json.dumps(schema)) <= _MAX_SCHEMA_CHARS else None
        mend = [f"Mend `arguments` and call {names('call_tool')} again."]
        look = {"input_schema": shown} if shown else {"see": f"{names('describe_tools')} shows the input schema."}
        raise ToolFailure(f"These arguments do not fit {name}.", mend, problems=wrong, **look)
    try:
        return await relay_call(offer.upstream, offer.original_name, relayed)
    except MCPError as error:
        # The error of a tool inside a tool: as a protocol error a host would take it for one of `call_tool`.
        raise ToolFailure(f"{name} failed with error {error.code}: {quoted(error.message, _MOST_SAID)}") from error
