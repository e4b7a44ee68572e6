"""Resources, templates and prompts are found over all servers, as the gateway lists them, and by nobody else."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from clients import with_token
from mcp import Client, MCPError
from mcp_ext_search_primitives import PROMPTS, RESOURCES, ResourcesSettings
from mcp_ext_search_primitives.client import (
    primitives_settings,
    search_prompts,
    search_resource_templates,
    search_resources,
)
from mcp_ext_search_primitives.index import PrimitiveIndex
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request, read_pages
from mcp_ext_tools_search.types import Primitive
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Resource
from tools_search_server.access.principals import new_token, token_hash
from tools_search_server.base.defaults import Searched
from tools_search_server.base.limits import Limits
from tools_search_server.gateway import item_search
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.programs.gateway import configured_gateway, gateway_program
from tools_search_server.upstreams import listing, resource_texts
from tools_search_server.upstreams.lazy import Laziness

pytestmark = pytest.mark.anyio

UPSTREAM = Path(__file__).parents[1] / "servers" / "archive.py"
EXTENSION = "io.github.tools-search/tools-search"
EVERY_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])

HANDBOOK: dict[str, Any] = {
    "resources": [
        {"uri": "docs://returns.md", "name": "returns.md", "title": "Returns and losses", "mimeType": "text/markdown"},
        {"uri": "docs://travel.md", "name": "travel.md", "description": "How trips are paid back."},
        {"uri": "https://example.com/terms", "name": "terms"},
    ],
    "resourceTemplates": [{"uriTemplate": "docs://{year}/report", "name": "report", "description": "A yearly report."}],
    "prompts": [{"name": "answer", "description": "Drafts a reply.", "arguments": [{"name": "complaint"}]}],
    "texts": {
        "docs://returns.md": "The carrier refunds a parcel that vanished.",
        "docs://travel.md": "Hotels up to 120 euros.",
    },
}
"""A server that only lists."""

NOTES: dict[str, Any] = {
    "legacy": True,
    "resources": [
        {"uri": "docs://returns.md", "name": "returns.md"},
        {"uri": "note:1", "name": "first"},
        {"uri": "https://example.com/terms", "name": "terms"},
    ],
    "prompts": [{"name": "answer", "description": "Summarizes a meeting."}],
    "texts": {"note:1": "Water the ficus on Mondays."},
}

LIBRARY: dict[str, Any] = {
    "resources": [{"uri": f"book:{number}", "name": f"book {number}"} for number in range(4)],
    "prompts": [{"name": "review", "description": "Reviews a book."}],
    "settings": {"resources": {"contents": True, "maxLimit": 2}, "prompts": {}},
    "found": {
        "resources/search": [
            {"uri": "book:2", "name": "book 2", "_meta": {EXTENSION: {"matched": ["contents", 7, {}, "x" * 10_000]}}},
            {"uri": "book:made-up", "name": "parcel"},
            {"uri": "book:0", "name": "another definition than the listed one"},
            {"name": "without a uri"},
        ],
        "prompts/search": [{"name": "review"}, {"name": "hidden"}],
    },
}
"""A server that searches itself, and finds more than it lists."""


@pytest.fixture
def archive(tmp_path: Path) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """Write what a server has, and return its entry in a configuration."""

    def entry(name: str, spec: dict[str, Any]) -> dict[str, Any]:
        file = tmp_path / f"{name}.json"
        file.with_suffix(".new").write_text(json.dumps(spec))
        file.with_suffix(".new").rename(file)
        return {"command": sys.executable, "args": [str(UPSTREAM), str(file)]}

    return entry


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """Return what a server was asked by one method: a URI or a query for each request."""

    def read(name: str, method: str) -> list[str]:
        lines = (tmp_path / f"{name}.json.log").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == method]

    return read


@pytest.fixture
def searching(archive: Any, configuration: Any) -> Callable[..., Any]:
    """Connect to a gateway in this process that lets its callers search more than tools."""

    @asynccontextmanager
    async def connected(
        mode: str = "auto",
        *searched: Searched,
        limits: Limits | None = None,
        toolset: dict[str, Any] | None = None,
        **specs: dict[str, Any],
    ) -> AsyncGenerator[Client]:
        file = configuration(**{name: archive(name, spec) for name, spec in specs.items()})
        if toolset is not None:
            file.write_text(json.dumps(json.loads(file.read_text()) | {"toolsets": {"own": toolset}}))
        options = GatewayOptions(20, 20, None if toolset is None else "own", searched=frozenset(searched))
        program = gateway_program(file, limits or Limits(), options)
        async with program.lifespan(), Client(program.server, mode=mode, extensions=[TOOLS_SEARCH]) as client:
            yield client
            program.on_stop()

    return connected


def plain(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Return definitions without what a search says of them."""
    plain: list[dict[str, Any]] = []
    for item in items:
        stated: dict[str, Any] = item.meta or {}
        meta = {name: value for name, value in stated.items() if name != EXTENSION}
        plain.append(item.model_copy(update={"meta": meta or None}).model_dump(by_alias=True, exclude_none=True))
    return plain


