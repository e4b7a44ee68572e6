"""Tools that MCP Apps keep for the user interface of their server: hosts see them, models never do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from clients import ToolListChanges, compat_client, names
from mcp import Client
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from mcp_ext_tools_search.types import EXTENSION_ID

pytestmark = pytest.mark.anyio

HIDDEN = "refresh_cart_view"

INDEXED, SEARCHED_THERE = "5000", "0"


def tool(name: str, visibility: Any = None, **labels: Any) -> dict[str, Any]:
    ui = {} if visibility is None else {"ui": {"resourceUri": "ui://shop/cart", "visibility": visibility}}
    return {
        "name": name,
        "description": f"The cart of the shop: {name.replace('_', ' ')}",
        "inputSchema": {"type": "object"},
        "_meta": {**ui, EXTENSION_ID: {"tags": ["cart"], **labels}},
    }


TOOLS = [
    tool("show_cart", ["model", "app"], related=[HIDDEN]),
    tool("add_to_cart"),
    tool(HIDDEN, ["app"], group="views", tags=["views"]) | {"description": "Refresh the view of the cart"},
]


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    file = tmp_path / "shop.json"
    file.write_text(json.dumps({"tools": TOOLS}))
    return file


@pytest.fixture
def file(tmp_path: Path, catalog: Path) -> Path:
    shop = {"command": sys.executable, "args": ["-m", "tools_search_server", "--catalog", str(catalog)]}
    written = tmp_path / "mcp.json"
    written.write_text(json.dumps({"mcpServers": {"shop": shop}, "always_available": [HIDDEN]}))
    return written


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("transport", "mode", "index_at_most"),
    [
        ("stdio", "auto", INDEXED),
        ("stdio", "legacy", SEARCHED_THERE),
        ("http", "auto", SEARCHED_THERE),
        ("http", "legacy", INDEXED),
    ],
)
async def test_the_meta_tools_name_no_tool_that_is_for_apps_alone_and_refuse_to_call_it(
    servers: Any, connect: Any, file: Path, transport: str, mode: str, index_at_most: str
) -> None:
    more = ["--config", str(file), "--index-at-most", index_at_most]
    with anyio.fail_after(90):
        async with compat_client(servers, connect, transport, mode, "meta-tools", *more) as client:
            said: dict[str, Any] = {}
            asked: dict[str, dict[str, Any]] = {
                "search_tools": {"query": "refresh the view of the cart", "detail_level": "full"},
                "list_tool_categories": {},
                "list_tools": {"detail_level": "full"},
                "find_by_tags": {"tags": ["cart", "views"], "detail_level": "full"},
                "get_related_tools": {"name": "shop__show_cart"},
                "describe_tools": {"names": ["shop__show_cart", "shop__refresh_cart_vie"]},
            }
            for ask, arguments in asked.items():
                said[ask] = (await client.call_tool(ask, arguments)).model_dump(by_alias=True)
            listed = (await client.list_tools()).tools
            assert "shop__show_cart" in str(said["search_tools"]), said["search_tools"]
            assert HIDDEN not in str(said)
            assert HIDDEN not in str(listed)
            assert HIDDEN not in str(client.instructions)
            await refusals_say_why(client)
            if index_at_most == INDEXED:
                categories = said["list_tool_categories"]["structuredContent"]
                assert [(category["name"], category["count"]) for category in categories["categories"]] == [("shop", 2)]
                assert said["search_tools"]["structuredContent"]["metadata"]["total_count"] == 2


async def refusals_say_why(client: Client) -> None:
    name = f"shop__{HIDDEN}"
    calls: dict[str, dict[str, Any]] = {
        "call_tool": {"name": name, "arguments": {}},
        "describe_tools": {"names": [name]},
        "get_related_tools": {"name": name},
    }
    for called, arguments in calls.items():
        refused = await client.call_tool(called, arguments)
        assert refused.is_error
        assert "only for its server's user interface" in refused.content[0].model_dump()["text"], called
    reachable = await client.call_tool("call_tool", {"name": "shop__show_cart", "arguments": {}})
    assert not reachable.is_error


async def test_hosts_still_list_find_and_call_it_at_the_plain_endpoint_and_instructions_do_not_count_it(
    servers: Any, file: Path
) -> None:
    arguments = ["--config", str(file), "--compat", "meta-tools", "--start-deadline", "60"]
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments))
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert len(listed) == 3
            assert (listed[f"shop__{HIDDEN}"].meta or {})["ui"]["visibility"] == ["app"]
            found = [tool.name for tool in (await search_tools(client, "refresh the view of the cart")).tools]
            assert found[0] == f"shop__{HIDDEN}"
            assert not (await client.call_tool(f"shop__{HIDDEN}", {})).is_error
        for path in ("", "/meta-tools"):
            async with Client(f"{url}{path}") as client:
                assert "2 tools of 1 MCP server." in (client.instructions or "")
                assert "shop (2 tools)" in (client.instructions or "")


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "index_at_most"), [("stdio", INDEXED), ("http", SEARCHED_THERE)])
async def test_a_search_adds_only_tools_for_models_to_the_list_of_a_session(
    servers: Any, connect: Any, file: Path, transport: str, index_at_most: str
) -> None:
    more = ["--config", str(file), "--index-at-most", index_at_most]
    with anyio.fail_after(90):
        async with compat_client(servers, connect, transport, "legacy", "list-changed", *more) as client:
            found = await client.call_tool("search_tools", {"query": "refresh the view of the cart"})
            assert HIDDEN not in str(found.content)
            assert set(await names(client)) == {"search_tools", "shop__show_cart", "shop__add_to_cart"}
            # An app of the host may call it by its name.
            assert not (await client.call_tool(f"shop__{HIDDEN}", {})).is_error


@pytest.mark.rotating
async def test_a_found_tool_that_its_server_takes_back_for_its_app_leaves_the_list(
    servers: Any, connect: Any, file: Path, catalog: Path
) -> None:
    changes = ToolListChanges()
    more = ["--config", str(file)]
    with anyio.fail_after(60):
        async with compat_client(
            servers, connect, "stdio", "legacy", "list-changed", *more, message_handler=changes
        ) as client:
            await client.call_tool("search_tools", {"query": "cart"})
            assert "shop__add_to_cart" in set(await names(client))
            changed_tools = json.dumps({"tools": [TOOLS[0], tool("add_to_cart", ["app"])]})
            await anyio.Path(catalog).write_text(changed_tools)
            while set(await names(client)) != {"search_tools", "shop__show_cart"}:
                await changes.once_more()  # the search itself is announced as well


@pytest.mark.rotating
async def test_the_operator_is_told_why_a_tool_for_apps_is_not_always_available(servers: Any, file: Path) -> None:
    process = servers.start("-m", "tools_search_server", "--config", str(file), "--check")
    printed, _ = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=60))
    why = f"always_available names 'shop__{HIDDEN}', which is only for its server's user interface"
    assert why in " ".join(printed.split())
