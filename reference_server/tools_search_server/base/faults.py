"""Faults of this program and what a caller learns of them: one fixed text, in every method and in both eras.

Left alone, the SDK answers a legacy caller with error 0 and the text of the exception, and reports a handler's own
validation error as a mistake of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search.server.failure import internal_faults_hidden
from mcp_types import INVALID_PARAMS, InitializeRequestParams, methods
from pydantic import ValidationError

__all__ = ["hide_faults"]


def hide_faults(server: Server[Any]) -> None:
    """Answer -32603 "Internal server error" to whatever fails in `server`, and log it.

    It goes first in the chain, so call it when everything else is installed. Errors that are meant for the caller pass
    unchanged.
    """
    server.middleware.insert(0, _hide)


async def _hide(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    if ctx.request_id is None:
        return await call_next(ctx)
    with internal_faults_hidden(ctx.method):
        try:
            return await call_next(ctx)
        except ValidationError:
            if not _is_refused(ctx.method, ctx.protocol_version, ctx.params):
                raise
            raise MCPError(INVALID_PARAMS, "Invalid request parameters") from None


def _is_refused(method: str, protocol_version: str, params: Mapping[str, Any] | None) -> bool:
    """Tell whether it is the parameters that `protocol_version` does not allow."""
    try:
        if method == "initialize":  # the SDK reads it by a model of its own, stricter than that of the revision
            InitializeRequestParams.model_validate(params or {}, by_name=False)
        methods.validate_client_request(method, protocol_version, params)
    except ValidationError:
        return True
    except KeyError:  # not a method of the core protocol: its handler reads the parameters itself
        return False
    return False