def matched(item: Any) -> list[str]:
    return item.meta[EXTENSION]["matched"]


@EVERY_ERA
async def test_a_web_address_of_several_servers_is_found_as_it_is_listed(searching: Any, mode: str) -> None:
    def travel(name: str) -> dict[str, Any]:
        return {"resources": [{"uri": "https://example.com/travel", "name": f"{name} travel rules"}]}

    with anyio.fail_after(60):
        async with searching(mode, "resources", one=travel("first"), two=travel("second")) as client:
            listed = (await client.list_resources()).resources
            found = (await search_resources(client, "travel rules")).resources
    assert [item.name for item in listed] == ["first travel rules"]
    assert plain(found) == plain(listed)


@EVERY_ERA
async def test_documents_are_found_by_what_they_say_at_servers_that_only_list(searching: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with searching(mode, "contents", handbook=HANDBOOK, notes=NOTES) as client:
            parcel = (await search_resources(client, "vanished parcel")).resources
            ficus = (await search_resources(client, "water the ficus", limit=1)).resources
            read = await client.read_resource(ficus[0].uri)
            settings = primitives_settings(client)
    assert [item.uri for item in parcel] == ["gateway://handbook/docs://returns.md"]
    assert matched(parcel[0]) == ["contents"]
    assert "Water the ficus on Mondays." in str(read.contents)
    assert settings is not None
    assert settings.resources == ResourcesSettings(topics=["handbook", "notes"], max_limit=50, contents=True)
    assert settings.prompts is None


@EVERY_ERA
@pytest.mark.parametrize("unlisted", [False, True])
async def test_a_document_that_a_server_finds_by_what_it_says_comes_before_names_with_one_word_of_the_query(
    searching: Any, mode: str, unlisted: bool
) -> None:
    mail = {"resources": [{"uri": f"mail:{number}", "name": f"parcel {number}"} for number in range(12)]}
    policy = {"uri": "docs://parcel-losses", "name": "Who pays for a lost parcel"}
    library = {**LIBRARY, "settings": {"resources": {"contents": True, "unlisted": unlisted}}}
    library["resources"] = [] if unlisted else LIBRARY["resources"]
    query = "who pays when a parcel is lost"
    with anyio.fail_after(60):
        async with searching(mode, "contents", mail=mail, library=library) as client:
            found = (await search_resources(client, query)).resources
        mail["resources"].append(policy)
        async with searching(mode, "contents", mail=mail, library=library) as client:
            with_policy = (await search_resources(client, query)).resources
    assert found[0].uri == "gateway://library/book:2"
    assert [item.uri for item in with_policy[:2]] == [
        "gateway://mail/docs://parcel-losses",
        "gateway://library/book:2",
    ]


@EVERY_ERA
async def test_servers_that_search_and_servers_that_list_are_one(searching: Any, asked: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with searching(mode, "resources", "prompts", handbook=HANDBOOK, notes=NOTES, library=LIBRARY) as client:
            found = (await search_resources(client, "travel trips")).resources
            listed = (await client.list_resources()).resources
            prompts = (await search_prompts(client, "reviews drafts")).prompts
            listed_prompts = (await client.list_prompts()).prompts
            settings = primitives_settings(client)
    assert {item.uri for item in found} == {
        "gateway://handbook/docs://travel.md",
        "gateway://library/book:2",
        "gateway://library/book:0",
    }
    assert all(item in plain(listed) for item in plain(found))
    assert {item.name for item in prompts} == {"library__review", "handbook__answer"}
    assert all(item in plain(listed_prompts) for item in plain(prompts))
    assert next(matched(item) for item in found if item.uri.endswith("book:2")) == ["contents"]
    assert asked("library", "resources/search") == ["travel trips"]
    assert not asked("library", "resources/read")
    assert settings is not None
    assert settings.resources is not None
    assert settings.resources.contents is None, "the others are not searched by content"


@EVERY_ERA
async def test_what_a_server_lists_but_does_not_find_is_found_here(searching: Any, asked: Any, mode: str) -> None:
    queries = ["book 3", "gateway://library/book:made-up"]
    with anyio.fail_after(60):
        async with searching(mode, "resources", library=LIBRARY) as client:
            found = [(await search_resources(client, query)).resources for query in queries]
    assert {item.uri for item in found[0]} == {f"gateway://library/book:{number}" for number in range(4)}
    assert asked("library", "resources/search") == queries, "no more, since it finds nothing that it does not list"


@EVERY_ERA
async def test_definitions_are_those_of_the_lists_and_pages_hold_each_match_once(searching: Any, mode: str) -> None:
    with anyio.fail_after(60):
        async with searching(mode, "contents", "prompts", handbook=HANDBOOK, notes=NOTES, library=LIBRARY) as client:
            searched: list[tuple[Primitive[Any], Any]] = [
                (RESOURCES, client.list_resources),
                (PROMPTS, client.list_prompts),
            ]
            for primitive, lister in searched:
                once = await read_pages(client, "returns book answer reviews terms", primitive=primitive, limit=50)
                one_each = await read_pages(client, "returns book answer reviews terms", primitive=primitive, limit=1)
                found = [item for page in once for item in primitive.by_key(page).values()]
                listed = getattr(await lister(), primitive.member)
                assert all(item in plain(listed) for item in plain(found))
                assert len(found) > 2
                paged = [key for page in one_each for key in primitive.by_key(page)]
                assert paged == [key for page in once for key in primitive.by_key(page)]
            templates = (await search_resource_templates(client, "yearly report")).resource_templates
    assert [item.uri_template for item in templates] == ["gateway://handbook/docs://{year}/report"]


async def test_what_the_query_identifies_comes_first_and_equal_names_of_two_servers_stay_apart(searching: Any) -> None:
    async with searching("auto", "contents", "prompts", handbook=HANDBOOK, notes=NOTES, library=LIBRARY) as client:
        with anyio.fail_after(60):
            uri = (await search_resources(client, "\n gateway://notes/docs://returns.md ")).resources
            name = (await search_resources(client, "returns.md")).resources
            web = (await search_resources(client, "https://example.com/terms")).resources
            prompt = (await search_prompts(client, "notes__answer")).prompts
    assert uri[0].uri == "gateway://notes/docs://returns.md"
    assert {item.uri for item in name[:2]} == {
        "gateway://notes/docs://returns.md",
        "gateway://handbook/docs://returns.md",
    }
    assert [item.uri for item in web].count("https://example.com/terms") == 1
    assert web[0].uri == "https://example.com/terms"
    assert prompt[0].name == "notes__answer"


async def test_nothing_is_offered_or_read_unless_it_is_switched_on(searching: Any, asked: Any) -> None:
    async with searching("auto", handbook=HANDBOOK) as client:
        with anyio.fail_after(60):
            settings = primitives_settings(client)
            with pytest.raises(MCPError) as refused:
                await raw_request(client, "resources/search", {"query": "parcel"}, seconds=10)
            await client.list_resources()
    assert settings is not None
    assert settings.resources is settings.prompts is None
    assert refused.value.code == METHOD_NOT_FOUND
    assert not asked("handbook", "resources/read")


async def test_texts_are_not_read_for_a_search_of_definitions(searching: Any, asked: Any) -> None:
    async with searching("auto", "resources", handbook=HANDBOOK) as client:
        with anyio.fail_after(60):
            assert not (await search_resources(client, "vanished")).resources
            assert (await search_resources(client, "losses")).resources
    assert not asked("handbook", "resources/read")


async def test_a_server_whose_search_fails_is_ranked_here(searching: Any) -> None:
    spec = LIBRARY | {"faults": {"resources/search": -32603}}
    async with searching("auto", "resources", handbook=HANDBOOK, library=spec) as client:
        with anyio.fail_after(60):
            page = await search_resources(client, "book travel", limit=2)
            rest = await search_resources(client, "book travel", limit=50, cursor=page.next_cursor)
    assert {item.uri for item in (*page.resources, *rest.resources)} == {
        "gateway://handbook/docs://travel.md",
        *(f"gateway://library/book:{number}" for number in range(4)),
    }
    assert page.ttl_ms == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("exit", "it closed the connection"),
        (-32603, 'it answered with error -32603: "no"'),
        ({"result": None}, "its answer is malformed: its `result` must be an object"),
    ],
)
@pytest.mark.parametrize("legacy", [True, False])
async def test_the_log_says_in_its_own_words_why_a_server_does_not_search(
    searching: Any, caplog: pytest.LogCaptureFixture, fault: Any, reason: str, legacy: bool
) -> None:
    spec = LIBRARY | {"faults": {"resources/search": fault}, "legacy": legacy}
    async with searching("auto", "resources", library=spec) as client:
        with anyio.fail_after(60):
            assert (await search_resources(client, "book")).resources
    assert f"The MCP server 'library' did not answer: {reason}" in caplog.text


