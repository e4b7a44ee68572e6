"""What a server of all four kinds of items answers, against its own lists."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_search_primitives import (
    PROMPTS,
    RESOURCE_TEMPLATES,
    RESOURCES,
    PrimitiveSettings,
    PrimitivesServerSettings,
    ResourcesSettings,
)
from mcp_ext_search_primitives.server import Contents, PromptsSearch, ResourcesSearch
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.ranking.floor import terms, trimmed
from mcp_ext_tools_search.server import Answer, ToolsSearch
from mcp_ext_tools_search.types import EXTENSION_ID, TOOLS, Primitive
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

pytestmark = pytest.mark.anyio

Offering = Callable[..., Server[Any]]
Connect = Callable[..., AbstractAsyncContextManager[Client]]

OPTIONAL = (RESOURCES, RESOURCE_TEMPLATES, PROMPTS)
every_primitive = pytest.mark.parametrize("primitive", OPTIONAL, ids=lambda primitive: primitive.method)


async def ask(client: Client, primitive: Primitive[Any], query: Any, **params: Any) -> dict[str, Any]:
    return await raw_request(client, primitive.method, {"query": query, **params}, seconds=20)


async def found(client: Client, primitive: Primitive[Any], query: str, **params: Any) -> list[str]:
    return [item[primitive.key] for item in (await ask(client, primitive, query, **params))[primitive.member]]


async def listed(client: Client, primitive: Primitive[Any]) -> dict[str, dict[str, Any]]:
    items: dict[str, dict[str, Any]] = {}
    cursor: dict[str, Any] = {}
    while True:
        page = await raw_request(client, primitive.list_method, cursor, seconds=20)
        for item in page[primitive.member]:
            items.setdefault(item[primitive.key], item)  # the first of a key counts
        if "nextCursor" not in page:
            return items
        cursor = {"cursor": page["nextCursor"]}


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return a definition without the metadata of the hit."""
    meta = {name: value for name, value in item.get("_meta", {}).items() if name != EXTENSION_ID}
    return {name: value for name, value in item.items() if name != "_meta"} | ({"_meta": meta} if meta else {})


@pytest.mark.parametrize(
    ("primitive", "query", "first", "matched"),
    [
        (RESOURCES, "what customers return", "docs://handbook/returns.md", {"description", "title"}),
        (RESOURCES, "shipping", "docs://handbook/shipping.md", {"uri", "name"}),
        (RESOURCE_TEMPLATES, "a ticket by its number", "docs://tickets/{number}", {"uriTemplate", "name"}),
        (RESOURCE_TEMPLATES, "issues of a repository", "git://{repository}/issues/{issue}", {"uriTemplate", "name"}),
        (PROMPTS, "reply to a complaint", "answer_complaint", {"name", "description"}),
        (PROMPTS, "the tone of a letter", "answer_complaint", {"arguments"}),
        (PROMPTS, "meeting", "summarize", {"arguments"}),
    ],
)
async def test_what_fits_is_found_with_the_members_that_matched(
    offering: Offering, connect: Connect, primitive: Primitive[Any], query: str, first: str, matched: set[str]
) -> None:
    server = offering()
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server) as client:
        best = (await ask(client, primitive, query))[primitive.member][0]
        assert best[primitive.key] == first
        assert matched <= {*best["_meta"][EXTENSION_ID]["matched"]} <= {*best, "contents"}


@every_primitive
async def test_definitions_are_those_of_the_list_and_caching_is_that_of_the_list(
    offering: Offering, connect: Connect, era: str, primitive: Primitive[Any]
) -> None:
    server = offering()
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server) as client:
        items = await listed(client, primitive)
        for key, item in items.items():
            page = await ask(client, primitive, key)
            assert plain(page[primitive.member][0]) == item
            expected = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"} if era == "auto" else {}
            assert {name: page.get(name) for name in expected} == expected
            assert expected or not page.keys() & {"resultType", "ttlMs", "cacheScope"}


