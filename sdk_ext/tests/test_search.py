"""What `tools/search` answers: parameters, pages, definitions, caching."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp_ext_tools_search import EXTENSION_ID
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools, server_settings
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.server import ToolsSearch, install
from mcp_types import Icon, ListToolsResult, PaginatedRequestParams, Tool, ToolAnnotations

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[..., Awaitable[dict[str, Any]]]
MakeServer = Callable[..., Server[Any]]
ServeHttp = Callable[..., AbstractAsyncContextManager[str]]
Post = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]

RICH = Tool(
    name="send_invoice",
    title="Send an invoice",
    description="Send an invoice to a customer.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"customer": {"$ref": "#/$defs/customer"}, "amount": {"type": "number", "minimum": 0.5}},
        "required": ["customer"],
        "$defs": {"customer": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "additionalProperties": False,
    },
    output_schema={"type": "object", "properties": {"number": {"type": "integer"}}},
    annotations=ToolAnnotations(title="Send", read_only_hint=False, destructive_hint=False),
    icons=[Icon(src="https://example.com/invoice.png", mime_type="image/png", sizes=["48x48"])],
    _meta={"com.example/owner": {"team": ["billing"]}, EXTENSION_ID: {"group": "billing", "tags": ["money"]}},
)
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({}, "query"),
    ({"query": None}, "query"),
    ({"query": 7}, "query"),
    ({"query": ["invoice"]}, "query"),
    ({"query": ""}, "query"),
    ({"query": " \u3000\n"}, "query"),
    ({"query": "i" * 4097}, "query"),
    ({"query": "invoice", "limit": 0}, "limit"),
    ({"query": "invoice", "limit": -1}, "limit"),
    ({"query": "invoice", "limit": 2.5}, "limit"),
    ({"query": "invoice", "limit": "3"}, "limit"),
    ({"query": "invoice", "limit": True}, "limit"),
    ({"query": "invoice", "limit": None}, "limit"),
    ({"query": "invoice", "cursor": None}, "cursor"),
    ({"query": "invoice", "cursor": 10}, "cursor"),
    ({"query": "invoice", "cursor": ""}, "cursor"),
    ({"query": "invoice", "cursor": "page-2"}, "cursor"),
    ({"query": "invoice", "cursor": "\ud800"}, "cursor"),
    ({"query": "\ud800invoice"}, "query"),
]


@pytest.mark.parametrize(("params", "field"), MISTAKES)
async def test_a_wrong_parameter_is_refused_by_name_and_the_next_request_is_answered(
    billing: MCPServer[Any], connect: Connect, send: Send, params: dict[str, Any], field: str
) -> None:
    install(billing)
    async with connect(billing) as client:
        with pytest.raises(MCPError) as refusal:
            await send(client, params)
        assert refusal.value.code == -32602
        assert refusal.value.data["field"] == field
        assert refusal.value.data["reason"]
        assert (await send(client, {"query": "invoice"}))["tools"]


async def test_over_modern_http_it_is_refused_with_status_400(
    billing: MCPServer[Any], serve_http: ServeHttp, post: Post
) -> None:
    install(billing)
    async with serve_http(billing.streamable_http_app()) as url:
        for params in ({"query": ""}, {"query": "invoice", "limit": None}, {"query": "invoice", "cursor": None}):
            status, answer = await post(url, params)
            assert (status, answer["error"]["code"]) == (400, -32602)
            assert set(answer["error"]["data"]) == {"field", "reason"}


async def test_unpaired_surrogates_over_http_harm_nothing(
    billing: MCPServer[Any], serve_http: ServeHttp, post: Post
) -> None:
    install(billing)
    async with serve_http(billing.streamable_http_app()) as url:
        status, answer = await post(url, {"query": "invoice \ud800"})
        assert status == 400
        assert "error" in answer
        status, answer = await post(url, {"query": "invoice"})
        assert status == 200


@pytest.mark.parametrize(
    "query", ["i" * 1024, "\U0001f9fe" * 1024, "i" * 4096, "\x00invoice\x1b[31m", "\u202einvoice\u2066", "invoice\r\n"]
)
async def test_long_and_unusual_queries_are_answered(
    billing: MCPServer[Any], connect: Connect, send: Send, query: str
) -> None:
    install(billing)
    async with connect(billing) as client:
        assert isinstance((await send(client, {"query": query}))["tools"], list)


async def test_unknown_members_are_ignored(billing: MCPServer[Any], connect: Connect, send: Send) -> None:
    install(billing)
    async with connect(billing) as client:
        plain = await send(client, {"query": "invoice"})
        assert await send(client, {"query": "invoice", "detail": 7, "filters": {}}) == plain


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


async def test_cursors_of_another_query_another_server_or_another_catalogue_are_refused(
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


async def test_a_found_definition_is_the_listed_one_apart_from_the_hit_metadata(
    make_server: MakeServer, connect: Connect, send: Send
) -> None:
    bare = Tool(name="cancel_invoice", input_schema={"type": "object"})
    server = make_server([RICH, bare])
    install(server)
    async with connect(server) as client:
        listed = {tool["name"]: tool for tool in (await send(client, None, "tools/list"))["tools"]}
        found = (await send(client, {"query": "invoice"}))["tools"]
    assert {tool["name"] for tool in found} == set(listed)
    for tool in found:
        metadata = tool["_meta"].pop(EXTENSION_ID)
        assert 0 <= metadata["score"] <= 1
        assert metadata["matched"]
        assert json.dumps(tool["_meta"]) == json.dumps(
            {key: value for key, value in listed[tool["name"]].get("_meta", {}).items() if key != EXTENSION_ID}
        )
        for definition in (tool, listed[tool["name"]]):
            definition.pop("_meta", None)
        assert json.dumps(tool) == json.dumps(listed[tool["name"]])


async def test_what_the_server_publishes_stays_beside_the_hit_metadata(
    make_server: MakeServer, connect: Connect, send: Send
) -> None:
    # Neither shape is a hit's: what is listed may be anything.
    odd = Tool(name="cancel_invoice", input_schema={"type": "object"}, _meta={EXTENSION_ID: {"group": 7, "score": 9}})
    odder = Tool(name="print_invoice", input_schema={"type": "object"}, _meta={EXTENSION_ID: "billing"})
    server = make_server([RICH, odd, odder])
    install(server)
    async with connect(server) as client:
        found = {tool["name"]: tool["_meta"] for tool in (await send(client, {"query": "invoice"}))["tools"]}
    assert found["send_invoice"]["com.example/owner"] == {"team": ["billing"]}
    assert found["send_invoice"][EXTENSION_ID].items() >= {"group": "billing", "tags": ["money"]}.items()
    assert set(found["cancel_invoice"][EXTENSION_ID]) == {"score", "matched"}
    assert found["cancel_invoice"][EXTENSION_ID]["score"] <= 1
    assert set(found["print_invoice"][EXTENSION_ID]) == {"score", "matched"}


async def test_no_match_is_an_empty_array(billing: MCPServer[Any], connect: Connect, send: Send) -> None:
    install(billing)
    async with connect(billing) as client:
        answer = await send(client, {"query": "zymurgy"})
    assert answer["tools"] == []
    assert "nextCursor" not in answer


async def test_an_exact_name_comes_first_whatever_the_ranker_thinks(
    make_server: MakeServer, numbered: list[Tool], connect: Connect, send: Send
) -> None:
    class Careless:
        """Finds one tool twice, one that is not there, and scores that are no scores."""

        def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
            return [
                Hit("ledger_03", float("nan")),
                Hit("ledger_03", 0.5),
                Hit("admin_wipe_ledger", 0.4),
                Hit("ledger_04", -7.0),
            ]

    server = make_server(numbered)
    install(server, ToolsSearch(ranker=lambda _tools: Careless()))
    async with connect(server) as client:
        answer = await send(client, {"query": " ledger_07\n", "limit": 3})
    hits = [(tool["name"], tool["_meta"][EXTENSION_ID].get("score")) for tool in answer["tools"]]
    assert hits == [("ledger_07", 1.0), ("ledger_03", None), ("ledger_04", 0.0)]


async def test_of_two_tools_with_one_name_the_first_is_found_once(
    make_server: MakeServer, connect: Connect, send: Send
) -> None:
    twins = [
        Tool(name="send_invoice", description=text, input_schema={"type": "object"}) for text in ("first", "second")
    ]
    server = make_server(twins)
    install(server)
    async with connect(server) as client:
        found = (await send(client, {"query": "send_invoice"}))["tools"]
    assert [tool["description"] for tool in found] == ["first"]


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

    server = Server("catalogue", on_list_tools=list_tools)
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


def test_one_server_serves_large_catalogues_in_one_event_loop_after_another(make_server: MakeServer) -> None:
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