async def test_a_server_whose_search_fails_later_makes_its_page_fail(searching: Any, archive: Any) -> None:
    async with searching("auto", "resources", handbook=HANDBOOK, library=LIBRARY) as client:
        with anyio.fail_after(60):
            page = await search_resources(client, "travel", limit=1)
            archive("library", LIBRARY | {"faults": {"resources/search": -32603}})
            with pytest.raises(MCPError) as failed:
                await search_resources(client, "travel", cursor=page.next_cursor)
    assert failed.value.code == INTERNAL_ERROR
    assert "'library'" in failed.value.message


UNKNOWN: dict[str, tuple[str, Any]] = {
    "tools/call": ("tools/list", {"error": {"code": -32601, "message": "No tool of that name"}}),
    "tools/call in a result": (
        "tools/list",
        {"result": {"content": [{"type": "text", "text": "Unknown tool: gone"}], "isError": True}},
    ),
    "resources/read": ("resources/list", {"error": {"code": -32002, "message": "Resource not found"}}),
    "resources/read with another code": (
        "resources/list",
        {"error": {"code": 0, "message": "Unknown resource: x:gone"}},
    ),
    "prompts/get": ("prompts/list", {"error": {"code": -32602, "message": "Unknown prompt"}}),
    "prompts/get with another code": ("prompts/list", {"error": {"code": 0, "message": "Unknown prompt: gone"}}),
}
"""How servers say that they do not have what is requested, with the list that lacks it."""

