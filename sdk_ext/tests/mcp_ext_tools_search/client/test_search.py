"""A client searches servers that keep to the draft, and is not taken in by those that do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search import EXTENSION_ID, METHOD, HitMetadata, ServerSettings
from mcp_ext_tools_search.client import (
    InvalidSearchRequestError,
    InvalidSearchResultError,
    ToolsSearchError,
    ToolsSearchNotAdvertisedError,
    absorb,
    hit_metadata,
    is_for_model,
    list_page,
    raw_request,
    read_pages,
    retry_after,
    search_tools,
    server_settings,
)
from mcp_ext_tools_search.ranking import SimpleRanker, floored
from mcp_ext_tools_search.server import install
from mcp_types import Tool

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Lying = Callable[..., Server[Any]]


def _tool(name: Any = "send_invoice", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


async def test_a_search_answers_the_best_tools_with_why(billing: MCPServer[Any], connect: Connect) -> None:
    install(billing)
    async with connect(billing) as client:
        for target in (client, client.session):
            result = await search_tools(target, "send an invoice", limit=1, timeout=20)
            assert [tool.name for tool in result.tools] == ["send_invoice"]
            metadata = hit_metadata(result.tools[0])
            assert metadata is not None
            assert metadata.score == 1
            assert "name" in (metadata.matched or [])
        assert result.next_cursor
        following = await search_tools(client, "send an invoice", limit=1, cursor=result.next_cursor)
        assert following.tools != result.tools


async def test_a_limit_may_be_an_integer_in_any_notation(billing: MCPServer[Any], connect: Connect) -> None:
    install(billing)
    async with connect(billing) as client:
        limit: Any = 1.0
        assert len((await search_tools(client, "send an invoice", limit=limit)).tools) == 1


async def test_nothing_is_sent_to_a_server_that_does_not_advertise(billing: MCPServer[Any], connect: Connect) -> None:
    received: list[str] = []

    async def record(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        received.append(ctx.method)
        return await call_next(ctx)

    billing.middleware.append(record)
    async with connect(billing) as client:
        with pytest.raises(ToolsSearchNotAdvertisedError, match="use tools/list"):
            await search_tools(client, "invoice")
    assert METHOD not in received


@pytest.mark.parametrize(
    ("query", "optional", "words"),
    [
        ("", {}, "query: must contain"),
        (" \u2003", {}, "query: must contain"),
        ("\ud800", {}, "query: must be valid Unicode"),
        (7, {}, "query: must be a string"),
        ("invoice", {"limit": 0}, "limit: must be at least 1"),
        ("invoice", {"limit": "3"}, "limit: must be an integer"),
        ("invoice", {"cursor": 3}, "cursor: must be a string"),
    ],
)
async def test_a_mistake_of_our_own_is_not_sent(
    lying: Lying, connect: Connect, query: Any, optional: dict[str, Any], words: str
) -> None:
    async with connect(lying({"tools": []})) as client:
        with pytest.raises(InvalidSearchRequestError, match=words) as mistake:
            await search_tools(client, query, **optional)
    assert str(mistake.value) == f"not sent: {mistake.value.reason}"
    assert isinstance(mistake.value, ValueError)
    assert isinstance(mistake.value, ToolsSearchError)


async def test_an_error_response_comes_as_the_sdk_raises_it(billing: MCPServer[Any], connect: Connect) -> None:
    install(billing)
    async with connect(billing) as client:
        with pytest.raises(MCPError) as refusal:
            await search_tools(client, "invoice", cursor="forged")
    assert refusal.value.code == -32602


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "tools: is required"),
        ({"tools": None}, "tools: "),
        ({"tools": {"name": "send_invoice"}}, "tools: "),
        ({"tools": [], "nextCursor": 2}, "nextCursor: "),
    ],
)
async def test_an_unusable_result_is_refused_with_its_place(
    lying: Lying, connect: Connect, answer: dict[str, Any], words: str
) -> None:
    async with connect(lying(answer)) as client:
        with pytest.raises(InvalidSearchResultError, match=words) as lie:
            await search_tools(client, "invoice")
        assert str(lie.value) == f"the server answered a search with an unusable result: {lie.value.reason}"
        assert isinstance(lie.value, ToolsSearchError)
        assert (await client.list_tools()).tools == []


async def test_a_cursor_that_is_null_is_none(lying: Lying, connect: Connect) -> None:
    async with connect(lying({"tools": [_tool()], "nextCursor": None})) as client:
        page = await search_tools(client, "invoice")
    assert (len(page.tools), page.next_cursor) == (1, None)


async def test_another_kind_of_result_is_unusable_on_modern_connections_only(
    lying: Lying, connect: Connect, era: str
) -> None:
    async with connect(lying({"tools": [_tool()], "resultType": "input_required"})) as client:
        if era == "legacy":
            assert len((await search_tools(client, "invoice")).tools) == 1
        else:
            with pytest.raises(InvalidSearchResultError):
                await search_tools(client, "invoice")


async def test_entries_that_are_no_tools_are_left_out(lying: Lying, connect: Connect) -> None:
    invalid = [{"name": "send_invoice"}, _tool(name=7), "send_invoice", None]
    async with connect(lying({"tools": [*invalid[:2], _tool("a"), *invalid[2:]], "nextCursor": "2"})) as client:
        page = await search_tools(client, "invoice")
    assert ([tool.name for tool in page.tools], page.next_cursor) == (["a"], "2")


@pytest.mark.parametrize("ttl", [-1, "soon", None, 0.5, True])
async def test_malformed_hints_are_read_as_none_and_private(lying: Lying, connect: Connect, ttl: Any) -> None:
    for hints in ({"ttlMs": ttl, "cacheScope": "shared"}, {"ttlMs": ttl, "cacheScope": None, "_meta": 7}):
        async with connect(lying({"tools": [_tool()], **hints})) as client:
            page = await search_tools(client, "invoice")
        assert (len(page.tools), page.ttl_ms, page.cache_scope) == (1, 0, "private")


async def test_a_page_is_used_as_far_as_it_goes(lying: Lying, connect: Connect) -> None:
    first, second = _tool("a", title="first"), _tool("a", title="second")
    async with connect(lying({"tools": [first, second, _tool("b"), _tool("c")]})) as client:
        for limit, names in ((None, ["a", "b", "c"]), (2, ["a", "b"])):
            page = await search_tools(client, "invoice", limit=limit)
            assert [tool.name for tool in page.tools] == names
            assert page.tools[0].title == "first"


@pytest.mark.parametrize(
    ("code", "data", "seconds"),
    [
        (-32603, {"retryAfterMs": 1500, "more": 1}, 1.5),
        (-32603, {"retryAfterMs": 0}, 0),
        (-32603, {"retryAfterMs": 10**400}, 86_400),
        (-32603, {"retryAfterMs": -1}, None),
        (-32603, {"retryAfterMs": True}, None),
        (-32603, {"retryAfterMs": "1500"}, None),
        (-32603, ["retryAfterMs"], None),
        (-32603, None, None),
        (-32000, {"retryAfterMs": 1500}, None),
    ],
)
def test_a_busy_answer_says_when_to_search_again(code: int, data: Any, seconds: float | None) -> None:
    assert retry_after(MCPError(code, "no", data)) == seconds


@pytest.mark.parametrize(
    ("published", "read"),
    [
        ({"score": 0.5, "matched": ["name"], "tags": []}, HitMetadata(score=0.5, matched=["name"])),
        ({}, HitMetadata()),
        ({"score": 7}, None),
        ("high", None),
        (None, None),
    ],
)
def test_hit_metadata_that_is_missing_or_wrong_is_no_metadata(published: Any, read: HitMetadata | None) -> None:
    tool = Tool.model_validate(_tool(_meta={EXTENSION_ID: published}), by_name=False)
    assert hit_metadata(tool) == read
    assert hit_metadata(Tool.model_validate(_tool(), by_name=False)) is None


@pytest.mark.parametrize(
    ("settings", "read"),
    [
        ({"catalogSize": 3, "maxLimit": 2.0, "facets": 1}, {"catalogSize": 3, "maxLimit": 2}),
        ({"maxLimit": "50", "topics": ["a"]}, {"topics": ["a"]}),
        ({"maxLimit": None, "catalogSize": -1, "topics": [7, 8]}, {}),
    ],
)
async def test_settings_are_read_leniently(
    lying: Lying, connect: Connect, settings: dict[str, Any], read: dict[str, Any]
) -> None:
    async with connect(lying({"tools": []}, settings)) as client:
        assert server_settings(client) == ServerSettings.model_validate(read)
        assert server_settings(client.session) == server_settings(client)


async def test_the_older_place_counts_on_legacy_connections_only(lying: Lying, connect: Connect, era: str) -> None:
    async with connect(lying({"tools": []}, {"maxLimit": 5}, "experimental")) as client:
        assert server_settings(client) == (ServerSettings(max_limit=5) if era == "legacy" else None)


async def test_a_client_that_is_not_connected_yet_knows_of_no_settings(billing: MCPServer[Any]) -> None:
    install(billing)
    async with Client(billing) as connected:
        session = type(connected.session)(dispatcher=connected.session._dispatcher)  # pyright: ignore[reportPrivateUsage] - any will do
        assert server_settings(session) is None


@pytest.mark.parametrize("target", [None, MCPServer("billing"), {"session": None}])
async def test_what_is_no_client_is_refused_with_what_to_pass(target: Any) -> None:
    for ask in (search_tools(target, "send an invoice"), read_pages(target, "send an invoice")):
        with pytest.raises(TypeError, match=f"a connected `Client` or its session, not {type(target).__name__}"):
            await ask
    with pytest.raises(TypeError, match="a connected `Client` or its session"):
        server_settings(target)


async def test_a_search_that_takes_too_long_times_out_and_is_cancelled(connect: Connect, lying: Lying) -> None:
    cancelled = anyio.Event()
    server = lying({"tools": []})

    async def hang(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != METHOD:
            return await call_next(ctx)
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    server.middleware.append(hang)
    async with connect(server) as client:
        with pytest.raises(MCPError) as timeout:
            await search_tools(client, "invoice", timeout=0.05)
        assert timeout.value.code == -32001
        await cancelled.wait()


async def test_progress_is_passed_on(connect: Connect, lying: Lying) -> None:
    server = lying({"tools": []})
    heard: list[float] = []
    arrived = anyio.Event()

    async def report(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == METHOD:
            await ctx.session.report_progress(0.5)
        return await call_next(ctx)

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert (total, message) == (None, None)
        heard.append(progress)
        arrived.set()

    server.middleware.append(report)
    async with connect(server) as client:
        await search_tools(client, "invoice", progress=hear)
        await arrived.wait()
    assert heard == [0.5]


async def test_an_argument_of_a_wrong_type_is_refused_with_what_to_pass(
    billing: MCPServer[Any], connect: Connect
) -> None:
    install(billing)
    definition: Any = _tool()
    async with connect(billing) as connected:
        client: Any = connected
        wrong: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
            (list_page, (None, client), {}, "the client must be a connected `Client` or its session, not NoneType"),
            (raw_request, ("tools/list", client, {}), {"seconds": 1}, "the client must be a connected `Client`"),
            (search_tools, (client, "x"), {"primitive": "tools"}, "primitive must be RESOURCES, RESOURCE_TEMPLATES, P"),
            (search_tools, (client, "x"), {"timeout": "3"}, "timeout must be a number of seconds, not str"),
        ]
        for ask, arguments, options, words in wrong:
            with pytest.raises(TypeError, match=re.escape(words)):
                await ask(*arguments, **options)
        session: Any = connected.session
        assert (await list_page(session, None)).result.tools == (await list_page(client, None)).result.tools
        assert absorb(client, (await list_page(client, None)).result.tools)
        with pytest.raises(TypeError, match="the client must be a connected"):
            absorb(definition, [])
    for read in (is_for_model, hit_metadata):
        with pytest.raises(TypeError, match=re.escape("tool must be a Tool, as from Tool.model_validate(definition)")):
            read(definition)
    assert retry_after(ValueError("which no server sent")) is None


def test_a_ranker_refuses_definitions_and_queries_of_a_wrong_type() -> None:
    wrong: Any = _tool()
    with pytest.raises(TypeError, match="each of the tools must be a Tool, not dict"):
        SimpleRanker()([wrong])
    with pytest.raises(TypeError, match="query must be text, not NoneType"):
        SimpleRanker()([]).search(cast("str", None))
    with pytest.raises(TypeError, match="ranker must be a Ranker"):
        floored(wrong)
