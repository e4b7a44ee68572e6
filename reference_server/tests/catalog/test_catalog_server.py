"""The catalog server as its users have it: a process over stdio or HTTP, in both eras."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from clients import ToolListChanges, text_of, with_token
from mcp import Client, MCPError
from mcp_ext_tools_search.client import iter_pages, search_tools, server_settings
from mcp_types import INVALID_PARAMS, ToolListChangedNotification

pytestmark = pytest.mark.anyio

DEFINITIONS: list[dict[str, Any]] = [
    {
        "name": "brew tea",
        "title": "Brew tea",
        "description": "Brews tea",
        "inputSchema": {
            "type": "object",
            "$defs": {"c": {"default": None}},
            "properties": {"c": {"$ref": "#/$defs/c"}},
        },
        "outputSchema": {"type": "object", "required": ["name"]},
        "annotations": {"readOnlyHint": True},
        "_meta": {"com.example/x": [None]},
    },
    {"name": "boil", "description": "Boils water", "inputSchema": {"type": "object"}},
    {"name": "count", "description": "Counts", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}},
]


def written(file: Path, *definitions: dict[str, Any]) -> Path:
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"tools": definitions}))
    return new.replace(file)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return written(tmp_path / "catalog.json", *DEFINITIONS)


async def listing(client: Client) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        listed += [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
        if (cursor := page.next_cursor) is None:
            return listed


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_the_bundled_catalog_is_listed_by_pages_searched_and_called(
    connect: Any, transport: str, mode: str
) -> None:
    with anyio.fail_after(60):
        async with connect(transport, mode) as client:
            listed = await listing(client)
            settings = server_settings(client)
            found = [tool.name async for page in iter_pages(client, "transfer") for tool in page.tools]
            result = await client.call_tool("list_warehouses" if "list_warehouses" in found else found[0], {})
    assert settings is not None
    assert settings.catalog_size == len(listed) >= 200
    assert settings.topics
    assert set(found) <= {tool["name"] for tool in listed}
    assert "Canned answer" in text_of(result) or result.is_error


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
async def test_the_suites_catalog_is_served_exactly_and_answers_with_the_call(
    connect: Any, catalog: Path, transport: str, mode: str
) -> None:
    of_this_era = DEFINITIONS[:2] if mode == "legacy" else DEFINITIONS
    with anyio.fail_after(60):
        async with connect(transport, mode, env={"TOOLS_SEARCH_CATALOG": str(catalog)}) as client:
            listed = await listing(client)
            found = (await search_tools(client, "brew tea")).tools
            result = await client.call_tool("brew tea", {"c": 1})
    assert listed == of_this_era
    assert found[0].name == "brew tea"
    assert json.loads(text_of(result)) == result.structured_content == {"name": "brew tea", "arguments": {"c": 1}}


async def test_a_server_that_has_to_be_sure_finds_what_has_every_word_and_nothing_else(connect: Any) -> None:
    with anyio.fail_after(60):
        async with connect("stdio", "auto", "--least-confidence", "1") as client:
            sure = [(await search_tools(client, query)).tools for query in ("transfer", "transfer my piano to Mars")]
        async with connect("stdio", "auto", "--least-confidence", "0") as client:
            unsure = (await search_tools(client, "transfer my piano to Mars")).tools
    assert [bool(found) for found in (*sure, unsure)] == [True, False, True]


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_a_replaced_catalog_is_noticed_and_announced(
    connect: Any, catalog: Path, transport: str, mode: str
) -> None:
    changed = ToolListChanges()
    now: list[str] = []

    async def subscribe(client: Client, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        async with client.listen(tools_list_changed=True) as events:
            task_status.started()
            async for _ in events:
                await changed(ToolListChangedNotification())

    with anyio.fail_after(60):
        async with (
            connect(transport, mode, "--catalog", str(catalog), message_handler=changed) as client,
            anyio.create_task_group() as tasks,
        ):
            await client.list_tools()
            if mode != "legacy":
                await tasks.start(subscribe, client)
            written(catalog, DEFINITIONS[1])
            await changed.once_more()
            now += [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]
            tasks.cancel_scope.cancel()
    assert now == ["boil"]


async def test_a_catalog_that_becomes_invalid_leaves_what_was_served(
    servers: Any, catalog: Path, until: Any, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(60), log.open("w") as errors:
        async with Client(servers.start_http("--catalog", str(catalog), stderr=errors)) as client:
            await anyio.Path(catalog).write_text("{")
            await until(lambda: "still served" in log.read_text())
            await anyio.Path(catalog).unlink()
            await until(lambda: log.read_text().count("still served") == 2)
            assert len((await client.list_tools()).tools) == len(DEFINITIONS)


async def test_what_is_hidden_from_a_caller_is_neither_listed_nor_found_nor_called(
    servers: Any, tmp_path: Path
) -> None:
    file = tmp_path / "catalog.json"
    file.write_text(json.dumps({"tools": DEFINITIONS[:2], "hidden": {"kettle": ["boil"]}}))
    url = servers.start_http("--catalog", str(file))
    with anyio.fail_after(60):
        callers = (("kettle", ["brew tea"]), ("other", ["brew tea", "boil"]))
        for mode, (caller, seen) in itertools.product(("auto", "legacy"), callers):
            async with with_token(url, caller, mode) as client:
                listed = await client.list_tools()
                page = await search_tools(client, "boil")
                settings = server_settings(client)
                assert [tool.name for tool in listed.tools] == seen
                assert [tool.name for tool in page.tools] == seen[1:]
                assert settings is not None
                assert settings.catalog_size is None
                if mode == "auto":
                    assert listed.cache_scope == page.cache_scope == "private"
                if caller == "kettle":
                    with pytest.raises(MCPError) as refused:
                        await client.call_tool("boil")
                    assert refused.value.data["closest"] == []


async def test_a_delayed_search_can_be_cancelled(connect: Any, catalog: Path) -> None:
    env = {"TOOLS_SEARCH_CATALOG": str(catalog), "TOOLS_SEARCH_DELAY_MS": "600000"}
    with anyio.fail_after(60):
        async with connect("stdio", "auto", env=env) as client:
            with anyio.move_on_after(0.2) as late:
                await search_tools(client, "tea")
            assert late.cancelled_caught
            assert (await client.list_tools()).tools


async def test_stated_answers_are_given_and_an_unknown_tool_names_the_closest(connect: Any, tmp_path: Path) -> None:
    file = tmp_path / "catalog.json"
    content = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    file.write_text(json.dumps({"tools": DEFINITIONS, "answers": {"boil": {"content": content}}}))
    with anyio.fail_after(60):
        async with connect("stdio", "auto", "--catalog", str(file)) as client:
            result = await client.call_tool("boil")
            with pytest.raises(MCPError) as close:
                await client.call_tool("brew_tea")
            with pytest.raises(MCPError) as far:
                await client.call_tool("x" * 1000)
    assert result.content[0].type == "image"
    assert close.value.code == far.value.code == INVALID_PARAMS
    assert "brew tea" in close.value.message
    assert "list or search" in far.value.message
    assert len(far.value.message) < 300


async def test_page_sizes_and_limits_are_those_of_the_command_line_and_replicas_with_one_key_continue_searches(
    connect: Any, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef" * 2 + "\n")
    limits = ["--page-size", "7", "--default-limit", "4", "--max-limit", "3", "--cursor-key-file", str(file)]
    env = {"TOOLS_SEARCH_CURSOR_KEY": "0123456789abcdef" * 2}
    with anyio.fail_after(60):
        async with connect("stdio", "auto", *limits) as first, connect("stdio", "auto", env=env) as second:
            listed = await first.list_tools()
            found = await search_tools(first, "report", limit=1000)
            page = await search_tools(first, "report", limit=2)
            one = await search_tools(first, "report", limit=2, cursor=page.next_cursor)
            other = await search_tools(second, "report", limit=2, cursor=page.next_cursor)
    assert (len(listed.tools), len(found.tools)) == (7, 3)
    assert [tool.name for tool in one.tools] == [tool.name for tool in other.tools] != []