NAMES: dict[str, dict[str, Any]] = {
    "tools": {"name": "gone", "inputSchema": {"type": "object"}},
    "resources": {"name": "gone", "uri": "x:gone"},
    "prompts": {"name": "gone"},
}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("says", UNKNOWN)
@pytest.mark.parametrize("legacy", [False, True])
async def test_a_list_with_an_item_that_its_server_does_not_know_is_read_again_once(
    searching: Any,
    archive: Any,
    asked: Any,
    until: Any,
    monkeypatch: pytest.MonkeyPatch,
    legacy: bool,
    says: str,
    kept: bool,
) -> None:
    monkeypatch.setattr(listing, "_FRESH_SECONDS", 1000)
    method, (lists, answer) = says.split()[0], UNKNOWN[says]
    member = lists.partition("/")[0]
    others = {
        kind: [item | {key: item[key].replace("gone", "there") for key in item.keys() & {"name", "uri"}}]
        for kind, item in NAMES.items()
    }
    before: dict[str, Any] = {kind: [*others[kind], item] for kind, item in NAMES.items()} | {
        "legacy": legacy,
        "quiet": True,
    }
    answer = {
        kind: {"resultType": "complete", **value} if kind == "result" else value for kind, value in answer.items()
    }
    faults = {"faults": {method: answer}}
    after = before | faults | ({} if kept else {member: others[member]})

    async def ask(client: Client, name: str) -> None:
        with suppress(MCPError):
            if method == "resources/read":
                await client.read_resource(f"gateway://one/x:{name}")
            else:
                await raw_request(client, method, {"name": f"one__{name}", "arguments": {}}, seconds=20)

    async def listed(client: Client) -> int:
        items = (await raw_request(client, lists, {}, seconds=20))[member]
        return sum(item["name"] in ("gone", "one__gone") for item in items)

    with anyio.fail_after(60):
        async with searching("auto", "resources", "prompts", one=before) as client:
            assert await listed(client) == 1
            archive("one", after)
            reads = len(asked("one", lists))
            for _ in range(3):
                await ask(client, "never_listed")
            assert len(asked("one", lists)) == reads
            for _ in range(10):
                await ask(client, "gone")
            await until(lambda: len(asked("one", lists)) == reads + 1)
            while await listed(client) != kept:  # noqa: ASYNC110 - the list is the only thing to look at
                await anyio.sleep(0.02)
            for _ in range(10):
                await ask(client, "there")
            assert len(asked("one", lists)) == reads + 1


