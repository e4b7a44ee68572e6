"""The mode `list-changed`: the tools that a session finds are added to its list, and it is notified."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from clients import ToolListChanges, names, text_of
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages, server_settings
from mcp_types import CallToolResult
from tools_search_server.compat.always_available import ALWAYS_VARIABLE
from tools_search_server.compat.list_changed import SessionList

pytestmark = pytest.mark.anyio


@pytest.fixture
def document(raw: Any, labeled: dict[str, Any]) -> dict[str, Any]:
    return {"mcpServers": {"site": labeled, "notes": raw("named", Path("jot"))}, "always_available": ["jot"]}


@pytest.fixture
def file(tmp_path: Path, document: dict[str, Any]) -> Path:
    written = tmp_path / "mcp.json"
    written.write_text(json.dumps(document))
    return written


async def find(client: Client, query: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool("search_tools", {"query": query, **arguments})
    assert not result.is_error
    return said_by(result)


def said_by(result: CallToolResult) -> dict[str, Any]:
    return json.loads(text_of(result))


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_session_flow_search_list_changed_list_call(
    servers: Any, connect: Any, file: Path, transport: str
) -> None:
    changes = ToolListChanges()
    options = ["--config", str(file), "--compat", "list-changed"]

    @asynccontextmanager
    async def connected() -> AsyncGenerator[Client]:
        if transport == "stdio":
            async with connect("stdio", "legacy", *options, message_handler=changes) as client:
                yield client
            return
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*options))
        async with (
            Client(f"{url}/list-changed", mode="legacy", message_handler=changes) as client,
            Client(f"{url}/list-changed", mode="legacy") as other,
            Client(url, mode="legacy", extensions=[TOOLS_SEARCH]) as plain,
        ):
            yield client
            assert await names(other) == ["search_tools", "notes__jot"]  # a session sees what it has found itself
            hits = [tool.name async for page in iter_pages(plain, "scrape a webpage") for tool in page.tools]
            assert [tool["name"] for tool in (await find(other, "scrape a webpage"))["tools"]] == hits

    with anyio.fail_after(60):
        async with connected() as client:
            assert server_settings(client) is None
            assert client.server_capabilities.tools is not None
            assert client.server_capabilities.tools.list_changed
            assert await names(client) == ["search_tools", "notes__jot"]
            [tool] = (await find(client, "scrape a webpage", max_results=1))["tools"]
            assert (tool["name"], tool["category"]) == ("site__scrape_url", "scraping")
            assert "inputSchema" not in tool  # that comes with the list
            await changes.once_more()
            listed = {tool.name: tool for tool in (await client.session.list_tools()).tools}
            assert list(listed) == ["search_tools", "notes__jot", "site__scrape_url"]
            assert listed["site__scrape_url"].input_schema["required"] == ["url"]
            called = await client.call_tool("site__scrape_url", {"url": "u"})
            assert called.structured_content == {"name": "scrape_url", "arguments": {"url": "u"}}
            count = changes.count
            await find(client, "scrape a webpage", max_results=1)  # which changes nothing
            async with anyio.create_task_group() as together:
                for query in ("links", "latest items", "copy for later"):
                    together.start_soon(partial(find, client, query, max_results=1))
            await changes.once_more()
            assert len(await names(client)) == 6
            assert changes.count == count + 1


async def test_what_is_used_least_lately_leaves_a_full_list_first_and_can_still_be_called(
    compat_gateway: Any, file: Path
) -> None:
    with anyio.fail_after(30):
        async with compat_gateway("list-changed", "legacy", file, most_tools=2) as client:
            await find(client, "links", max_results=1)
            await find(client, "latest items", max_results=1)
            await client.call_tool("site__extract_links", {"url": "u"})
            await find(client, "copy for later", max_results=1)
            assert await names(client) == ["search_tools", "notes__jot", "site__extract_links", "site__save_page"]
            assert not (await client.call_tool("site__fetch_feed", {"url": "u"})).is_error
            found = await find(client, "scrape a webpage", max_results=50)
            best = {tool["name"] for tool in found["tools"][:2]}
            assert set(await names(client)) - {"search_tools", "notes__jot"} == best


async def test_without_a_session_everything_is_listed_and_the_search_says_why(compat_gateway: Any, file: Path) -> None:
    with anyio.fail_after(30):
        async with compat_gateway("list-changed", "auto", file) as client:
            listed = await names(client)
            refused = await client.call_tool("search_tools", {"query": "links"})
            called = await client.call_tool("site__extract_links", {"url": "u"})
            assert await names(client) == listed
    assert len(listed) == 7
    assert "search_tools" not in listed
    assert refused.is_error
    assert "2026-07-28" in said_by(refused)["error"]
    assert not called.is_error


async def test_a_toolset_hides_from_searches_lists_and_calls(
    connect: Any, tmp_path: Path, document: dict[str, Any]
) -> None:
    document["toolsets"] = {"some": {"site": {"exclude": ["scrape_url"]}}}
    file = tmp_path / "toolset.json"
    file.write_text(json.dumps(document))
    options = ["--config", str(file), "--compat", "list-changed", "--toolset", "some"]
    with anyio.fail_after(30):
        async with connect("stdio", "legacy", *options, env={ALWAYS_VARIABLE: "scrape_url, fetch_feed"}) as client:
            assert await names(client) == ["search_tools", "site__fetch_feed"]
            found = await find(client, "JavaScript")
            assert [tool["name"] for tool in found["tools"]] == ["site__scrape_with_js"]
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("site__scrape_url", {"url": "u"})
            assert await names(client) == ["search_tools", "site__fetch_feed", "site__scrape_with_js"]


async def test_a_session_is_told_when_a_found_tool_goes_and_comes_back(
    compat_gateway: Any, configuration: Any, raw: Any, tmp_path: Path, kill: Any
) -> None:
    changes = ToolListChanges()
    with anyio.fail_after(30):
        async with compat_gateway(
            "list-changed", "legacy", configuration(only=raw("good", tmp_path)), message_handler=changes
        ) as client:
            await find(client, "plain")
            await changes.once_more()
            kill(tmp_path)
            await changes.once_more()
            while await names(client) != ["search_tools", "only__plain"]:
                await changes.once_more()
            assert not (await client.call_tool("only__plain")).is_error


def test_a_list_has_changed_when_other_tools_are_in_it_and_gives_up_what_was_used_least_lately() -> None:
    listed = SessionList()
    assert listed.add({"a": None, "b": None}, most=2)
    assert not listed.add({"a": None}, most=2)
    listed.note_use("b")
    assert listed.add({"c": None}, most=2)
    assert [*listed.found] == ["b", "c"]
