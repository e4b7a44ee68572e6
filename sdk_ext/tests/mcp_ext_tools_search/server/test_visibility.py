"""A search finds what the caller's own `tools/list` shows and nothing else, behind any filter."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp_ext_tools_search.client import iter_pages, search_tools
from mcp_ext_tools_search.server import install
from mcp_types import ErrorData, ListToolsResult, Tool

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
MakeServer = Callable[..., Server[Any]]
ServeHttp = Callable[..., AbstractAsyncContextManager[str]]
Middleware = ServerMiddleware[Any]

EVERYONE = "invoice"


async def hide_admin(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Take `admin_*` out of listings, unless an HTTP caller shows the token."""
    listed = await call_next(ctx)
    if ctx.method != "tools/list" or (ctx.request is not None and ctx.request.headers.get("x-token") == "admin"):
        return listed
    assert isinstance(listed, dict)
    return {**listed, "tools": [tool for tool in listed["tools"] if not tool["name"].startswith("admin_")]}


async def refuse_strangers(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse to list anything."""
    if ctx.method == "tools/list":
        raise MCPError(-32001, "strangers list nothing", data={"realm": "billing"})
    return await call_next(ctx)


async def refuse_strangers_politely(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse with an error that is returned."""
    if ctx.method == "tools/list":
        return ErrorData(code=-32001, message="strangers list nothing", data={"realm": "billing"})
    return await call_next(ctx)


def _standing_first(server: MCPServer[Any] | Server[Any], middleware: Middleware) -> None:
    install(server)
    server.middleware.insert(0, middleware)


def _standing_last(server: MCPServer[Any] | Server[Any], middleware: Middleware) -> None:
    install(server)
    server.middleware.append(middleware)


def _there_before(server: MCPServer[Any] | Server[Any], middleware: Middleware) -> None:
    server.middleware.insert(0, middleware)
    install(server)


everywhere = pytest.mark.parametrize("installed", [_standing_first, _standing_last, _there_before])


async def _found(client: Client) -> set[str]:
    return {tool.name async for page in iter_pages(client, EVERYONE, limit=1) for tool in page.tools}


@everywhere
async def test_what_a_middleware_hides_from_the_list_is_not_found(
    billing: MCPServer[Any], connect: Connect, installed: Callable[..., None]
) -> None:
    installed(billing, hide_admin)
    async with connect(billing) as client:
        assert await _found(client) == {"send_invoice", "cancel_invoice"}
        assert all(not tool.name.startswith("admin_") for tool in (await search_tools(client, "admin_wipe")).tools)


@everywhere
async def test_a_low_level_server_hides_it_too(
    make_server: MakeServer, connect: Connect, installed: Callable[..., None]
) -> None:
    server = make_server(
        [Tool(name=name, input_schema={"type": "object"}) for name in ("admin_wipe_invoice", "send_invoice")]
    )
    installed(server, hide_admin)
    async with connect(server) as client:
        assert await _found(client) == {"send_invoice"}


@everywhere
async def test_over_http_each_caller_finds_what_its_own_token_shows(
    billing: MCPServer[Any], connect: Connect, serve_http: ServeHttp, installed: Callable[..., None]
) -> None:
    installed(billing, hide_admin)
    async with serve_http(billing.streamable_http_app()) as url:
        for token, found in (
            ("guest", {"send_invoice", "cancel_invoice"}),
            ("admin", {"send_invoice", "cancel_invoice", "admin_wipe_invoices"}),
            ("guest", {"send_invoice", "cancel_invoice"}),
        ):
            async with _http(connect, url, {"x-token": token}) as client:
                assert await _found(client) == found


class Scopes:
    """Knows every token, which is its own scope."""

    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id="billing", scopes=[token])