@EVERY_ERA
@pytest.mark.parametrize("fault", [-32603, "mute"])
async def test_what_a_server_listed_before_a_later_page_failed_is_found_and_the_log_says_that_more_is_missing(
    searching: Any, caplog: pytest.LogCaptureFixture, mode: str, fault: Any
) -> None:
    faults = {f"{method} 2": fault for method in ("resources/list", "resources/templates/list", "prompts/list")}
    long: dict[str, Any] = {
        "page": 2,
        "resources": [{"uri": f"letter:{number}", "name": f"letter {number}"} for number in range(3)],
        "resourceTemplates": [{"uriTemplate": f"letter:{number}/{{page}}", "name": "letter"} for number in range(3)],
        "prompts": [{"name": f"letter_{number}"} for number in range(3)],
        "faults": faults,
    }
    with anyio.fail_after(60):
        async with searching(mode, "resources", "prompts", long=long, handbook=HANDBOOK) as client:
            found = [
                len((await search_resources(client, "letter")).resources),
                len((await search_resource_templates(client, "letter")).resource_templates),
                len((await search_prompts(client, "letter")).prompts),
            ]
            listed = len((await client.list_resources()).resources)
    assert (found, listed) == ([2, 2, 2], 2 + len(HANDBOOK["resources"]))
    for noun in ("resource", "resource template", "prompt"):
        assert f"long: its list of {noun}s broke off after 2: " in caplog.text


async def test_a_cursor_of_one_search_is_refused_by_another(searching: Any) -> None:
    async with searching("auto", "resources", "prompts", handbook=HANDBOOK, notes=NOTES) as client:
        with anyio.fail_after(60):
            page = await search_resources(client, "returns", limit=1)
            with pytest.raises(MCPError) as refused:
                await search_prompts(client, "returns", cursor=page.next_cursor)
    assert page.next_cursor is not None
    assert refused.value.code == INVALID_PARAMS


