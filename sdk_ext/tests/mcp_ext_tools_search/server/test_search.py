"""What `tools/search` answers: parameters, pages, definitions, caching."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search import EXTENSION_ID
from mcp_ext_tools_search.ranking import Hit, SimpleRanker, ToolIndex
from mcp_ext_tools_search.server import Answer, ToolsSearch, install
from mcp_ext_tools_search.types import METHOD, WHITE_SPACE
from mcp_types import Icon, Tool, ToolAnnotations

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[..., Awaitable[dict[str, Any]]]
MakeServer = Callable[..., Server[Any]]
ServeHttp = Callable[..., AbstractAsyncContextManager[str]]
Hold = Callable[[Client], Coroutine[Any, Any, None]]
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


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "is required"),
        ({"query": 7}, "must be a string"),
        ({"query": " "}, "must contain a character that is not white space"),
        ({"query": "i" * 5000}, "must not be longer than 4096 characters"),
        ({"query": "invoice", "limit": 0}, "must be at least 1"),
        ({"query": "invoice", "limit": "3"}, "must be an integer"),
        ({"query": "invoice", "limit": None}, "must be left out rather than null"),
        ({"query": "invoice", "cursor": 3}, "must be a string"),
        ({"query": "invoice", "cursor": "3"}, "was not issued by this server for this query"),
    ],
)
async def test_the_reason_says_what_to_do_and_repeats_nothing_of_the_value(
    billing: MCPServer[Any], connect: Connect, send: Send, params: dict[str, Any], reason: str
) -> None:
    install(billing)
    async with connect(billing) as client:
        with pytest.raises(MCPError) as refusal:
            await send(client, params)
    assert refusal.value.data["reason"] == reason


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
        assert await send(client, {"query": "invoice", "detail": 7, "filters": {}, "meta": 7}) == plain


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


async def test_a_server_that_hands_its_listing_over_is_not_made_to_list(
    make_server: MakeServer, connect: Connect, send: Send, era: str
) -> None:
    by_chain, handed_over = make_server([RICH]), make_server([RICH])
    install(by_chain)
    async with connect(by_chain) as client:
        (listed,) = (await send(client, method="tools/list"))["tools"]
        expected = await send(client, {"query": "invoice"})

    async def search(_ctx: object, _query: str, _note: str | None) -> Answer:
        return Answer([Hit("send_invoice", 1.0, ("name",))], {"send_invoice": listed}, ttl_ms=7)

    install(handed_over, ToolsSearch(search=search))
    methods: list[str] = []

    async def watch(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        methods.append(ctx.method)
        return await call_next(ctx)

    handed_over.middleware.append(watch)
    async with connect(handed_over) as client:
        found = await send(client, {"query": "invoice"})
    assert methods[-1] == "tools/search"
    assert "tools/list" not in methods
    assert found["tools"][0].pop("_meta")[EXTENSION_ID]["matched"] == ["name"]
    assert expected["tools"][0].pop("_meta")
    assert found["tools"] == expected["tools"]
    assert found.get("ttlMs") == (None if era == "legacy" else 7)


@dataclass
class Held:
    """Holds searches for "hold" until they may go on, and breaks down over one for "break"."""

    begun: int = 0
    may_go_on: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        query = (ctx.params or {}).get("query")
        if ctx.method == METHOD and query == "break":
            raise RuntimeError("broken")
        if ctx.method == METHOD and query == "hold":
            self.begun += 1
            await self.may_go_on.wait()
        return await call_next(ctx)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def hold(send: Send) -> Hold:
    """Sends a search that is held."""

    async def sent(client: Client) -> None:
        await send(client, {"query": "hold"})

    return sent


@pytest.fixture
def bounded(make_server: MakeServer, numbered: list[Tool], held: Held) -> Server[Any]:
    """A server that answers two searches at once."""
    server = make_server(numbered)
    ToolsSearch(max_searches=2).install(server)
    server.middleware.append(held)
    return server


async def test_a_search_beyond_the_bound_is_told_when_to_come_back_and_then_served(
    bounded: Server[Any], held: Held, hold: Hold, connect: Connect, send: Send
) -> None:
    async with connect(bounded) as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(hold, client)
            while held.begun < 2:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(MCPError) as refusal:
                await send(client, {"query": "ledger"})
            assert refusal.value.code == -32603
            assert refusal.value.message == "Too many searches at once; search again in 1000 ms"
            assert refusal.value.data == {"retryAfterMs": 1000}
            with pytest.raises(MCPError) as invalid:
                await send(client, {"query": " "})
            assert invalid.value.code == -32602  # whether it is one too many or not
            assert (await client.list_tools()).tools
            held.may_go_on.set()
        assert (await send(client, {"query": "ledger"}))["tools"]


async def test_searches_that_fail_or_are_refused_or_given_up_take_no_place_of_others(
    bounded: Server[Any], held: Held, hold: Hold, connect: Connect, send: Send
) -> None:
    async with connect(bounded) as client:
        for params in [{"query": "break"}, {"query": ""}] * 3:
            with pytest.raises(MCPError):
                await send(client, params)
        for begun in range(1, 4):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold, client)
                while held.begun < begun:
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        assert (await send(client, {"query": "ledger"}))["tools"]


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
                Hit("ledger_05", 9.0),
                Hit("admin_wipe_ledger", 0.4),
                Hit("ledger_04", -7.0),
            ]

    server = make_server(numbered)
    install(server, ToolsSearch(ranker=lambda _tools: Careless()))
    async with connect(server) as client:
        answer = await send(client, {"query": " ledger_07\n", "limit": 4})
    hits = [(tool["name"], tool["_meta"][EXTENSION_ID].get("score", "none")) for tool in answer["tools"]]
    assert hits == [("ledger_07", 1.0), ("ledger_03", "none"), ("ledger_05", 1.0), ("ledger_04", 0.0)]


async def test_the_index_of_a_listing_is_kept_until_eight_others_have_been_searched_since(
    make_server: MakeServer, connect: Connect, send: Send
) -> None:
    listed: list[Tool] = []
    indexed: list[str] = []

    def ranker(tools: Sequence[Tool]) -> ToolIndex:
        indexed.extend(tool.name for tool in tools)
        return SimpleRanker()(tools)

    server = make_server(listed)
    install(server, ToolsSearch(ranker=ranker))
    async with connect(server) as client:
        for name in "abcdefghaiab":  # `i` is one too many, when `b` was searched longest ago
            listed[:] = [Tool(name=name, input_schema={"type": "object"})]
            assert [tool["name"] for tool in (await send(client, {"query": name}))["tools"]] == [name]
    assert "".join(indexed) == "abcdefghib"


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


async def test_whatever_is_asked_what_is_found_is_what_is_listed(
    billing: MCPServer[Any], connect: Connect, send: Send
) -> None:
    install(billing)
    dice = random.Random(7)  # noqa: S311 - the same queries in every run
    words = ["invoice", "send a", "customer", "wipe_", "naïve", "請求書", "bidi \u202e", "'; --", "{}", "%s", "(["]
    async with connect(billing) as client:
        listed = {tool["name"]: tool for tool in (await send(client, None, "tools/list"))["tools"]}
        for _ in range(300):
            parts = (dice.choice([*words, " ", chr(dice.randrange(0xD800))]) for _ in range(dice.randrange(1, 40)))
            query = "".join(parts)
            if not query.strip(WHITE_SPACE):
                continue
            for tool in (await send(client, {"query": query, "limit": dice.randrange(1, 60)}))["tools"]:
                del tool["_meta"]
                assert tool == listed[tool["name"]]