@everywhere
async def test_with_the_sdks_own_authorization_each_caller_finds_what_its_scope_shows(
    connect: Connect, serve_http: ServeHttp, installed: Callable[..., None]
) -> None:
    async def hide_by_scope(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        token = get_access_token()
        return await (call_next(ctx) if token is not None and "admin" in token.scopes else hide_admin(ctx, call_next))

    auth = AuthSettings.model_validate({"issuer_url": "https://example.com", "resource_server_url": None})
    mcp = MCPServer[Any]("billing", token_verifier=Scopes(), auth=auth)
    for name in ("send_invoice", "admin_wipe_invoices"):
        mcp.add_tool(lambda: "done", name=name)
    installed(mcp, hide_by_scope)
    async with serve_http(mcp.streamable_http_app()) as url:
        for token, found in (("guest", {"send_invoice"}), ("admin", {"send_invoice", "admin_wipe_invoices"})):
            async with _http(connect, url, {"authorization": f"Bearer {token}"}) as client:
                assert await _found(client) == found


@everywhere
@pytest.mark.parametrize("refuse", [refuse_strangers, refuse_strangers_politely])
async def test_a_refused_listing_refuses_the_search_in_the_same_words(
    billing: MCPServer[Any], connect: Connect, installed: Callable[..., None], refuse: Middleware
) -> None:
    installed(billing, refuse)
    async with connect(billing) as client:
        with pytest.raises(MCPError) as refusal:
            await search_tools(client, EVERYONE)
    assert (refusal.value.code, refusal.value.message) == (-32001, "strangers list nothing")
    assert refusal.value.data == {"realm": "billing"}


async def test_hidden_tools_leave_no_trace_in_scores_or_order(make_server: MakeServer, connect: Connect) -> None:
    shown = [
        Tool(name=name, description=f"{name} works on an invoice", input_schema={"type": "object"})
        for name in ("send_invoice", "cancel_invoice", "print_receipt")
    ]
    hidden = [
        Tool(name=f"admin_{number}", description="invoice " * number, input_schema={"type": "object"})
        for number in range(1, 20)
    ]
    alone, mixed = make_server(shown), make_server([*hidden, *shown])
    install(alone)
    _standing_first(mixed, hide_admin)
    async with connect(alone) as client:
        expected = (await search_tools(client, "invoice")).tools
    async with connect(mixed) as client:
        assert (await search_tools(client, "invoice")).tools == expected


async def test_a_middleware_that_answers_with_a_model_is_heard(billing: MCPServer[Any], connect: Connect) -> None:
    async def replacing(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/list":
            return await call_next(ctx)
        return ListToolsResult(tools=[Tool(name="print_invoice", input_schema={"type": "object"})])

    _standing_first(billing, replacing)
    async with connect(billing) as client:
        assert await _found(client) == {"print_invoice"}


async def test_what_a_middleware_puts_into_a_listing_that_is_no_tool_is_passed_over(
    billing: MCPServer[Any], connect: Connect
) -> None:
    async def breaking(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        listed = await call_next(ctx)
        if ctx.method != "tools/list":
            return listed
        assert isinstance(listed, dict)
        return {**listed, "tools": [None, {"name": 7}, {"name": "invoice", "inputSchema": 7}, *listed["tools"]]}

    _standing_first(billing, breaking)
    async with connect(billing) as client:
        assert await _found(client) == {"send_invoice", "cancel_invoice", "admin_wipe_invoices"}


async def test_an_empty_answer_to_a_listing_shows_nothing(billing: MCPServer[Any], connect: Connect) -> None:
    async def silent(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return None if ctx.method == "tools/list" else await call_next(ctx)

    _standing_first(billing, silent)
    async with connect(billing) as client:
        assert await _found(client) == set()


async def test_a_search_does_not_change_the_list(billing: MCPServer[Any], connect: Connect) -> None:
    install(billing)
    async with connect(billing, cache=None) as client:
        before = await client.list_tools()
        await search_tools(client, EVERYONE)
        assert (await client.list_tools()).tools == before.tools


async def test_tools_added_and_removed_later_are_found_and_missed(billing: MCPServer[Any], connect: Connect) -> None:
    install(billing)
    async with connect(billing) as client:
        await _found(client)
        billing.remove_tool("send_invoice")
        billing.add_tool(lambda: "printed", name="print_invoice", description="Print it.")
        assert await _found(client) == {"print_invoice", "cancel_invoice", "admin_wipe_invoices"}


async def test_notifications_pass_the_middleware(billing: MCPServer[Any], connect: Connect, era: str) -> None:
    heard: list[str] = []

    async def listening(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            heard.append(ctx.method)
        return await call_next(ctx)

    _standing_last(billing, listening)
    async with connect(billing) as client:
        await client.list_tools()
    assert heard == (["notifications/initialized"] if era == "legacy" else [])


@asynccontextmanager
async def _http(connect: Connect, url: str, headers: dict[str, str]) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        connect(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client
