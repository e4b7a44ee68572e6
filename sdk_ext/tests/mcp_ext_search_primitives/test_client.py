"""A client finds resources, templates and prompts: by search, or by the list of a server that cannot search them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_search_primitives.client import (
    find,
    list_definitions,
    primitives_settings,
    search_prompts,
    search_resource_templates,
    search_resources,
)
from mcp_ext_search_primitives.server import ResourcesSearch
from mcp_ext_tools_search.client import (
    InvalidSearchRequestError,
    InvalidSearchResultError,
    ToolsSearchNotAdvertisedError,
    list_page,
    read_pages,
    server_settings,
)
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_ext_tools_search.server import ToolsSearch
from mcp_ext_tools_search.types import EXTENSION_ID, TOOLS, Primitive
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    ErrorData,
    RequestParams,
)

pytestmark = pytest.mark.anyio

Offering = Callable[..., Server[Any]]
Connect = Callable[..., AbstractAsyncContextManager[Client]]

OPTIONAL: tuple[Primitive[Any], ...] = (RESOURCES, RESOURCE_TEMPLATES, PROMPTS)
every_primitive = pytest.mark.parametrize("primitive", OPTIONAL, ids=lambda primitive: primitive.method)
QUERIES = {RESOURCES: "returns", RESOURCE_TEMPLATES: "ticket", PROMPTS: "complaint"}
ITEM: dict[Any, dict[str, Any]] = {
    RESOURCES: {"uri": "a:b", "name": "b"},
    RESOURCE_TEMPLATES: {"uriTemplate": "a:{b}", "name": "b"},
    PROMPTS: {"name": "b"},
}


def lying(server: Server[Any], answer: Any, settings: Any, received: list[str] | None = None) -> Server[Any]:
    """Return `server` with an advertisement, and with these answers to every search."""

    async def search(ctx: ServerRequestContext[Any], _: RequestParams) -> HandlerResult:
        params = {name: own for name, own in (ctx.params or {}).items() if name != "_meta"}
        given: Any = answer(params) if callable(answer) else answer
        if isinstance(given, int):
            raise MCPError.from_error_data(ErrorData(code=given, message="no"))
        return given

    async def advertise(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if received is not None:
            received.append(ctx.method)
        result = await call_next(ctx)
        if ctx.method in {"initialize", "server/discover"} and isinstance(result, dict):
            place = "experimental" if ctx.method == "initialize" else "extensions"
            result["capabilities"].setdefault(place, {})[EXTENSION_ID] = settings
        return result

    for primitive in OPTIONAL:
        server.add_request_handler(primitive.method, RequestParams, search)
    server.middleware.append(advertise)
    return server


async def test_each_kind_is_asked_for_by_its_own_function(offering: Offering, connect: Connect) -> None:
    server = offering()
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server) as client:
        assert (await search_resources(client, "returns")).resources[0].name == "returns.md"
        assert (await search_resource_templates(client.session, "ticket")).resource_templates[0].name == "ticket"
        assert (await search_prompts(client, "complaint", limit=1)).prompts[0].name == "answer_complaint"


@pytest.mark.parametrize(
    ("search", "primitive"),
    [(search_resources, RESOURCES), (search_resource_templates, RESOURCE_TEMPLATES), (search_prompts, PROMPTS)],
)
async def test_a_page_is_asked_for_by_limit_and_cursor_and_waited_for_as_long_as_the_caller_says(
    offering: Offering, connect: Connect, search: Callable[..., Any], primitive: Primitive[Any]
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return {primitive.member: []}

    async def hang(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if (ctx.params or {}).get("query") == "never":
            await anyio.sleep_forever()
        return await call_next(ctx)

    server = lying(offering(), answer, {"resources": {}, "prompts": {}})
    server.middleware.append(hang)
    async with connect(server) as client:
        await search(client, "x", limit=3, cursor="c")
        assert asked == [{"query": "x", "limit": 3, "cursor": "c"}]
        with pytest.raises(MCPError) as raised:
            await search(client, "never", timeout=0.2)
    assert raised.value.code == REQUEST_TIMEOUT


@every_primitive
async def test_pages_follow_one_another(offering: Offering, connect: Connect, primitive: Primitive[Any]) -> None:
    many = [{**ITEM[primitive], primitive.key: f"a:{{same}}/{number}"} for number in range(7)]
    place = {RESOURCES: "resources", RESOURCE_TEMPLATES: "templates", PROMPTS: "prompts"}[primitive]
    server = offering(**{place: many})
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server) as client:
        pages = await read_pages(client, "same", limit=2, primitive=primitive)
        assert [len(primitive.by_key(page)) for page in pages] == [2, 2, 2, 1]
        assert {key for page in pages for key in primitive.by_key(page)} == {item[primitive.key] for item in many}


@every_primitive
@pytest.mark.parametrize("stated", [{}, {"resources": True, "prompts": []}, {"resources": None, "prompts": "yes"}])
async def test_nothing_is_sent_to_a_server_whose_settings_lack_the_method(
    offering: Offering, connect: Connect, primitive: Primitive[Any], stated: dict[str, Any]
) -> None:
    received: list[str] = []
    server = lying(offering(), INTERNAL_ERROR, stated, received)
    async with connect(server) as client:
        assert server_settings(client) is not None
        with pytest.raises(ToolsSearchNotAdvertisedError, match=f"{primitive.method}: use {primitive.list_method}"):
            await read_pages(client, "x", primitive=primitive)
        found = await find(primitive, client, QUERIES[primitive])
        assert found.is_listed
        assert found.items
    assert primitive.method not in received


@every_primitive
@pytest.mark.parametrize(
    "answer",
    [
        METHOD_NOT_FOUND,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        {"resultType": "complete"},
        {"resources": {}, "resourceTemplates": None, "prompts": "x"},
        {"tools": []},
        {"resources": [], "resourceTemplates": [], "prompts": [], "nextCursor": 5},
    ],
)
async def test_an_unusable_answer_has_the_list_ranked_here(
    offering: Offering, connect: Connect, primitive: Primitive[Any], answer: Any
) -> None:
    server = lying(offering(), answer, {"resources": {}, "prompts": {}})
    async with connect(server) as client:
        found = await find(primitive, client, QUERIES[primitive])
        assert (found.is_listed, found.is_incomplete, bool(found.items)) == (True, False, True)


async def test_a_list_that_omits_resources_is_reported_as_incomplete(offering: Offering, connect: Connect) -> None:
    server = lying(offering(), METHOD_NOT_FOUND, {"resources": {"unlisted": True}, "prompts": {}})
    async with connect(server) as client:
        assert (await find(RESOURCES, client, "returns")).is_incomplete
        assert not (await find(PROMPTS, client, "complaint")).is_incomplete


@every_primitive
async def test_pages_are_requested_until_there_is_enough_and_no_more_than_that_is_returned(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    pages: dict[Any, list[str]] = {None: ["a:a"], "2": ["a:b", "a:c"], "3": ["a:d"]}
    asked: list[str | None] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params.get("cursor"))
        items = [{**ITEM[primitive], primitive.key: key} for key in pages[asked[-1]]]
        return {primitive.member: items, "nextCursor": str(len(asked) + 1)}

    async with connect(lying(offering(), answer, {"resources": {}, "prompts": {}})) as client:
        found = await find(primitive, client, "x", limit=2)
        assert len(found.items) == 2
        assert asked == [None, "2"]
        asked.clear()
        await find(primitive, client, "x", limit=3)
        assert asked == [None, "2"]


@every_primitive
async def test_a_busy_server_is_not_listed(offering: Offering, connect: Connect, primitive: Primitive[Any]) -> None:
    received: list[str] = []
    server = lying(offering(), INTERNAL_ERROR, {"resources": {}, "prompts": {}}, received)
    async with connect(server) as client:
        with pytest.raises(MCPError):
            await find(primitive, client, "x")
    assert primitive.list_method not in received


@every_primitive
async def test_a_refused_cursor_starts_over_once(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    asked: list[str | None] = []

    def answer(params: dict[str, Any]) -> Any:
        asked.append(params.get("cursor"))
        return INVALID_PARAMS if "cursor" in params else {primitive.member: [ITEM[primitive]], "nextCursor": "c"}

    async with connect(lying(offering(), answer, {"resources": {}, "prompts": {}})) as client:
        found = await find(primitive, client, "x", limit=5)
        assert (found.is_listed, len(found.items)) == (False, 1)
        assert found.is_incomplete
    assert asked == [None, "c", None, "c"]


@every_primitive
async def test_an_item_that_is_none_costs_itself_alone(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    good = ITEM[primitive]
    page = {primitive.member: [None, 5, {}, {primitive.key: 3}, good, good, {**good, primitive.key: "other"}]}
    answer = page | {"resultType": "complete", "ttlMs": -5, "nextCursor": None}
    async with connect(lying(offering(), answer, {"resources": {}, "prompts": {}})) as client:
        (result,) = await read_pages(client, "x", primitive=primitive)
        assert [*primitive.by_key(result)] == [good[primitive.key], "other"]
        (result,) = await read_pages(client, "x", limit=1, primitive=primitive)
        assert [*primitive.by_key(result)] == [good[primitive.key]]


@every_primitive
async def test_what_every_server_refuses_is_not_sent(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    cannot_search = offering()
    for server in (cannot_search, lying(offering(), INTERNAL_ERROR, {"resources": {}, "prompts": {}})):
        async with connect(server) as client:
            for query, limit in (
                (" ", 10),
                (None, 10),
                ("returns", 0),
                ("returns", -1),
                ("returns", "3"),
                ("returns", None),
            ):
                with pytest.raises(InvalidSearchRequestError):
                    await find(primitive, client, query, limit=limit)  # pyright: ignore[reportArgumentType]


@every_primitive
async def test_an_argument_of_a_wrong_type_is_refused_with_what_to_pass(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    for server in (offering(), lying(offering(), INTERNAL_ERROR, {"resources": {}, "prompts": {}})):
        async with connect(server) as client:
            wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
                (
                    (client, primitive, "x"),
                    {},
                    "primitive must be RESOURCES, RESOURCE_TEMPLATES, PROMPTS or TOOLS, not Client",
                ),
                (("resources", client, "x"), {}, "primitive must be RESOURCES, RESOURCE_TEMPLATES, PROMPTS or TOOLS"),
                ((primitive, client, "x"), {"ranker": "bm25"}, "ranker must be a Ranker, such as SimpleRanker()"),
                ((primitive, client, "x"), {"ranker": SimpleRanker}, "ranker must be a Ranker, such as SimpleRanker()"),
                ((primitive, client, "x"), {"timeout": "3"}, "timeout must be a number of seconds, not str"),
            ]
            for arguments, options, words in wrong:
                with pytest.raises((TypeError, InvalidSearchRequestError), match=re.escape(words)):
                    await find(*arguments, **options)


@every_primitive
async def test_a_session_is_searched_like_its_client(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    async with connect(offering()) as client:  # which cannot search, so its list is read
        assert await find(primitive, client.session, "returns") == await find(primitive, client, "returns")


@every_primitive
async def test_pages_that_bring_nothing_new_end(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    page: dict[str, Any] = {primitive.member: [], "nextCursor": "again"}
    async with connect(lying(offering(), page, {"resources": {}, "prompts": {}})) as client:
        with pytest.raises(InvalidSearchResultError, match="pages in a row without anything new"):
            await read_pages(client, "x", primitive=primitive)


@every_primitive
async def test_an_item_of_two_pages_counts_once(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    same, other = ITEM[primitive], {**ITEM[primitive], primitive.key: "other"}
    following = {None: "1", "1": "2", "2": None}

    def page(params: dict[str, Any]) -> dict[str, Any]:
        after = following[params.get("cursor")]
        return {primitive.member: [same if after else other], **({"nextCursor": after} if after else {})}

    async with connect(lying(offering(), page, {"resources": {}, "prompts": {}})) as client:
        found = await find(primitive, client, "x", limit=2)
    assert (len(found.items), found.is_incomplete) == (2, False)


async def test_settings_that_are_wrong_are_left_out(offering: Offering, connect: Connect) -> None:
    stated = {"maxLimit": "x", "resources": {"contents": "yes", "catalogSize": 5}, "prompts": {"topics": [3]}}
    async with connect(lying(offering(), INTERNAL_ERROR, stated)) as client:
        settings = primitives_settings(client)
        assert settings is not None
        assert settings.to_wire() == {"resources": {"catalogSize": 5}, "prompts": {}}


async def test_a_server_without_the_extension_has_no_settings(offering: Offering, connect: Connect) -> None:
    async with connect(offering()) as client:
        assert primitives_settings(client) is None
        found = await find(RESOURCES, client, "returns and losses", limit=1)
        assert [item.name for item in found.items] == ["returns.md"]
        assert len((await find(RESOURCES, client, "README.md", limit=1)).items) == 1  # of two with that name


@pytest.mark.parametrize(("bound", "most"), [("MAX_ITEMS", 20), ("_MAX_BYTES", 700), ("_MAX_PAGES", 2)])
async def test_a_list_without_end_is_read_up_to_a_bound(
    offering: Offering, connect: Connect, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(f"mcp_ext_search_primitives.client.{bound}", most)
    resources = [{"uri": f"a:{number}", "name": "same"} for number in range(100)]
    async with connect(offering(resources=resources, page_size=10)) as client:
        definitions, is_whole = await list_definitions(RESOURCES, client)
        assert (len(definitions), is_whole) == (20, False)


async def test_a_server_without_a_list_has_nothing(offering: Offering, connect: Connect) -> None:
    async with connect(offering(templates=None)) as client:
        assert await list_definitions(RESOURCE_TEMPLATES, client) == ({}, True)


@pytest.mark.parametrize("code", [METHOD_NOT_FOUND, INTERNAL_ERROR])
@pytest.mark.parametrize("found", [[ITEM[RESOURCES]], []], ids=["something", "nothing"])
async def test_a_list_whose_later_page_fails_is_not_whole(
    offering: Offering, connect: Connect, code: int, found: list[dict[str, Any]]
) -> None:
    async def fail_later(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != RESOURCES.list_method:
            return await call_next(ctx)
        if "cursor" in (ctx.params or {}):
            raise MCPError(code, "no")
        return {"resources": found, "nextCursor": "c", "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}

    server = offering()
    server.middleware.append(fail_later)
    async with connect(server) as client:
        definitions, is_whole = await list_definitions(RESOURCES, client)
        assert (len(definitions), is_whole) == (len(found), False)
        assert (await find(RESOURCES, client, "b")).is_incomplete


@every_primitive
@pytest.mark.parametrize("is_list", [True, False])
async def test_what_a_list_has_that_is_no_item_costs_itself_alone(
    offering: Offering, connect: Connect, primitive: Primitive[Any], is_list: bool
) -> None:
    good = ITEM[primitive]
    other = {**good, primitive.key: "other", "title": "b"}
    listed = [None, 5, {}, {primitive.key: 3}, good, other]
    if primitive is RESOURCE_TEMPLATES:
        listed.append({"uri_template": "a:{c}", "name": "c"})  # as Python names it, and the protocol does not
    page = {primitive.member: listed if is_list else None, "nextCursor": 5, "resultType": "complete"}

    async def answer(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return page if ctx.method == primitive.list_method else await call_next(ctx)

    server = offering()
    server.middleware.append(answer)
    async with connect(server) as client:
        found = await find(primitive, client, "b")
    assert [item.model_dump(by_alias=True)[primitive.key] for item in found.items] == (
        [good[primitive.key], "other"] if is_list else []
    )


async def test_what_the_server_searches_is_what_is_found(offering: Offering, connect: Connect) -> None:
    server = offering()
    ToolsSearch(resources=ResourcesSearch(), prompts=True).install(server)
    async with connect(server) as client:
        for primitive in OPTIONAL:
            found = await find(primitive, client, QUERIES[primitive], limit=1)
            assert (found.is_listed, found.is_incomplete, len(found.items)) == (False, False, 1)
            assert not (await find(primitive, client, QUERIES[primitive], limit=100)).is_incomplete  # fewer were found


@pytest.mark.parametrize("primitive", [TOOLS, *OPTIONAL], ids=lambda primitive: primitive.method)
async def test_a_listing_waits_as_long_as_its_client_or_as_its_caller_says(
    offering: Offering, primitive: Primitive[Any]
) -> None:
    server = offering()

    async def hang(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == primitive.list_method:
            await anyio.sleep_forever()
        return await call_next(ctx)

    server.middleware.append(hang)
    with anyio.fail_after(20):
        async with Client(server, read_timeout_seconds=0.2) as client:
            with pytest.raises(MCPError) as raised:
                await (list_page(client, None) if primitive is TOOLS else list_definitions(primitive, client))
        assert raised.value.code == REQUEST_TIMEOUT
        if primitive is not TOOLS:
            async with Client(server) as client:
                with pytest.raises(MCPError) as raised:
                    await find(primitive, client, "x", timeout=0.2)
            assert raised.value.code == REQUEST_TIMEOUT
