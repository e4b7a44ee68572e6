"""Errors for callers: a fixed text in place of internal errors, and suggestions for unknown names."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from typing import Any, Final

from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search.server.errors import internal_faults_hidden
from mcp_types import INVALID_PARAMS, InitializeRequestParams, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

LEGACY_NOT_FOUND: Final = -32002


def hide_internal_errors(server: Server[Any]) -> None:
    """Log internal errors of `server`, and answer -32603 "Internal server error", in every method and both eras.

    By default, the SDK sends legacy callers error 0 with the exception's text, and reports a handler's own validation
    error as the caller's mistake. This middleware must be the outermost, so call this function after everything else
    is installed. Errors that are meant for the caller pass unchanged.
    """
    server.middleware.insert(0, _hide)


async def _hide(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    if ctx.request_id is None:
        return await call_next(ctx)
    with internal_faults_hidden(ctx.method):
        try:
            return await call_next(ctx)
        except ValidationError:
            # The SDK raises the same error for invalid parameters, so validate these again to find out.
            try:
                if ctx.method == "initialize":  # the SDK's model for it is stricter than the protocol revision
                    InitializeRequestParams.model_validate(ctx.params or {}, by_name=False)
                methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            except ValidationError:
                raise MCPError(INVALID_PARAMS, "Invalid request parameters") from None
            except KeyError:  # not a core protocol method: its handler reads the parameters itself
                pass
            raise


_SHOWN: Final = 3
_COMPARED: Final = 50
"""Number of names that are compared closely: those that share the most trigrams with the requested one."""

_MAX_CHARS: Final = 128


def unknown_tool(name: str, known: Iterable[str]) -> MCPError:
    """Return the -32602 error for an unknown tool name, with the closest names."""
    return unknown_name("tool", name, known, advice="list or search the tools to see their names")


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, advice: str = "list them to see their names"
) -> MCPError:
    """Return the -32602 error for an unknown name of this kind, with the closest names, or else with `advice`."""
    name = name[:_MAX_CHARS]
    closest = closest_names(name, known)
    said = f"the closest {'is' if len(closest) == 1 else 'are'} {', '.join(closest)}" if closest else advice
    data = {"field": "name", "reason": f"unknown {kind}", "closest": closest}
    return MCPError(INVALID_PARAMS, f"Unknown {kind}: {name!r}; {said}.", data)


def not_found_code(protocol_version: str) -> int:
    """Return the error code for an unknown resource URI (MCP, Resources: Error Handling)."""
    return INVALID_PARAMS if protocol_version in MODERN_PROTOCOL_VERSIONS else LEGACY_NOT_FOUND


def closest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that are similar to `name`, most similar first."""
    name = name[:_MAX_CHARS]
    wanted = _trigrams(name)
    # difflib compares too slowly for all names of a large catalog.
    likely = heapq.nlargest(_COMPARED, known, key=lambda other: len(wanted & _trigrams(other)))
    return difflib.get_close_matches(name, likely, n=_SHOWN)


def _trigrams(name: str) -> set[str]:
    padded = f" {name.lower()} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}
