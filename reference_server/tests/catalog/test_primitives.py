"""Resources, templates and prompts of a catalog file, over real transports in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from clients import with_token
from mcp import Client, MCPError
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_search_primitives.client import find, list_definitions, primitives_settings
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request
from mcp_types import PromptListChangedNotification, ResourceListChangedNotification, TextContent, TextResourceContents
from tools_search_hosts import ConfigurationError
from tools_search_server.base.limits import Limits
from tools_search_server.catalog.catalog_file import bundled_catalog, read_catalog
from tools_search_server.programs.catalog import catalog_program

pytestmark = pytest.mark.anyio

CATALOG: dict[str, Any] = {
    "tools": [{"name": "boil", "inputSchema": {"type": "object"}}],
    "resources": [
        {
            "uri": "docs://tea/green.md",
            "name": "green.md",
            "mimeType": "text/markdown",
            "_meta": {"com.example/x": [1]},
        },
        {"uri": "docs://tea/black.md", "name": "black.md", "title": "Black tea", "size": 40},
        {"uri": "docs://plain", "name": "plain"},
    ],
    "resourceTemplates": [{"uriTemplate": "docs://orders/{number}", "name": "order"}],
    "prompts": [{"name": "recommend", "description": "Recommends a tea.", "arguments": [{"name": "mood"}]}],
    "contents": {
        "docs://tea/green.md": "Steep it at seventy degrees.",
        "docs://tea/black.md": "Boiling water and four minutes.",
        "docs://orders/7": "Two pounds of oolong.",
    },
}


def written(file: Path, **changes: Any) -> Path:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(CATALOG | changes))
    return new.replace(file)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return written(tmp_path / "catalog.json")


async def found(client: Client, primitive: Any, query: str) -> list[str]:
    result = await find(primitive, client, query)
    assert not result.is_listed
    return [getattr(item, "uri", None) or getattr(item, "uri_template", None) or item.name for item in result.items]


async def read_text(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_what_a_catalog_holds_is_listed_exactly_searched_and_used(
    connect: Any, catalog: Path, transport: str, mode: str
) -> None:
    with anyio.fail_after(60):
        async with connect(transport, mode, "--catalog", str(catalog)) as client:
            for primitive in (RESOURCES, RESOURCE_TEMPLATES, PROMPTS):
                listed, is_whole = await list_definitions(primitive, client)
                assert is_whole
                assert [*listed.values()] == CATALOG[primitive.member]
            settings = primitives_settings(client)
            assert settings is not None
            assert settings.resources is not None
            assert settings.prompts is not None
            assert (settings.resources.catalog_size, settings.prompts.catalog_size) == (3, 1)
            assert settings.resources.contents
            assert (await found(client, RESOURCES, "steep at seventy degrees"))[0] == "docs://tea/green.md"
            assert (await found(client, RESOURCES, "docs://tea/black.md"))[0] == "docs://tea/black.md"
            assert await found(client, RESOURCES, "oolong") == []  # the content of what is not listed
            assert await found(client, RESOURCE_TEMPLATES, "order number") == ["docs://orders/{number}"]
            assert await found(client, PROMPTS, "recommend something for my mood") == ["recommend"]
            assert await read_text(client, "docs://tea/green.md") == "Steep it at seventy degrees."
            assert await read_text(client, "docs://orders/7") == "Two pounds of oolong."
            assert json.loads(await read_text(client, "docs://plain")) == {"uri": "docs://plain"}
            prompt = await client.get_prompt("recommend", {"mood": "calm"})
            assert isinstance(prompt.messages[0].content, TextContent)
            assert json.loads(prompt.messages[0].content.text) == {"name": "recommend", "arguments": {"mood": "calm"}}
            for unknown in (client.read_resource("docs://none"), client.get_prompt("none")):
                with pytest.raises(MCPError):
                    await unknown


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_a_catalog_of_tools_alone_offers_and_states_no_more_than_before(
    connect: Any, tmp_path: Path, transport: str, mode: str
) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"tools": CATALOG["tools"]}))
    with anyio.fail_after(60):
        async with connect(transport, mode, "--catalog", str(file)) as client:
            capabilities = client.session.server_capabilities
            assert capabilities.resources is capabilities.prompts is None
            settings = primitives_settings(client)
            assert settings is not None
            assert settings.to_wire() == {"catalogSize": 1, "maxLimit": 50}


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
async def test_a_replaced_catalog_is_searched_and_announced(
    connect: Any, catalog: Path, transport: str, mode: str
) -> None:
    changed = {"resources": anyio.Event(), "prompts": anyio.Event()}

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceListChangedNotification):
            changed["resources"].set()
        if isinstance(message, PromptListChangedNotification):
            changed["prompts"].set()

    async def subscribe(client: Client, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        async with client.listen(resources_list_changed=True, prompts_list_changed=True) as events:
            task_status.started()
            async for event in events:
                changed["prompts" if "Prompt" in type(event).__name__ else "resources"].set()

    with anyio.fail_after(60):
        async with (
            connect(transport, mode, "--catalog", str(catalog), message_handler=on_message) as client,
            anyio.create_task_group() as tasks,
        ):
            assert await found(client, RESOURCES, "oolong") == []
            if mode != "legacy":
                await tasks.start(subscribe, client)
            oolong = {"uri": "docs://tea/oolong.md", "name": "oolong.md"}
            written(catalog, resources=[oolong], prompts=[{"name": "brew"}], contents={oolong["uri"]: "Blue and dark."})
            for event in changed.values():
                await event.wait()
            assert (await found(client, RESOURCES, "blue and dark"), await found(client, PROMPTS, "brew")) == (
                ["docs://tea/oolong.md"],
                ["brew"],
            )
            tasks.cancel_scope.cancel()


async def test_what_is_hidden_from_a_caller_is_neither_found_nor_read_and_its_content_changes_nothing(
    servers: Any, catalog: Path
) -> None:
    hidden = ["docs://tea/green.md", "docs://orders/{number}", "docs://orders/7", "recommend"]
    written(catalog, hidden={"guest": hidden})
    url = servers.start_http("--catalog", str(catalog))
    with anyio.fail_after(60):
        for mode in ("auto", "legacy"):
            async with with_token(url, "guest", mode) as client:
                assert await found(client, RESOURCES, "steep at seventy degrees") == []
                assert await found(client, RESOURCES, "docs://tea/green.md") != ["docs://tea/green.md"]
                assert await found(client, RESOURCE_TEMPLATES, "order") == []
                assert await found(client, PROMPTS, "recommend") == []
                for unseen in ("docs://tea/green.md", "docs://orders/7"):
                    with pytest.raises(MCPError):
                        await client.read_resource(unseen)
                with pytest.raises(MCPError):
                    await client.get_prompt("recommend")
                settings = primitives_settings(client)
                assert settings is not None
                assert settings.resources is not None
                assert settings.resources.catalog_size is None


async def test_what_a_caller_may_not_read_is_listed_and_its_content_changes_nothing(
    servers: Any, catalog: Path
) -> None:
    written(catalog, unreadable={"guest": ["docs://tea/green.md"]})
    url = servers.start_http("--catalog", str(catalog))
    with anyio.fail_after(60):
        for mode in ("auto", "legacy"):
            async with (
                with_token(url, "guest", mode) as client,
                Client(url, mode=mode, extensions=[TOOLS_SEARCH]) as other,
            ):
                assert await found(other, RESOURCES, "steep at seventy degrees") == ["docs://tea/green.md"]
                assert await found(client, RESOURCES, "steep at seventy degrees") == []
                assert (await found(client, RESOURCES, "docs://tea/green.md"))[0] == "docs://tea/green.md"
                with pytest.raises(MCPError):
                    await client.read_resource("docs://tea/green.md")


async def test_tools_are_ranked_the_same_byte_for_byte_with_resources_and_prompts_beside_them(
    tmp_path: Path,
) -> None:
    tools = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in bundled_catalog().tools]
    queries = ["send an invoice", "steep green tea", "book a meeting", tools[7]["name"], "close tickets", "weather"]
    answers: list[str] = []
    for number, others in enumerate((CATALOG, {})):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({**others, "tools": tools}))
        with anyio.fail_after(60):
            server = catalog_program(str(file), Limits(), "").server
            async with Client(server, extensions=[TOOLS_SEARCH]) as client:
                found = [
                    await raw_request(client, "tools/search", {"query": query, "limit": 50}, seconds=20)
                    for query in queries
                ]
        answers.append(json.dumps([page["tools"] for page in found]))
    assert answers[0] == answers[1]
    assert len(answers[0]) > 1_000


async def test_lists_have_pages_and_their_cursors_are_checked(catalog: Path) -> None:
    with anyio.fail_after(60):
        async with Client(catalog_program(str(catalog), Limits(page_size=2), "").server) as client:
            first = await client.list_resources()
            second = await client.list_resources(cursor=first.next_cursor)
            assert [len(page.resources) for page in (first, second)] == [2, 1]
            assert second.next_cursor is None
            with pytest.raises(MCPError):
                await client.list_prompts(cursor=first.next_cursor)


async def test_a_page_of_resources_is_small_enough_for_clients_that_limit_their_events(catalog: Path) -> None:
    large = [{"uri": f"docs://{number}", "name": "large", "description": "a" * 400_000} for number in range(5)]
    written(catalog, resources=large)
    counts, cursor = list[int](), None
    with anyio.fail_after(60):
        async with Client(catalog_program(str(catalog), Limits(), "").server) as client:
            while not counts or cursor is not None:
                page = await client.list_resources(cursor=cursor)
                counts.append(len(page.resources))
                cursor = page.next_cursor
    assert counts == [2, 2, 1]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"resources": [{"name": "a"}]}, "resources.0.uri"),
        ({"resources": [{"uri": "a:b", "name": "a"}] * 2}, "'a:b' occurs more than once"),
        ({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "a"}] * 2}, "'a:{b}' occurs more than once"),
        ({"prompts": [{"name": "a"}, {"name": "a"}]}, "'a' occurs more than once"),
        ({"prompts": {}}, "`prompts` must be a list"),
        ({"contents": {"a:b": 5}}, "contents.a:b"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(
    catalog: Path, changes: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_catalog(written(catalog, **changes))
    assert place in str(refused.value)
