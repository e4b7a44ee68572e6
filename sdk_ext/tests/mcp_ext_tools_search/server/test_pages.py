"""Pages of one search: limits, cursors, and what a client may cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools, server_settings
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.server import Answer, ToolsSearch, install
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[..., Awaitable[dict[str, Any]]]
MakeServer = Callable[..., Server[Any]]
ServeHttp = Callable[..., AbstractAsyncContextManager[str]]
Post = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


@pytest.mark.parametrize(
    ("limit", "found"), [(1, 1), (3.0, 3), (10, 10), (12, 12), (51, 15), (10**40, 15), (1e300, 15), (None, 10)]
)
async def test_a_limit_bounds_the_page_and_what_is_too_much_is_cut_silently(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send, limit: float | None, found: int
) -> None:
    server = make_server(numbered)
    install(server, ToolsSearch(max_limit=15))
    async with connect(server) as client:
        params = {"query": "ledger"} | ({} if limit is None else {"limit": limit})
        assert len((await send(client, params))["tools"]) == found


@pytest.mark.parametrize("size", [1, 20])
async def test_a_request_without_a_limit_gets_the_page_that_the_server_chose_up_to_twenty(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send, size: int
) -> None:
    server = make_server(numbered)
    install(server, ToolsSearch(default_limit=size, max_concurrency=1, max_searches=1))
    async with connect(server) as client:
        page = await send(client, {"query": "ledger"})
        rest = await send(client, {"query": "ledger", "cursor": page["nextCursor"]})
    assert (len(page["tools"]), len(rest["tools"])) == (size, min(size, 25 - size))


async def test_a_small_largest_page_bounds_the_default_too(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    server = make_server(numbered)
    install(server, ToolsSearch(max_limit=4))
    async with connect(server) as client:
        assert len((await send(client, {"query": "ledger"}))["tools"]) == 4


@pytest.mark.parametrize("limits", [[1], [7], [10], [24], [25], [3, 9, 1, 20]])
async def test_pages_are_disjoint_complete_and_end_on_a_full_one(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send, limits: Sequence[int]
) -> None:
    server = make_server(numbered)
    install(server)
    async with connect(server) as client:
        whole = (await send(client, {"query": "ledger", "limit": 50}))["tools"]
        assert len(whole) == 25
        found: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        for turn in range(26):
            page = await send(client, {"query": "ledger", "limit": limits[turn % len(limits)], **cursor})
            assert page["tools"]
            found += page["tools"]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert found == whole


async def test_a_page_search_is_called_for_one_page_at_a_time(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    asked: list[tuple[str, str, range]] = []

    async def page_search(ctx: ServerRequestContext[Any, Any], query: str, positions: range) -> Answer:
        asked.append((ctx.method, query, positions))
        page = numbered[positions.start : positions.stop]
        definitions = {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in page}
        return Answer([Hit(tool.name, 1.0) for tool in numbered], definitions)

    server = make_server([])
    install(server, ToolsSearch(page_search=page_search))
    found: list[str] = []
    cursor: dict[str, Any] = {}
    async with connect(server) as client:
        for limit in (10, 7, 10):
            page = await send(client, {"query": "ledger", "limit": limit, **cursor})
            found += [tool["name"] for tool in page["tools"]]
            cursor = {"cursor": page.get("nextCursor")}
    assert cursor == {"cursor": None}
    assert found == [tool.name for tool in numbered]
    assert asked == [("tools/search", "ledger", range(*ends)) for ends in ((0, 10), (10, 17), (17, 27))]


async def test_a_replica_with_the_same_key_continues_a_search(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    servers = [make_server(tools) for tools in (numbered, numbered, numbered[::-1])]
    for server in servers:
        install(server, ToolsSearch(cursor_key=b"k" * 32))
    async with connect(servers[0]) as first, connect(servers[1]) as second, connect(servers[2]) as third:
        cursor = (await send(first, {"query": "ledger"}))["nextCursor"]
        expected = await send(first, {"query": "ledger", "cursor": cursor})
        assert (await send(second, {"query": "ledger", "cursor": cursor}))["tools"] == expected["tools"]
        assert (await send(third, {"query": "ledger", "cursor": cursor}))["tools"] == expected["tools"]


async def test_cursors_of_another_query_another_server_or_another_catalog_are_refused(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    server, stranger = make_server(numbered), make_server(numbered)
    install(server)
    install(stranger)
    async with connect(server) as client, connect(stranger) as other:
        cursor = (await send(client, {"query": "ledger"}))["nextCursor"]
        for where, query in ((client, "the ledger"), (client, "ledger "), (other, "ledger")):
            with pytest.raises(MCPError) as refusal:
                await send(where, {"query": query, "cursor": cursor})
            assert refusal.value.code == -32602
            assert refusal.value.data["field"] == "cursor"
        numbered.pop()
        with pytest.raises(MCPError, match="search again without a cursor"):
            await send(client, {"query": "ledger", "cursor": cursor})


async def test_a_change_that_leaves_the_pages_fitting_together_does_not_cost_the_search(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    server = make_server(numbered)
    install(server)
    async with connect(server) as client:
        first = await send(client, {"query": "ledger"})
        numbered.append(Tool(name="unrelated", input_schema={"type": "object"}))
        second = await send(client, {"query": "ledger", "cursor": first["nextCursor"]})
        whole = await send(client, {"query": "ledger", "limit": 20})
    assert first["tools"] + second["tools"] == whole["tools"]


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ([], (0, "private")),
        ([("public", 60_000), ("public", 5_000)], (5_000, "public")),
        ([("public", 60_000), ("private", 90_000)], (60_000, "private")),
    ],
)
async def test_caching_is_that_of_the_callers_own_list_and_equal_on_every_page(
    numbered: list[Tool],
    connect: Connect,
    send: Send,
    era: str,
    hints: list[tuple[Any, int]],
    expected: tuple[int, str],
) -> None:
    async def list_tools(_ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        page = int(params.cursor) if params and params.cursor else 0
        result = ListToolsResult(tools=numbered[page::2] if len(hints) > 1 else numbered)
        if hints:
            result.cache_scope, result.ttl_ms = hints[page]
        if page + 1 < len(hints):
            result.next_cursor = str(page + 1)
        return result

    server = Server("catalog", on_list_tools=list_tools)
    install(server)
    async with connect(server) as client:
        first = await send(client, {"query": "ledger", "limit": 20})
        second = await send(client, {"query": "ledger", "limit": 20, "cursor": first["nextCursor"]})
    assert len(first["tools"] + second["tools"]) == 25
    for page in (first, second):
        if era == "legacy":
            assert page.keys() & {"resultType", "ttlMs", "cacheScope"} == set()
        else:
            assert (page["resultType"], page["ttlMs"], page["cacheScope"]) == ("complete", *expected)


async def test_cache_hints_given_to_the_server_count(connect: Connect, send: Send, era: str) -> None:
    mcp = MCPServer[Any]("billing", cache_hints={"tools/list": CacheHint(ttl_ms=7_000, scope="public")})
    install(mcp)
    async with connect(mcp) as client:
        answer = await send(client, {"query": "ledger"})
    assert (answer.get("ttlMs"), answer.get("cacheScope")) == ((None, None) if era == "legacy" else (7_000, "public"))


@pytest.mark.parametrize("options", [{}, {"stateless_http": True}, {"json_response": True}])
async def test_every_kind_of_http_is_searched(
    billing: MCPServer[Any], connect: Connect, send: Send, serve_http: ServeHttp, options: dict[str, Any]
) -> None:
    install(billing)
    async with serve_http(billing.streamable_http_app(**options)) as url, connect(url) as client:
        assert server_settings(client) is not None
        first = await send(client, {"query": "invoice", "limit": 1})
        second = await send(client, {"query": "invoice", "limit": 1, "cursor": first["nextCursor"]})
    assert first["tools"][0]["name"] != second["tools"][0]["name"]


def test_one_server_serves_large_catalogs_in_one_event_loop_after_another(make_server: MakeServer) -> None:
    tools = [Tool(name=f"ledger_{number}", input_schema={"type": "object"}) for number in range(300)]
    server = make_server(tools)
    install(server, ToolsSearch(max_concurrency=1))

    async def search() -> None:
        with anyio.fail_after(30):
            async with Client(server, extensions=[TOOLS_SEARCH]) as client, anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(search_tools, client, "ledger")

    anyio.run(search)
    anyio.run(search)