@pytest.mark.parametrize(
    "query", ["docs://handbook/returns.md", " docs://handbook/returns.md\n", "docs://tests/README.md"]
)
async def test_a_resource_is_the_first_for_its_uri(offering: Offering, connect: Connect, query: str) -> None:
    server = offering()
    ToolsSearch(resources=True).install(server)
    async with connect(server) as client:
        assert (await found(client, RESOURCES, query))[0] == query.strip()


async def test_a_name_that_several_have_brings_one_of_them_first_and_all_of_them(
    offering: Offering, connect: Connect
) -> None:
    server = offering()
    ToolsSearch(resources=True).install(server)
    async with connect(server) as client:
        keys = await found(client, RESOURCES, "README.md")
        assert keys[0] in {"docs://code/README.md", "docs://tests/README.md"}
        assert {*keys} >= {"docs://code/README.md", "docs://tests/README.md"}


async def test_a_uri_goes_before_a_name_that_is_the_same_text(offering: Offering, connect: Connect) -> None:
    tricky = [{"uri": "a:b", "name": "c:d"}, {"uri": "c:d", "name": "x"}]
    server = offering(resources=tricky)
    ToolsSearch(resources=True).install(server)
    async with connect(server) as client:
        assert (await found(client, RESOURCES, "c:d"))[0] == "c:d"


async def test_the_settings_state_what_is_searched(offering: Offering, connect: Connect) -> None:
    async def nothing(*_: Any) -> Answer:
        return Answer([], {})

    server = offering()
    resources = ResourcesSearch(search=nothing, unlisted=True)
    ToolsSearch(resources=resources, prompts=True, max_limit=7).install(server)
    async with connect(server) as client:
        capabilities = client.session.server_capabilities
        assert capabilities is not None
        places = [capabilities.extensions, capabilities.experimental]
        own = next(place[EXTENSION_ID] for place in places if place and EXTENSION_ID in place)
        assert own == {"maxLimit": 7, "resources": {"unlisted": True, "maxLimit": 7}, "prompts": {"maxLimit": 7}}
        assert capabilities.resources is not None
        assert capabilities.prompts is not None


@pytest.mark.parametrize(
    ("resources", "kept"), [(True, {"resources": {"catalogSize": 4, "maxLimit": 50}}), (False, {})]
)
def test_settings_of_what_is_not_searched_are_not_advertised(resources: bool, kept: dict[str, Any]) -> None:
    stated = PrimitivesServerSettings(resources=ResourcesSettings(catalog_size=4), prompts=PrimitiveSettings())
    search = ToolsSearch(settings=lambda: stated, resources=resources)
    assert search.settings() == {"maxLimit": 50} | kept


@every_primitive
async def test_a_method_that_was_not_asked_for_is_not_there(
    offering: Offering, connect: Connect, primitive: Primitive[Any]
) -> None:
    server = offering()
    ToolsSearch(resources=primitive is PROMPTS, prompts=primitive is not PROMPTS).install(server)
    async with connect(server) as client:
        with pytest.raises(MCPError) as refused:
            await ask(client, primitive, "x")
        assert refused.value.code == METHOD_NOT_FOUND


@every_primitive
async def test_a_modern_client_that_declares_nothing_is_refused(
    offering: Offering, connect: Connect, era: str, primitive: Primitive[Any]
) -> None:
    server = offering()
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server, declares=False) as client:
        if era == "legacy":
            assert primitive.member in await ask(client, primitive, "x")
            return
        with pytest.raises(MCPError) as refused:
            await ask(client, primitive, "x")
        assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
        assert primitive.method in refused.value.message


@every_primitive
@pytest.mark.parametrize(
    "params", [{"query": " "}, {"query": 3}, {"query": "x", "limit": 0}, {"query": "x", "cursor": 1}]
)
async def test_wrong_parameters_are_refused_by_name(
    offering: Offering, connect: Connect, primitive: Primitive[Any], params: dict[str, Any]
) -> None:
    server = offering()
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server) as client:
        with pytest.raises(MCPError) as refused:
            await raw_request(client, primitive.method, params, seconds=20)
        assert refused.value.code == INVALID_PARAMS
        assert refused.value.data["field"] == [*params][-1]