async def test_what_a_server_finds_without_listing_it_is_found_where_it_says_so(searching: Any, asked: Any) -> None:
    settings = {"resources": {"unlisted": True}}
    more = [*LIBRARY["found"]["resources/search"], {"uri": "https://example.com/unread", "name": "parcel"}]
    found_there = {"resources/search": more}
    spec = LIBRARY | {"settings": settings, "texts": {"book:made-up": "Once upon a time"}, "found": found_there}
    async with searching("auto", "resources", handbook=HANDBOOK, library=spec) as client:
        with anyio.fail_after(60):
            advertised = primitives_settings(client)
            found = (await search_resources(client, "parcel")).resources
            by_uri = (await search_resources(client, "gateway://library/book:made-up", limit=1)).resources
            by_name = (await search_resources(client, " parcel ", limit=1)).resources
            read = await client.read_resource(by_uri[0].uri)
    assert advertised is not None
    assert advertised.resources is not None
    assert advertised.resources.unlisted is True
    assert "gateway://library/book:made-up" in {item.uri for item in found}
    assert "https://example.com/unread" not in {item.uri for item in found}, "nobody could read it"
    assert "book:made-up" in asked("library", "resources/search"), "which is how the server knows it"
    assert by_uri[0].uri == by_name[0].uri == "gateway://library/book:made-up"
    assert "Once upon a time" in str(read.contents)


async def test_a_server_of_which_a_toolset_shows_single_tools_is_not_searched_for_anything_else(
    searching: Any, asked: Any
) -> None:
    spec = LIBRARY | {"settings": {"resources": {"unlisted": True}}}
    toolset = {"handbook": True, "library": ["borrow"]}
    with anyio.fail_after(60):
        async with searching("auto", "resources", toolset=toolset, handbook=HANDBOOK, library=spec) as client:
            advertised = primitives_settings(client)
            found = [
                item.uri
                for query in ("parcel", "gateway://library/book:made-up")
                for item in (await search_resources(client, query)).resources
            ]
    assert advertised is not None
    assert advertised.resources is not None
    assert (advertised.resources.topics, advertised.resources.unlisted) == (["handbook"], None)
    assert found
    assert all(uri.startswith("gateway://handbook/") for uri in found)
    assert asked("library", "resources/search") == []


