"""Advertisement and the capability gate, in both eras and on both kinds of server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search import EXTENSION_ID, ServerSettings
from mcp_ext_tools_search.client import server_settings
from mcp_ext_tools_search.server import ToolsSearch, install
from mcp_types import InitializeResult, ServerCapabilities, Tool

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[..., Awaitable[dict[str, Any]]]
MakeServer = Callable[..., Server[Any]]
ServeHttp = Callable[..., AbstractAsyncContextManager[str]]
Post = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


async def test_the_settings_stand_at_every_place_of_the_era(
    billing: MCPServer[Any], connect: Connect, era: str
) -> None:
    install(billing, ToolsSearch(settings=ServerSettings(topics=["billing"]), max_limit=7))
    async with connect(billing) as client:
        capabilities = client.server_capabilities
    settings = {"topics": ["billing"], "maxLimit": 7}
    assert (capabilities.extensions or {})[EXTENSION_ID] == settings
    assert (capabilities.experimental or {}).get(EXTENSION_ID) == (settings if era == "legacy" else None)
    assert capabilities.tools is not None


async def test_a_low_level_server_advertises_the_same(make_server: MakeServer, connect: Connect, era: str) -> None:
    server = make_server([])
    install(server)
    async with connect(server) as client:
        capabilities = client.server_capabilities
    assert (capabilities.extensions or {})[EXTENSION_ID] == {"maxLimit": 50}
    assert (capabilities.experimental or {}).get(EXTENSION_ID) == ({"maxLimit": 50} if era == "legacy" else None)
    assert capabilities.tools is not None


async def test_settings_that_change_are_read_anew_at_each_connection(billing: MCPServer[Any], connect: Connect) -> None:
    size = 3
    install(billing, ToolsSearch(settings=lambda: ServerSettings(catalog_size=size)))
    async with connect(billing) as client:
        assert server_settings(client) == ServerSettings(catalog_size=3, max_limit=50)
    size = 4
    async with connect(billing) as client:
        assert server_settings(client) == ServerSettings(catalog_size=4, max_limit=50)


@pytest.mark.parametrize(("stated", "max_limit"), [(3, 7), (7, 3)])
async def test_the_lower_of_two_largest_pages_is_advertised_and_kept(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send, stated: int, max_limit: int
) -> None:
    server = make_server(numbered)
    install(server, ToolsSearch(settings=ServerSettings(max_limit=stated), max_limit=max_limit))
    async with connect(server) as client:
        assert server_settings(client) == ServerSettings(max_limit=3)
        assert len((await send(client, {"query": "ledger", "limit": 100}))["tools"]) == 3
        assert len((await send(client, {"query": "ledger"}))["tools"]) == 3


async def test_a_function_is_not_asked_at_each_search_how_large_a_page_may_be(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    asked: list[None] = []

    def settings() -> ServerSettings:
        asked.append(None)
        return ServerSettings(max_limit=3)

    server = make_server(numbered)
    install(server, ToolsSearch(settings=settings, max_limit=7))
    async with connect(server) as client:
        assert server_settings(client) == ServerSettings(max_limit=7)
        before = len(asked)
        assert len((await send(client, {"query": "ledger", "limit": 100}))["tools"]) == 7
    assert len(asked) == before > 0


@pytest.mark.parametrize("era", ["legacy"])
async def test_tools_is_declared_beside_the_extension_whatever_the_transport_was_told(
    make_server: MakeServer, connect: Connect
) -> None:
    server = make_server([])
    install(server)

    async def forgetful(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        answer = await call_next(ctx)
        if ctx.method != "initialize":
            return answer
        assert isinstance(answer, dict)
        result = InitializeResult.model_validate(answer, by_name=False)
        return result.model_copy(update={"capabilities": ServerCapabilities()})

    server.middleware.append(forgetful)
    async with connect(server) as client:
        assert client.server_capabilities.tools is not None
        assert server_settings(client) is not None


async def test_a_modern_client_that_did_not_declare_is_refused_before_its_parameters_are_looked_at(
    billing: MCPServer[Any], connect: Connect, send: Send, era: str
) -> None:
    install(billing)
    async with connect(billing, declares=False) as client:
        if era == "legacy":
            assert (await send(client, {"query": "invoice"}))["tools"]
            return
        for params in ({"query": "invoice"}, {"query": 7, "limit": "many"}, {}):
            with pytest.raises(MCPError) as refusal:
                await send(client, params)
            assert refusal.value.code == -32021
            assert refusal.value.data == {"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}}


@pytest.mark.parametrize("declaration", [True, None, [], "yes", 1])
async def test_a_declaration_that_is_no_object_counts_as_none(
    billing: MCPServer[Any], serve_http: ServeHttp, post: Post, declaration: object
) -> None:
    install(billing)
    async with serve_http(billing.streamable_http_app()) as url:
        status, answer = await post(url, {"query": "invoice"}, {"extensions": {EXTENSION_ID: declaration}})
    assert (status, answer["error"]["code"]) == (400, -32021)


async def test_a_declaration_beside_a_malformed_capability_passes_the_gate_and_fails_as_the_callers_mistake(
    billing: MCPServer[Any], serve_http: ServeHttp, post: Post
) -> None:
    install(billing)
    capabilities = {"extensions": {EXTENSION_ID: {"future": True}}, "sampling": 7}
    async with serve_http(billing.streamable_http_app()) as url:
        status, answer = await post(url, {"query": "invoice"}, capabilities)
    assert (status, answer["error"]["code"]) == (400, -32602)
    assert answer["error"]["data"]["field"] == "_meta"


async def test_members_of_a_declaration_are_ignored(billing: MCPServer[Any], serve_http: ServeHttp, post: Post) -> None:
    install(billing)
    async with serve_http(billing.streamable_http_app()) as url:
        status, answer = await post(url, {"query": "invoice"}, {"extensions": {EXTENSION_ID: {"future": True}}})
    assert status == 200
    assert answer["result"]["tools"]


async def test_the_method_is_unknown_where_nothing_was_installed(
    billing: MCPServer[Any], connect: Connect, send: Send
) -> None:
    async with connect(billing) as client:
        assert server_settings(client) is None
        with pytest.raises(MCPError) as refusal:
            await send(client, {"query": "invoice"})
    assert refusal.value.code == mcp_types.METHOD_NOT_FOUND
