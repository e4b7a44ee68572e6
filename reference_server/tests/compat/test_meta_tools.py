"""The mode `meta-tools`, as hosts without the extension have it: a process, over both transports, in both eras."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import httpx2
import pytest
from clients import with_token
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages, raw_request, server_settings
from mcp_ext_tools_search.ranking import Hit
from mcp_types import METHOD_NOT_FOUND, CallToolResult, TextContent, Tool
from tools_search_server.access.principals import new_token, token_hash
from tools_search_server.base.limits import Limits
from tools_search_server.compat.definitions import CompatOptions
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.gateway import gateway_program

pytestmark = pytest.mark.anyio

METADATA = {
    "categories": {"scraping": "Fetching what is on the internet", "notes": "Paper and pencil"},
    "servers": {"notes": {"tags": ["desk"], "tools": {"jot": {"group": "notes", "aliases": ["scribble"]}}}},
}
OWN = [
    "search_tools",
    "list_tool_categories",
    "list_tools",
    "find_by_tags",
    "get_related_tools",
    "describe_tools",
    "call_tool",
]


@pytest.fixture
def document(raw: Any, labeled: dict[str, Any]) -> dict[str, Any]:
    return {"mcpServers": {"site": labeled, "notes": raw("named", Path("jot"))}, "metadata": METADATA}


@pytest.fixture
def file(tmp_path: Path, document: dict[str, Any]) -> Path:
    return written(tmp_path, document)


def written(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps(document))
    return file


@asynccontextmanager
async def connected(
    servers: Any, connect: Any, transport: str, mode: str, *arguments: str
) -> AsyncGenerator[tuple[Client, str]]:
    """A client of the endpoint, and on HTTP the address of the plain one."""
    if transport == "stdio":
        async with connect("stdio", mode, "--compat", "meta-tools", *arguments) as client:
            yield client, ""
        return
    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--compat", "meta-tools", *arguments))
    async with Client(f"{url}/meta-tools", mode=mode, extensions=[TOOLS_SEARCH]) as client:
        yield client, url


def read(result: CallToolResult) -> dict[str, Any]:
    [content] = result.content
    assert isinstance(content, TextContent)
    said = json.loads(content.text)
    assert result.structured_content == said
    return said


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return read(result)


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return read(result)


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
async def test_the_three_flows_by_category_search_first_and_by_tags(
    servers: Any, connect: Any, file: Path, transport: str, mode: str
) -> None:
    with anyio.fail_after(60):
        async with connected(servers, connect, transport, mode, "--config", str(file)) as (client, _):
            await hosts_see_a_short_honest_list(client)
            await flow_by_category(client)
            await flow_search_first(client)
            await flow_by_tags(client)
            assert [tool.name for tool in (await client.list_tools()).tools] == OWN


async def flow_by_category(client: Client) -> None:
    categories = (await ask(client, "list_tool_categories"))["categories"]
    assert [(category["name"], category["count"]) for category in categories] == [
        ("notes", 1), ("parsing", 1), ("scraping", 3), ("site", 1), ("storage", 1)
    ]  # fmt: skip
    assert categories[2]["description"] == METADATA["categories"]["scraping"]
    listed = await ask(client, "list_tools", category="Scraping", detail_level="brief")
    assert [tool["name"] for tool in listed["tools"]] == [
        "site__scrape_url",
        "site__scrape_with_js",
        "site__fetch_feed",
    ]
    assert {tool["category"] for tool in listed["tools"]} == {"scraping"}
    assert listed["metadata"] == {
        "total_count": 7,
        "filtered_count": 3,
        "categories_available": ["notes", "parsing", "scraping", "site", "storage"],
        "detail_level": "brief",
    }
    found = await ask(client, "search_tools", query="scrape_url", detail_level="full", max_results=1)
    [tool] = found["tools"]
    assert tool["name"] == "site__scrape_url"
    assert tool["inputSchema"]["required"] == ["url"]
    called = await client.call_tool("call_tool", {"name": tool["name"], "arguments": {"url": "https://a.example"}})
    assert called.structured_content == {"name": "scrape_url", "arguments": {"url": "https://a.example"}}


async def flow_search_first(client: Client) -> None:
    found = await ask(client, "search_tools", query="scrape webpage")
    best = found["tools"][0]
    assert best["name"] == "site__scrape_url"
    assert "relevance" not in best  # the best of a bad lot would have 1
    assert "no_tool_mentions" not in found
    assert (await ask(client, "search_tools", query="scrape the pharaoh's webpage"))["no_tool_mentions"] == ["pharaoh"]
    related = (await ask(client, "get_related_tools", tool_name=best["name"]))["related"]
    assert [(tool["name"], tool["relation"]) for tool in related] == [
        ("site__save_page", "explicit"),
        ("site__scrape_with_js", "shared_tags"),
        ("site__extract_links", "shared_tags"),
        ("site__fetch_feed", "same_category"),
    ]
    assert related[1]["shared_tags"] == ["web", "html"]
    described = await ask(client, "describe_tools", names=[best["name"], related[0]["name"]])
    assert [tool["name"] for tool in described["tools"]] == ["site__scrape_url", "site__save_page"]
    assert described["tools"][0]["examples"] == [{"arguments": {"url": "https://example.com"}}]
    assert described["tools"][0]["related"] == ["site__save_page"]
    called = await client.call_tool("call_tool", {"name": "site__save_page", "arguments": {"url": "u", "depth": 2}})
    assert not called.is_error


async def flow_by_tags(client: Client) -> None:
    some = await ask(client, "find_by_tags", tags=["html", "web"], match_mode="any")
    assert [tool["name"] for tool in some["tools"]] == [
        "site__scrape_url", "site__scrape_with_js", "site__extract_links"
    ]  # fmt: skip
    assert some["tools"][2]["tags"] == ["html", "links"]
    narrowed = await ask(client, "find_by_tags", tags=["HTML", "async"], match_mode="all", detail_level="full")
    [tool] = narrowed["tools"]
    assert tool["name"] == "site__scrape_with_js"
    called = await client.call_tool("call_tool", {"name": tool["name"], "arguments": {"url": "u"}})
    assert not called.is_error


async def hosts_see_a_short_honest_list(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == OWN
    assert "call_tool" in (client.instructions or "")
    assert server_settings(client) is None
    with pytest.raises(MCPError) as unknown:
        await raw_request(client, "tools/search", {"query": "scrape"}, seconds=10)
    assert unknown.value.code == METHOD_NOT_FOUND
    hints = {tool.name: tool.annotations for tool in listed}
    caller = hints.pop("call_tool")
    assert caller is not None
    assert (caller.read_only_hint, caller.destructive_hint, caller.open_world_hint) == (False, True, True)
    assert all(hint is not None and hint.read_only_hint and not hint.destructive_hint for hint in hints.values())
    # About 1,100 tokens for any number of tools behind them.
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in listed) < 5000


async def test_a_search_is_that_of_the_plain_endpoint_for_each_caller(
    servers: Any, tmp_path: Path, document: dict[str, Any]
) -> None:
    tokens = {name: new_token() for name in ("owner", "reader")}
    document["toolsets"] = {"some": {"site": {"exclude": ["scrape_url", "save_page"]}}}
    document["principals"] = {
        "owner": {"token": token_hash(tokens["owner"])},
        "reader": {"token": token_hash(tokens["reader"]), "toolset": "some"},
    }
    document["always_available"] = ["scrape_url", "site__fetch_feed"]
    file = written(tmp_path, document)
    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file), "--compat", "meta-tools"))

    with anyio.fail_after(60):
        assert httpx2.post(f"{url}/meta-tools", json={}, trust_env=False).status_code == 401
        for mode in ("auto", "legacy"):
            for name in tokens:
                async with (
                    with_token(url, tokens[name], mode) as plain,
                    with_token(f"{url}/meta-tools", tokens[name], mode) as meta,
                ):
                    for query in ("scrape a webpage", "scribble", "internet", "desk", "save_page", "odd labels"):
                        hits = [tool async for page in iter_pages(plain, query) for tool in page.tools]
                        found = await ask(meta, "search_tools", query=query, max_results=50)
                        assert [tool["name"] for tool in found["tools"]] == [tool.name for tool in hits]
                        assert found["metadata"]["filtered_count"] == len(hits)
                        # The reader does not learn that another caller sees a tool with such a word.
                        assert ("no_tool_mentions" in found) == (name == "reader" and not hits)
        async with with_token(f"{url}/meta-tools", tokens["reader"]) as meta:
            assert [tool.name for tool in (await meta.list_tools()).tools] == [*OWN, "site__fetch_feed"]
            everything = await ask(meta, "list_tools")
            assert everything["tools"] == [
                "site__scrape_with_js",
                "site__fetch_feed",
                "site__extract_links",
                "site__odd",
            ]
            assert "storage" not in everything["metadata"]["categories_available"]
            hidden = await refused(meta, "call_tool", name="site__save_page", arguments={"url": "u"})
            absent = await refused(meta, "call_tool", name="site__sive_page", arguments={"url": "u"})
            assert str(hidden).replace("save", "sive") == str(absent)
            assert "not_found" in await ask(meta, "describe_tools", names=["site__save_page", "site__odd"])
            for tool in ("site__scrape_url", "notes__jot"):
                with pytest.raises(MCPError, match="Unknown tool"):
                    await meta.call_tool(tool, {"url": "u"})
            assert "closest" in await refused(meta, "get_related_tools", name="site__scrape_url")
            related = (await ask(meta, "get_related_tools", name="site__scrape_with_js"))["related"]
            assert [tool["name"] for tool in related] == ["site__extract_links", "site__fetch_feed"]


async def test_whatever_is_wrong_is_told_with_what_to_do(
    compat_gateway: Any, document: dict[str, Any], raw: Any, tmp_path: Path
) -> None:
    document["mcpServers"]["dead"] = raw("crashing")
    file = written(tmp_path, document)
    with anyio.fail_after(60):
        async with compat_gateway("meta-tools", "auto", file) as client:
            nothing = await ask(client, "search_tools", query="zeppelin")
            assert nothing["error"] == "No tools found for 'zeppelin'."
            assert nothing["tools"] == []
            assert any("dead (down)" in line for line in nothing["suggestions"])
            assert "scraping" in nothing["available_categories"]
            assert "suggestions" in await refused(client, "search_tools", query=" \n")
            assert "suggestions" in await refused(client, "search_tools", query="x" * 5000)
            assert (await refused(client, "search_tools"))["problems"] == ["arguments: 'query' is a required property"]
            assert "problems" in await refused(client, "search_tools", query="a", max_results=0)
            assert "problems" in await refused(client, "list_tools", detail_level="everything")
            assert (await refused(client, "list_tools", category="scrapeing"))["suggestions"] == [
                "Did you mean scraping?"
            ]
            assert "available_servers" in await refused(client, "list_tools", server="unheard of")
            assert "1 to 1" in (await refused(client, "list_tools", page=2))["suggestions"][0]
            assert "error" in await ask(client, "find_by_tags", tags=["unheard of"])
            assert (await refused(client, "call_tool", name="site__scrap_url"))["closest"][0] == "site__scrape_url"

            wrong = await refused(client, "call_tool", name="site__scrape_url", arguments={"depth": 9, "path": "a"})
            assert len(wrong["problems"]) == 3
            assert wrong["input_schema"]["required"] == ["url"]
            assert "problems" in await refused(client, "call_tool", name="site__scrape_url", arguments="nonsense")
            assert "problems" in await refused(client, "call_tool", name="site__scrape_url", arguments=[1])
            assert "directly" in str(await refused(client, "call_tool", name="list_tools"))
            assert "call_tool" in str(await refused(client, "site__scrape_url", url="u"))
            with pytest.raises(MCPError, match="search_tools"):
                await client.call_tool("search_tool", {})
            down = await client.call_tool("call_tool", {"name": "dead__anything"})
            assert down.is_error
            assert "'dead' is down" in str(down.content)
            # As other gateways call it, and as models write it.
            other = await client.call_tool("invoke_tool", {"toolName": "site__odd", "args": '{"url": "u"}'})
            assert other.structured_content == {"name": "odd", "arguments": {"url": "u"}}


async def test_pages_levels_and_filters_go_together(compat_gateway: Any, file: Path) -> None:
    with anyio.fail_after(60):
        async with compat_gateway("meta-tools", "legacy", file) as client:
            pages = [await ask(client, "list_tools", server="SITE", page_size=4, page=page) for page in (1, 2)]
            assert [len(page["tools"]) for page in pages] == [4, 2]
            assert [page["pagination"]["has_next"] for page in pages] == [True, False]
            assert pages[1]["pagination"]["total_pages"] == 2
            everything = await ask(client, "search_tools", query="scrape webpage links", max_results=50)
            narrowed = await ask(client, "search_tools", query="scrape webpage links", tags=["links"])
            assert [tool["name"] for tool in narrowed["tools"]] == ["site__extract_links"]
            assert narrowed["tools"][0] in everything["tools"]
            assert (await ask(client, "search_tools", query="internet", category="parsing"))["tools"] == []
            named = await ask(client, "search_tools", query="scraping", detail_level="minimal")
            assert {"site__scrape_url", "site__scrape_with_js", "site__fetch_feed"} <= set(named["tools"])
            described = await ask(client, "search_tools", query="internet", detail_level="minimal")
            assert set(described["tools"]) == {"site__scrape_url", "site__scrape_with_js", "site__fetch_feed"}
            [noted] = (await ask(client, "search_tools", query="scribble"))["tools"]
            assert (noted["name"], noted["category"], noted["tags"]) == ("notes__jot", "notes", ["desk"])


async def test_a_call_passes_content_progress_and_questions_as_a_direct_call_does(
    connect: Any, configuration: Any, versatile: Any, tmp_path: Path
) -> None:
    steps: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        steps.append(done)

    async def inner(client: Client, name: str, **options: Any) -> Any:
        return await client.call_tool("call_tool", {"name": f"busy__{name}", "arguments": {}}, **options)

    file = configuration(busy=versatile(tmp_path))
    with anyio.fail_after(60):
        async with connect("stdio", "auto", "--config", str(file), "--compat", "meta-tools") as client:
            assert [part.type for part in (await inner(client, "picture")).content] == [
                "image", "audio", "resource_link"
            ]  # fmt: skip
            assert (await inner(client, "fail")).is_error
            await inner(client, "count", progress_callback=progress)
            assert steps == [1, 2, 3]
            asked = await client.session.call_tool("call_tool", {"name": "busy__ask"}, allow_input_required=True)
            assert asked.result_type == "input_required"
            told = await inner(client, "refuse")
            assert told.is_error
            assert "not like that" in str(told.content)
            echoed = await inner(client, "echo", meta={"com.example/mine": 1})
            assert echoed.structured_content["arguments"] == {}
            assert echoed.structured_content["meta"]["com.example/mine"] == 1
            with pytest.raises(MCPError):
                await inner(client, "wait", read_timeout_seconds=0.5)
            while not (tmp_path / "cancelled").exists():  # noqa: ASYNC110 - another process sets no event
                await anyio.sleep(0.02)


async def test_the_prefix_stands_before_every_name(compat_gateway: Any, file: Path) -> None:
    with anyio.fail_after(60):
        async with compat_gateway("meta-tools", "auto", file, prefix="site_") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [f"site_{name}" for name in OWN]
            assert "site_search_tools" in (client.instructions or "")
            nothing = await ask(client, "site_search_tools", query="zeppelin")
            assert any("site_list_tool_categories" in line for line in nothing["suggestions"])
            with pytest.raises(MCPError):
                await client.call_tool("search_tools", {"query": "a"})


class WaitingRanker:
    """Ranks nothing, and not before it may."""

    is_slow: Literal[True] = True

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, tools: Sequence[Tool], /) -> WaitingRanker:
        return self

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        self.has_begun.set()
        self.may_end.wait(30)
        return []


async def test_a_search_that_is_one_too_many_is_refused(file: Path, until: Any) -> None:
    ranker = WaitingRanker()
    limits = Limits(searches_at_once=1, ranker=ranker)
    program = gateway_program(file, limits, GatewayOptions(20, 20), CompatOptions(("meta-tools",), "", 100))
    with anyio.fail_after(60):
        async with program.lifespan(), Client(program.server) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(partial(ask, client, "search_tools", query="scrape"))
            await until(ranker.has_begun.is_set)
            with pytest.raises(MCPError, match="Too many searches at once"):
                await client.call_tool("search_tools", {"query": "scrape"})
            ranker.may_end.set()