async def test_a_list_that_is_read_again_and_says_the_same_is_not_indexed_again(
    searching: Any, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists of a server that announces no changes are read again all the time, and its texts are many."""
    made: list[str] = []

    class Counted(PrimitiveIndex):
        def __init__(self, primitive: Primitive[Any], *given: Any) -> None:
            made.append(primitive.method)
            super().__init__(primitive, *given)

    monkeypatch.setattr(item_search, "PrimitiveIndex", Counted)
    monkeypatch.setattr(listing, "_FRESH_SECONDS", 0)
    monkeypatch.setattr(resource_texts, "_AGAIN_SECONDS", 0.05)
    with anyio.fail_after(60):
        async with searching("auto", "contents", "prompts", handbook=HANDBOOK | {"quiet": True}) as client:
            found: list[Any] = []
            while not found:
                found = (await search_resources(client, "vanished parcel")).resources
            await search_prompts(client, "complaint")
            before = len(made)
            reads = len(asked("handbook", "resources/read"))
            while len(asked("handbook", "resources/read")) < reads + 6:
                await search_resources(client, "vanished parcel")
                await search_prompts(client, "complaint")
    assert len(made) == before
    assert len(asked("handbook", "resources/list")) > 3


async def test_nothing_is_kept_of_the_lists_of_a_server_that_the_configuration_no_longer_has(
    archive: Any, configuration: Any
) -> None:
    file = configuration(handbook=archive("handbook", HANDBOOK), notes=archive("notes", NOTES))
    gateway, _ = configured_gateway(file, Limits(), GatewayOptions(20, 20, searched=frozenset({"resources"})))
    server = Endpoint(GatewaySearch(gateway, Limits())).server()

    def kept() -> set[str]:
        resources = (item for item in gc.get_objects() if isinstance(item, Resource))
        return {item.name for item in resources if item.uri in ("docs://travel.md", "note:1")}

    with anyio.fail_after(60):
        async with gateway.running(), Client(server, extensions=[TOOLS_SEARCH]) as client:
            assert len((await search_resources(client, "travel first")).resources) == 2
            assert kept() == {"travel.md", "first"}
            gateway.reconfigure([upstream.entry for upstream in gateway.upstreams[:1]], gateway.metadata)
            while kept() != {"travel.md"}:  # until the stopped server is forgotten too
                assert len((await search_resources(client, "travel first")).resources) == 1
                gc.collect()


@EVERY_ERA
@pytest.mark.parametrize("legacy", [True, False])
async def test_a_change_of_a_list_is_found_once_the_server_announces_it(
    searching: Any, archive: Any, mode: str, legacy: bool
) -> None:
    more = [*HANDBOOK["resources"], {"uri": "docs://new.md", "name": "new.md"}]
    texts = {**HANDBOOK["texts"], "docs://new.md": "Zeppelins may land on the roof."}
    prompts = [*HANDBOOK["prompts"], {"name": "land", "description": "Lands zeppelins."}]
    spec = HANDBOOK | {"legacy": legacy}
    async with searching(mode, "contents", "prompts", notes=NOTES, handbook=spec) as client:
        with anyio.fail_after(60):
            assert not (await search_resources(client, "zeppelins")).resources
            assert not (await search_prompts(client, "zeppelins")).prompts
            archive("handbook", spec | {"resources": more, "texts": texts, "prompts": prompts})
            await client.call_tool("handbook__announce", {})
            while not (found := (await search_resources(client, "zeppelins")).resources):  # noqa: ASYNC110
                await anyio.sleep(0.02)  # a search is the only thing to look at
            while not (found_prompts := (await search_prompts(client, "zeppelins")).prompts):  # noqa: ASYNC110 - as above
                await anyio.sleep(0.02)
    assert [item.uri for item in found] == ["gateway://handbook/docs://new.md"]
    assert [item.name for item in found_prompts] == ["handbook__land"]


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_the_option_of_the_command_serves_the_searches_over_both_transports(
    connect: Any, archive: Any, configuration: Any, transport: str, mode: str
) -> None:
    file = configuration(handbook=archive("handbook", HANDBOOK), library=archive("library", LIBRARY))
    arguments = ("--config", str(file), "--search", "contents,prompts")
    with anyio.fail_after(60):
        async with connect(transport, mode, *arguments) as client:
            found = await search_resources(client, "vanished parcel", limit=1)
            prompts = await search_prompts(client, "review a book", limit=1)
            settings = primitives_settings(client)
    assert found.resources[0].uri in ("gateway://handbook/docs://returns.md", "gateway://library/book:2")
    assert prompts.prompts[0].name == "library__review"
    assert settings is not None
    assert settings.resources is not None
    assert settings.resources.contents is True


async def test_callers_find_what_they_are_listed_and_nothing_else_changes_their_answers(
    servers: Any, archive: Any, configuration: Any
) -> None:
    tokens = {name: new_token() for name in ("everyone", "clerk")}
    file = configuration(
        handbook=archive("handbook", HANDBOOK), notes=archive("notes", NOTES), library=archive("library", LIBRARY)
    )
    document = json.loads(file.read_text())
    document["toolsets"] = {"clerk": {"handbook": True, "notes": ["none"]}}
    document["principals"] = {
        "everyone": {"token": token_hash(tokens["everyone"])},
        "clerk": {"token": token_hash(tokens["clerk"]), "toolset": "clerk"},
    }
    file.write_text(json.dumps(document))
    url = await anyio.to_thread.run_sync(
        lambda: servers.start_http("--config", str(file), "--search", "contents,prompts")
    )

    async def answers(name: str) -> tuple[list[Any], Any]:
        async with with_token(url, tokens[name]) as client:
            found = await search_resources(client, "returns terms book")
            prompts = await search_prompts(client, "answer reviews")
            return [*found.resources, *prompts.prompts], primitives_settings(client)

    with anyio.fail_after(60):
        seen, settings = await answers("clerk")
        everything, _ = await answers("everyone")
    file.write_text(json.dumps({"mcpServers": {"handbook": document["mcpServers"]["handbook"]}}))
    program = gateway_program(file, Limits(), GatewayOptions(20, 20, searched=frozenset({"contents", "prompts"})))
    with anyio.fail_after(60):
        async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as client:
            own = [
                *(await search_resources(client, "returns terms book")).resources,
                *(await search_prompts(client, "answer reviews")).prompts,
            ]
            program.on_stop()
    assert seen == own, "with the same scores"
    assert len(everything) > len(seen) > 0
    assert settings is not None
    assert settings.resources is not None
    assert settings.resources.topics == ["handbook"]


@pytest.mark.rotating
async def test_a_change_that_a_server_behind_two_gateways_does_not_announce_is_found(
    connect: Any, archive: Any, configuration: Any, tmp_path: Path
) -> None:
    quiet = {**HANDBOOK, "quiet": True}
    inner = tmp_path / "inner.json"
    inner.write_text(json.dumps({"mcpServers": {"handbook": archive("handbook", quiet)}}))
    arguments = ["-m", "tools_search_server", "--config", str(inner), "--search", "resources,prompts"]
    command = {"command": sys.executable, "args": arguments}
    with anyio.fail_after(60):
        async with connect("stdio", "auto", "--config", str(configuration(inner=command))) as client:
            found = (await client.session.list_prompts()).prompts
            assert [prompt.name for prompt in found] == ["inner__handbook__answer"]
            archive("handbook", {**quiet, "prompts": []})
            while (await client.session.list_prompts()).prompts:  # noqa: ASYNC110 - a listing is the only thing to look at
                await anyio.sleep(0.2)


@pytest.mark.parametrize("searches_itself", [False, True])
async def test_what_a_lazy_server_says_is_found_while_it_is_idle_and_after_the_gateway_starts_again(
    archive: Any,
    configuration: Any,
    until: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    searches_itself: bool,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec, query, uri = (
        (LIBRARY, "ulysses", "book:2") if searches_itself else (HANDBOOK, "vanished", "docs://returns.md")
    )
    file = configuration(shelf=archive("shelf", spec) | {"lazy": True})
    options = GatewayOptions(20, 20, searched=frozenset({"contents"}), laziness=Laziness(idle_seconds=0.5))
    with anyio.fail_after(60):
        for _ in range(2):
            program = gateway_program(file, Limits(), options)
            async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as client:

                async def found(client: Client = client) -> list[str]:
                    return [item.uri for item in (await search_resources(client, query)).resources]

                while f"gateway://shelf/{uri}" not in await found():  # noqa: ASYNC110 - a search is all there is to see
                    await anyio.sleep(0.02)
                if not searches_itself:
                    await until([*(tmp_path / "cache").rglob("*.json")].__len__)
                    await until(lambda program=program: program.health()["idle"] == 1)
                assert f"gateway://shelf/{uri}" in await found()
                program.on_stop()


@EVERY_ERA
async def test_that_a_gateway_behind_this_one_went_without_unread_texts_is_passed_on(
    archive: Any, configuration: Any, tmp_path: Path, mode: str
) -> None:
    inner = tmp_path / "inner.json"
    shelf = {"resources": [{"uri": "book:mute", "name": "ulysses"}], "faults": {"book:mute": "mute"}}
    inner.write_text(json.dumps({"mcpServers": {"shelf": archive("shelf", shelf)}}))
    arguments = ["-m", "tools_search_server", "--config", str(inner), "--search", "contents", "--start-deadline", "0"]
    file = configuration(inner={"command": sys.executable, "args": arguments})
    program = gateway_program(file, Limits(), GatewayOptions(20, 20, searched=frozenset({"contents"})))
    mark = "io.github.tools-search/unread"
    with anyio.fail_after(60):
        async with program.lifespan(), Client(program.server, mode=mode, extensions=[TOOLS_SEARCH]) as client:

            async def is_marked() -> bool:
                return mark in ((await search_resources(client, "ulysses")).meta or {})

            while not await is_marked():  # noqa: ASYNC110 - until the inner one has started
                await anyio.sleep(0.02)
            while await is_marked():  # noqa: ASYNC110 - until it has given up reading
                await anyio.sleep(0.02)
            program.on_stop()
