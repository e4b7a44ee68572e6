"""The reference server with one fault between it and the wire.

    target.py reference_mutant FAULT [options of tools-search-server]

Its code stays the same: the fault stands in front of the server's own middleware.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from tools_search_server.__main__ import main as tools_search_server
from tools_search_server.catalog.catalog_server import catalog_server
from tools_search_server.programs import catalog

from .faults import Fault, Json, RefusalError, find_fault

_searching: ContextVar[bool] = ContextVar("searching", default=False)


class _InFront:
    """Passes every message of the server through a fault, except for the listing inside a search."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or _searching.get():
            return await call_next(ctx)
        era = "2026-07-28" if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else "2025-11-25"
        params = dict(ctx.params or {})
        searching = _searching.set(ctx.method == "tools/search")
        try:
            outcome = await self._outcome(ctx, call_next, params, era)
        finally:
            _searching.reset(searching)
        changed = self._fault.response(ctx.method, params, era, outcome)
        if (error := changed.get("error")) is not None:
            raise MCPError(error["code"], error["message"], error.get("data"))
        return changed["result"]

    async def _outcome(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, params: Json, era: str) -> Json:
        try:
            seen = self._fault.request(ctx.method, params, era)
            result = await call_next(replace(ctx, params=seen) if seen is not params else ctx)
        except RefusalError as refusal:
            return {"error": {"code": refusal.code, "message": refusal.message, "data": refusal.data}}
        except MCPError as error:
            return {"error": {"code": error.code, "message": error.message, "data": error.data}}
        if isinstance(result, BaseModel):
            return {"result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}
        return {"result": dict(result or {})}


def main() -> None:
    name, *arguments = sys.argv[1:]

    def build_broken(*args: Any, **options: Any) -> Server[Any]:
        server = catalog_server(*args, **options)
        server.middleware.insert(0, _InFront(find_fault(name)))
        return server

    setattr(catalog, "catalog_server", build_broken)  # noqa: B010 - it is not exported from there
    tools_search_server(arguments)
