"""A client lists servers that are careless about their pages and how long one may be cached."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search.client import MODERN_ONLY, list_page
from pydantic import ValidationError

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.mark.parametrize(
    "hints",
    [
        {},
        {"ttlMs": -1, "cacheScope": "public"},
        {"ttlMs": "soon", "cacheScope": "public"},
        {"ttlMs": 1.5, "cacheScope": "public"},
        {"ttlMs": True, "cacheScope": "public"},
        {"ttlMs": 1000, "cacheScope": "everyone"},
        {"ttlMs": 1000, "cacheScope": ["public"]},
        {"ttlMs": 1000},
        {"nextCursor": None},
    ],
)
async def test_a_page_with_wrong_cache_hints_is_used_and_not_cached_by_them(
    billing: MCPServer[Any], connect: Connect, hints: dict[str, Any]
) -> None:
    async def careless(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method != "tools/list":
            return result
        assert isinstance(result, dict)
        return {name: value for name, value in result.items() if name not in MODERN_ONLY} | hints

    billing.middleware.append(careless)
    async with connect(billing) as client:
        page = await list_page(client, None)
        assert "send_invoice" in [tool.name for tool in page.result.tools]
        assert page.left_out == 0
        assert page.result.ttl_ms == 0 or page.result.cache_scope == "private"


@pytest.mark.parametrize("tools", [{}, {"tools": None}, {"tools": {"name": "send_invoice"}}])
async def test_a_page_without_a_list_of_tools_is_an_error_and_not_an_empty_page(
    billing: MCPServer[Any], connect: Connect, tools: dict[str, Any]
) -> None:
    async def careless(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return tools if ctx.method == "tools/list" else await call_next(ctx)

    billing.middleware.append(careless)
    async with connect(billing) as client:
        with pytest.raises(ValidationError):
            await list_page(client, None)


async def test_a_page_at_a_cursor_loses_only_the_tools_with_invalid_definitions(
    billing: MCPServer[Any], connect: Connect
) -> None:
    async def careless(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/list":
            return await call_next(ctx)
        name = f"at_{(ctx.params or {}).get('cursor')}"
        return {"tools": [{"name": "shapeless"}, {"name": name, "inputSchema": {"type": "object"}}, 5]}

    billing.middleware.append(careless)
    async with connect(billing) as client:
        for cursor in ("2", None):
            page = await list_page(client, cursor)
            assert [tool.name for tool in page.result.tools] == [f"at_{cursor}"]
            assert page.left_out == 2