@pytest.mark.parametrize("issuer", [TOOLS, *OPTIONAL], ids=lambda primitive: primitive.method)
async def test_a_cursor_of_one_method_is_refused_by_every_other(
    offering: Offering, connect: Connect, issuer: Primitive[Any]
) -> None:
    many = range(5)
    server = offering(
        resources=[{"uri": f"a:{n}", "name": "same"} for n in many],
        templates=[{"uriTemplate": f"a:{{{n}}}", "name": "same"} for n in many],
        prompts=[{"name": f"same_{n}"} for n in many],
    )
    tools = [Hit(f"same_{n}", 1.0) for n in many]
    definitions = {hit.name: {"name": hit.name, "inputSchema": {"type": "object"}} for hit in tools}

    async def search(_ctx: Any, _query: str, _note: str | None) -> Answer:
        return Answer(tools, definitions)

    ToolsSearch(resources=True, prompts=True, cursor_key=b"k" * 32, search=search).install(server)
    async with connect(server) as client:
        cursor = (await ask(client, issuer, "same", limit=2))["nextCursor"]
        assert (await ask(client, issuer, "same", limit=2, cursor=cursor))[issuer.member]
        for other in {TOOLS, *OPTIONAL} - {issuer}:
            with pytest.raises(MCPError) as refused:
                await ask(client, other, "same", limit=2, cursor=cursor)
            assert refused.value.code == INVALID_PARAMS
            assert refused.value.data["field"] == "cursor"


async def test_a_page_search_is_for_tools_only(offering: Offering, connect: Connect) -> None:
    async def page_search(_ctx: Any, _query: str, _positions: range) -> Answer:
        return Answer([], {})

    server = offering()
    ToolsSearch(resources=True, page_search=page_search).install(server)
    async with connect(server) as client:
        assert await found(client, TOOLS, "send_invoice") == []
        assert await found(client, RESOURCES, "returns") == ["docs://handbook/returns.md"]


async def test_what_a_middleware_hides_is_neither_found_nor_counted(offering: Offering, connect: Connect) -> None:
    async def hide(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "resources/list" and isinstance(result, dict):
            shown = [item for item in result["resources"] if item["uri"] != "docs://handbook/returns.md"]
            return result | {"resources": shown}
        return result

    hiding, lacking = offering(resources=_RESOURCES), offering(resources=_RESOURCES[1:])
    hiding.middleware.append(hide)
    for server in (hiding, lacking):
        ToolsSearch(resources=True).install(server)
    async with connect(hiding) as one, connect(lacking) as other:
        for query in ("returns and losses", "docs://handbook/returns.md", "handbook", "README.md"):
            assert (await ask(one, RESOURCES, query))["resources"] == (await ask(other, RESOURCES, query))["resources"]


_RESOURCES: list[dict[str, Any]] = [
    {"uri": "docs://handbook/returns.md", "name": "returns.md", "title": "Returns and losses"},
    {"uri": "docs://handbook/shipping.md", "name": "shipping.md"},
    {"uri": "docs://code/README.md", "name": "README.md"},
]


async def test_a_server_without_templates_has_none_to_find(offering: Offering, connect: Connect) -> None:
    server = offering(templates=None)
    ToolsSearch(resources=True).install(server)
    async with connect(server) as client:
        assert (await ask(client, RESOURCE_TEMPLATES, "ticket"))["resourceTemplates"] == []


@pytest.mark.parametrize(
    ("primitive", "is_later"),
    [(RESOURCES, False), (PROMPTS, False), (RESOURCES, True), (RESOURCE_TEMPLATES, True), (PROMPTS, True)],
)
async def test_a_list_that_breaks_off_is_an_error_and_not_a_shorter_list(
    offering: Offering, connect: Connect, primitive: Primitive[Any], is_later: bool
) -> None:
    async def refuse(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == primitive.list_method and ("cursor" in (ctx.params or {})) == is_later:
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        return await call_next(ctx)

    server = offering(page_size=1)
    server.middleware.append(refuse)
    ToolsSearch(resources=True, prompts=True).install(server)
    async with connect(server) as client:
        with pytest.raises(MCPError):
            await ask(client, primitive, "ticket")


@pytest.mark.parametrize(
    ("lacking", "search"), [("resources", ToolsSearch(resources=True)), ("prompts", ToolsSearch(prompts=True))]
)
def test_a_server_that_lists_nothing_of_a_kind_cannot_search_it(
    offering: Offering, lacking: str, search: ToolsSearch
) -> None:
    with pytest.raises(ValueError, match=f"no {lacking}/list: pass on_list_{lacking} to Server"):
        search.install(offering(**{lacking: None}))


@pytest.mark.parametrize(
    ("argument", "wrong", "said"),
    [
        ("resources", ResourcesSearch, "resources must be True, False or ResourcesSearch"),
        ("resources", {"contents": True}, "resources must be True, False or ResourcesSearch"),
        ("resources", Contents(), "resources must be True, False or ResourcesSearch"),
        ("prompts", ResourcesSearch(), "prompts must be True, False or PromptsSearch"),
        ("prompts", "yes", "prompts must be True, False or PromptsSearch"),
    ],
)
def test_what_configures_no_search_is_refused_rather_than_taken_for_true(argument: str, wrong: Any, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        ToolsSearch(**{argument: wrong})


def test_a_search_of_resources_is_refused_if_it_promises_what_it_cannot_do() -> None:
    wrong: Any = Contents
    with pytest.raises(TypeError, match="contents must be True, False or Contents"):
        ResourcesSearch(contents=wrong)
    with pytest.raises(ValueError, match="unlisted=True needs a search"):
        ResourcesSearch(unlisted=True)
    wrong = "bm25"
    for configure in (
        lambda: ResourcesSearch(search=wrong),
        lambda: ResourcesSearch(templates=wrong),
        lambda: PromptsSearch(search=wrong),
    ):
        with pytest.raises(TypeError, match="must be an async function that returns an Answer, not str"):
            configure()
    with pytest.raises(TypeError, match="unlisted must be True or False, not str"):
        ResourcesSearch(unlisted=wrong)


async def test_a_function_takes_the_place_of_listing_and_ranking(offering: Offering, connect: Connect) -> None:
    def finding(key: str, item: dict[str, Any]) -> Any:
        async def search(_ctx: Any, _query: str, _note: str | None) -> Answer:
            return Answer([Hit(item[key], 1.0, ("name",))], {item[key]: item})

        return search

    unlisted = {"uri": "docs://elsewhere", "name": "elsewhere"}
    template = {"uriTemplate": "a:{b}", "name": "b"}
    resources = ResourcesSearch(
        search=finding("uri", unlisted), templates=finding("uriTemplate", template), contents=True
    )
    prompts = PromptsSearch(search=finding("name", {"name": "hello"}))
    server = offering()
    ToolsSearch(resources=resources, prompts=prompts).install(server)
    async with connect(server) as client:
        assert await found(client, RESOURCES, "x") == ["docs://elsewhere"]
        assert await found(client, RESOURCE_TEMPLATES, "x") == ["a:{b}"]
        assert await found(client, PROMPTS, "x") == ["hello"]


async def test_a_list_without_end_is_an_error_and_not_a_wait(
    offering: Offering, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_ext_search_primitives.server.MAX_ITEMS", 1_000)
    endless = _Endless()
    server = offering(resources=endless, page_size=400)
    ToolsSearch(resources=True).install(server)
    async with connect(server) as client:
        with pytest.raises(MCPError) as refused:
            await ask(client, RESOURCES, "x")
        assert (refused.value.code, refused.value.message) == (INTERNAL_ERROR, "Internal server error")
    assert 1_000 < endless.read < 2_000


class _Endless:
    """Ten million resources, made when they are looked at."""

    read = 0

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, places: slice) -> list[dict[str, Any]]:
        self.read = places.stop
        return [{"uri": f"docs://{place}", "name": str(place)} for place in range(places.start, places.stop)]


async def test_every_decorated_resource_template_and_prompt_can_be_found(connect: Connect) -> None:
    mcp = MCPServer[Any]("decorated")

    @mcp.resource("docs://price-list", description="What everything costs.")
    def prices() -> str:  # pyright: ignore[reportUnusedFunction] - registered
        return "tea 3"

    @mcp.resource("docs://orders/{number}")
    def order(number: str) -> str:  # pyright: ignore[reportUnusedFunction] - registered
        """One order."""
        return number

    @mcp.prompt()
    def apologize(customer: str) -> str:  # pyright: ignore[reportUnusedFunction] - registered
        """Say sorry for a late delivery."""
        return customer

    ToolsSearch(resources=True, prompts=True).install(mcp)
    async with connect(mcp) as client:
        assert await found(client, RESOURCES, "what does it cost") == ["docs://price-list"]
        assert await found(client, RESOURCE_TEMPLATES, "order number") == ["docs://orders/{number}"]
        assert await found(client, PROMPTS, "late delivery") == ["apologize"]


def test_a_server_of_tools_alone_does_not_even_load_what_searches_more_nor_numpy_before_its_first_search() -> None:
    program = (
        "import sys; from mcp.server import MCPServer; from mcp_ext_tools_search.server import install; "
        "install(MCPServer('x')); import mcp_ext_tools_search.client; "
        "print([name for name in sys.modules if name.startswith(('mcp_ext_search_primitives', 'numpy'))])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "[]\n"


words = st.sampled_from(
    ["tea", "Tea", "ledger", "README.md", "v1.2", "münchen", "茶叶", "a b", "x" * 70, "\u200b", "%41", ""]
)
names = st.lists(words, min_size=1, max_size=3).map(" ".join)
optional = {"title": names, "description": names}
catalogs = st.fixed_dictionaries(
    {
        "resources": st.lists(
            st.fixed_dictionaries({"uri": names.map("a:".__add__), "name": names}, optional=optional), max_size=8
        ),
        "templates": st.lists(
            st.fixed_dictionaries({"uriTemplate": names.map("b:{}/".__add__), "name": names}, optional=optional),
            max_size=6,
        ),
        "prompts": st.lists(st.fixed_dictionaries({"name": names}, optional=optional), max_size=6),
    }
)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@settings(deadline=None, max_examples=25)
@given(catalog=catalogs, query=names.filter(trimmed), limit=st.integers(1, 4))
def test_pages_together_are_a_part_of_the_list_under_the_floor(
    offering: Offering, mode: str, catalog: dict[str, list[dict[str, Any]]], query: str, limit: int
) -> None:
    async def check() -> None:
        server = offering(**catalog)
        ToolsSearch(resources=True, prompts=True).install(server)
        with anyio.fail_after(30):
            async with Client(server, mode=mode, extensions=[TOOLS_SEARCH]) as client:
                for primitive in OPTIONAL:
                    await check_pages(client, primitive)

    async def check_pages(client: Client, primitive: Primitive[Any]) -> None:
        items = await listed(client, primitive)
        whole = (await ask(client, primitive, query, limit=50))[primitive.member]
        pages: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await ask(client, primitive, query, limit=limit, **cursor)
            assert len(page[primitive.member]) <= limit
            pages += page[primitive.member]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert pages == whole
        keys = [item[primitive.key] for item in pages]
        assert len(keys) == len({*keys})
        assert all(plain(item) == items[item[primitive.key]] for item in pages)
        if first := [key for key in items if key in (query, trimmed(query))]:
            assert keys[0] in first
        elif named := [key for key, item in items.items() if item["name"] in (query, trimmed(query))]:
            assert keys[0] in named
        wanted = {*terms(query)}
        for key, item in items.items() if wanted else ():
            own = {*terms(f"{item['name']} {item.get('title', '')} {item.get('description', '')}")}
            assert key in keys or not wanted <= own

    anyio.run(check)
