"""Servers with very many tools are searched where they are, and the gateway's answers stay those of one server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from clients import ToolListChanges, server_entry, text_of, with_token
from mcp import Client, MCPError, StdioServerParameters
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages, search_tools, server_settings
from mcp_ext_tools_search.types import TOOLS, Primitive
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, Tool
from tools_search_hosts import qualified_name
from tools_search_server.access.principals import new_token, token_hash
from tools_search_server.base.limits import Limits
from tools_search_server.compat.definitions import CompatOptions
from tools_search_server.gateway import search
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.gateway import gateway_program
from tools_search_server.upstreams import delegated_search
from tools_search_server.upstreams.delegated_search import Bounds, DelegatedSearch, NoAnswerError

pytestmark = pytest.mark.anyio

EVERY_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])
SPACED = qualified_name("vast", "name with spaces")

Open = Callable[..., Any]


@pytest.fixture
def vast(tmp_path: Path) -> dict[str, Any]:
    return server_entry("vast.py", tmp_path)


@pytest.fixture
def behave(tmp_path: Path) -> Callable[[str], None]:
    """Let the vast server behave differently from now on."""

    def write(behavior: str) -> None:
        (tmp_path / "new").write_text(behavior)
        (tmp_path / "new").rename(tmp_path / "behavior")

    return write


@pytest.fixture
def open_gateway(tmp_path: Path) -> Open:
    """Connect to a gateway in this process that indexes ten tools of a server at most, if that can be searched."""

    @asynccontextmanager
    async def opened(
        mode: str, document: dict[str, Any], compat: str | None = None, toolset: str | None = None, **client: Any
    ) -> AsyncGenerator[Client]:
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps(document))
        limits = Limits(page_size=10, cursor_key=b"k" * 32)
        options = GatewayOptions(20, 20, toolset, index_at_most=10)
        if compat is None:
            program = gateway_program(file, limits, options)
        else:
            program = gateway_program(file, limits, options, CompatOptions((compat,), "", 100), over_http=False)
        async with (
            program.lifespan(),
            Client(program.server, mode=mode, extensions=[TOOLS_SEARCH], **client) as connected,
        ):
            yield connected
            program.on_stop()

    return opened


async def all_listed(client: Client) -> list[Tool]:
    listed: list[Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return listed


async def found_names(client: Client, query: str, limit: int = 50) -> list[str]:
    return [tool.name async for page in iter_pages(client, query, limit=limit) for tool in page.tools]


@EVERY_ERA
async def test_a_vast_server_is_listed_and_searched_with_the_others_as_one(
    open_gateway: Open, vast: dict[str, Any], labeled: dict[str, Any], mode: str
) -> None:
    with anyio.fail_after(60):
        async with open_gateway(mode, {"mcpServers": {"vast": vast, "site": labeled}}) as client:
            settings = server_settings(client)
            listed = await all_listed(client)
            hits = [tool async for page in iter_pages(client, "page", limit=50) for tool in page.tools]
            by_pages = await found_names(client, "page", limit=3)
            exact = await found_names(client, "vast__weather_8")
            altered = await found_names(client, SPACED)
            with_server = await found_names(client, "vast photo 6")
    definitions = {tool.name: tool for tool in listed}
    assert settings is not None
    assert settings.catalog_size == len(listed) == len(definitions) == 47
    assert not listed[0].name.startswith("vast__")
    assert {"vast__weather_0", "site__save_page"} <= {tool.name for tool in hits}
    assert [tool.name for tool in hits] == by_pages
    for hit in hits:
        assert hit.model_copy(update={"meta": None}) == definitions[hit.name].model_copy(update={"meta": None})
    assert exact[0] == "vast__weather_8"
    assert altered[0] == SPACED
    assert "vast__photo_6" in with_server


@EVERY_ERA
async def test_what_a_vast_server_finds_is_no_hit_for_callers_whose_revision_does_not_allow_it(
    open_gateway: Open, tmp_path: Path, mode: str
) -> None:
    tools = [{"name": f"count_{number}", "inputSchema": {"type": "object"}} for number in range(20)]
    new = {"name": "count_all", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}
    catalog = tmp_path / "tools.json"
    catalog.write_text(json.dumps({"tools": [*tools, new]}))
    shop = {"command": sys.executable, "args": ["-m", "tools_search_server", "--catalog", str(catalog)]}
    with anyio.fail_after(60):
        async with open_gateway(mode, {"mcpServers": {"shop": shop}}) as client:
            found = await found_names(client, "count")
            exact = await found_names(client, "shop__count_all")
    old = {f"shop__{tool['name']}" for tool in tools}
    assert set(found) == old | ({"shop__count_all"} if mode == "auto" else set())
    assert ("shop__count_all" in exact) == (mode == "auto")


async def test_a_vast_server_that_states_no_size_is_searched_and_leaves_the_size_of_the_whole_unknown(
    open_gateway: Open, vast: dict[str, Any], behave: Callable[[str], None]
) -> None:
    behave("unsized")
    with anyio.fail_after(60):
        async with open_gateway("auto", {"mcpServers": {"vast": vast}}) as client:
            settings, told = server_settings(client), client.instructions
            found = await found_names(client, "vast__weather_8")
    assert settings is not None
    assert settings.catalog_size is None
    assert told is not None
    assert "the tools of 1 MCP server." in told
    assert "- vast (many tools)" in told.splitlines()
    assert found[0] == "vast__weather_8"


@EVERY_ERA
async def test_tools_of_a_vast_server_can_be_called_without_being_listed_or_found(
    open_gateway: Open, vast: dict[str, Any], mode: str
) -> None:
    with anyio.fail_after(60):
        async with open_gateway(mode, {"mcpServers": {"vast": vast}}) as client:
            called = [await client.session.call_tool(name, {"n": 1}) for name in ("vast__photo_38", SPACED)]
            with pytest.raises(MCPError) as unknown:
                await client.session.call_tool("elsewhere__photo", {})
    assert [json.loads(text_of(result))["name"] for result in called] == ["photo_38", "name with spaces"]
    assert unknown.value.code == INVALID_PARAMS


@EVERY_ERA
async def test_a_vast_server_that_hangs_costs_only_its_own_tools(
    open_gateway: Open, vast: dict[str, Any], labeled: dict[str, Any], behave: Any, mode: str
) -> None:
    document = {"mcpServers": {"vast": vast, "site": labeled}}
    with anyio.fail_after(60):
        async with open_gateway(mode, document) as client:
            before = await search_tools(client, "page", limit=2)
            behave("hung")
            with pytest.raises(MCPError) as broken_off:
                await search_tools(client, "page", limit=2, cursor=before.next_cursor)
            partial = await search_tools(client, "page", limit=1)
            rest = await search_tools(client, "page", cursor=partial.next_cursor)
            with pytest.raises(MCPError) as by_name:
                await search_tools(client, "vast__weather_8")
            listed = await all_listed(client)
    assert broken_off.value.code == by_name.value.code == INTERNAL_ERROR
    names = [tool.name for tool in [*partial.tools, *rest.tools]]
    assert names
    assert all(name.startswith("site__") for name in names)
    assert partial.ttl_ms == 0
    assert len(listed) == 6


@EVERY_ERA
async def test_a_search_ends_at_its_deadline_with_what_a_slow_vast_server_has_found_by_then(
    open_gateway: Open, vast: dict[str, Any], behave: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(search, "_SEARCH_SECONDS", 1)
    with anyio.fail_after(60):
        async with open_gateway(mode, {"mcpServers": {"page": vast}}) as client:
            whole = await search_tools(client, "page weather")
            behave("slow")  # it has answered once by the deadline, and would have a second time after it
            partial = await search_tools(client, "page weather")
            with pytest.raises(MCPError) as by_name:
                await search_tools(client, qualified_name("page", "name with spaces"))
    assert [tool.name for tool in partial.tools] == [tool.name for tool in whole.tools]
    assert partial.tools
    assert (whole.ttl_ms, partial.ttl_ms) == (5000 if mode == "auto" else 0, 0)
    assert by_name.value.code == INTERNAL_ERROR
    assert "did not answer its part of this search in time; try again" in by_name.value.message


async def test_looking_up_many_names_ends_at_one_deadline_for_all(
    open_gateway: Open, vast: dict[str, Any], behave: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_LOOKUP_SECONDS", 2)
    with anyio.fail_after(60):
        async with open_gateway("legacy", {"mcpServers": {"vast": vast}}, "meta-tools") as client:
            behave("slow")
            arguments = {"names": [f"vast__weather_{4 * number}" for number in range(10)]}
            result: Any = await client.session.call_tool("describe_tools", arguments)
    assert result.is_error
    assert "did not look them up within 2 s" in str(result.content)


async def test_what_a_vast_server_sends_is_bounded_and_sieved(
    open_gateway: Open, vast: dict[str, Any], behave: Any
) -> None:
    with anyio.fail_after(60):
        async with open_gateway("auto", {"mcpServers": {"vast": vast}}) as client:
            await search_tools(client, "photo")
            behave("lying")
            found = await search_tools(client, "weather")
            page = await client.list_tools()
            following = await client.list_tools(cursor=page.next_cursor)
    for tools in (found.tools, page.tools, following.tools):
        assert [tool.name for tool in tools] == ["vast__weather_0"]
    assert found.next_cursor is None
    assert following.next_cursor is None


async def test_one_of_which_somebody_new_sees_a_part_is_indexed_without_a_restart(
    vast: dict[str, Any], servers: Any, tmp_path: Path
):
    def write(*names: str) -> None:
        toolsets = {"some": {"vast": ["weather_0", "invoice_1"]}}
        principals = {
            name: {"token": hashes[name], **({"toolset": "some"} if name == "part" else {})} for name in names
        }
        document = {"mcpServers": {"vast": vast}, "toolsets": toolsets, "principals": principals}
        (tmp_path / "written").write_text(json.dumps(document))
        (tmp_path / "written").rename(tmp_path / "who.json")

    tokens = {name: new_token() for name in ("whole", "part")}
    hashes = {name: token_hash(token) for name, token in tokens.items()}
    write("whole")
    options = ["--config", str(tmp_path / "who.json"), "--index-at-most", "10"]
    url = await anyio.to_thread.run_sync(lambda: servers.start_http(*options, stderr=subprocess.DEVNULL))
    with anyio.fail_after(60):
        async with with_token(url, tokens["whole"]) as client:
            assert len(await all_listed(client)) > 10
        write("whole", "part")
        listed, found = list[str](), list[str]()
        while not listed:
            await anyio.sleep(0.05)
            with suppress(Exception):  # refused until the file is read
                async with with_token(url, tokens["part"]) as client:
                    listed = [tool.name for tool in await all_listed(client)]
                    found = [tool.name async for page in iter_pages(client, "weather") for tool in page.tools]
    assert sorted(listed) == ["vast__invoice_1", "vast__weather_0"]
    assert found == ["vast__weather_0"]


@EVERY_ERA
async def test_who_sees_a_vast_server_in_part_has_it_indexed_and_finds_nothing_else(
    open_gateway: Open, vast: dict[str, Any], mode: str
) -> None:
    toolsets = {"some": {"vast": ["weather_0", "invoice_1"]}}
    with anyio.fail_after(60):
        async with open_gateway(mode, {"mcpServers": {"vast": vast}, "toolsets": toolsets}, toolset="some") as client:
            listed = await all_listed(client)
            found = await found_names(client, "weather")
    assert [tool.name for tool in listed] == ["vast__weather_0", "vast__invoice_1"]
    assert found == ["vast__weather_0"]


async def test_a_cursor_of_a_hidden_servers_list_is_no_cursor(
    open_gateway: Open, vast: dict[str, Any], labeled: dict[str, Any]
) -> None:
    servers = {"vast": vast, "site": labeled}
    document = {"mcpServers": servers, "toolsets": {"small": {"site": True}}}
    with anyio.fail_after(60):
        async with open_gateway("auto", document) as client:
            page = await client.list_tools()
            vast_page = await client.list_tools(cursor=page.next_cursor)
        async with open_gateway("auto", document, toolset="small") as client:
            listed = await all_listed(client)
            for cursor in (page.next_cursor, vast_page.next_cursor):
                with pytest.raises(MCPError) as refused:
                    await client.list_tools(cursor=cursor)
                assert refused.value.code == INVALID_PARAMS
            with pytest.raises(MCPError):
                await client.session.call_tool("vast__weather_0", {})
    assert len(listed) == 6


async def test_a_change_in_a_vast_server_is_told(open_gateway: Open, vast: dict[str, Any], behave: Any) -> None:
    changes = ToolListChanges()
    with anyio.fail_after(60):
        async with open_gateway("legacy", {"mcpServers": {"vast": vast}}, message_handler=changes) as client:
            await client.list_tools()
            changes.forget()  # that it has come is a change as well
            behave("changing")
            await client.session.call_tool("vast__weather_0", {"n": 1})
            await changes.once_more()


@pytest.mark.parametrize("compat", ["meta-tools", "list-changed"])
async def test_hosts_that_cannot_search_find_see_and_call_tools_of_a_vast_server(
    open_gateway: Open, vast: dict[str, Any], compat: str
) -> None:
    async def said(tool: str, **arguments: Any) -> Any:
        result = await client.session.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    with anyio.fail_after(60):
        async with open_gateway("legacy", {"mcpServers": {"vast": vast}}, compat) as client:
            found = (await said("search_tools", query="ticket 3")).structured_content
            assert "vast__ticket_3" in [tool["name"] for tool in found["tools"]]
            if compat == "list-changed":
                assert "vast__ticket_3" in [tool.name for tool in (await client.list_tools()).tools]
                called = await said("vast__ticket_3", n=1)
            else:
                described = (await said("describe_tools", names=["vast__ticket_7"])).structured_content
                assert described["tools"][0]["inputSchema"]["required"] == ["n"]
                categories = (await said("list_tool_categories")).structured_content["categories"]
                assert categories == [{"name": "vast", "count": 41, "listed": False}]
                wrong = await said("call_tool", name="vast__ticket_7", arguments={})
                assert wrong.is_error
                called = await said("call_tool", name="vast__ticket_7", arguments={"n": 1})
    assert not called.is_error
    assert json.loads(called.content[0].text)["name"] == ("ticket_3" if compat == "list-changed" else "ticket_7")


async def test_a_vast_server_over_http_is_searched_there(open_gateway: Open, servers: Any) -> None:
    url = await anyio.to_thread.run_sync(servers.start_http)
    with anyio.fail_after(60):
        async with open_gateway("auto", {"mcpServers": {"bundled": {"type": "http", "url": url}}}) as client:
            found = await found_names(client, "bundled__carbon_footprint")
            listed = [tool.name for tool in await all_listed(client)]
    assert found[0] == "bundled__carbon_footprint"
    assert set(found) <= set(listed)
    assert len(listed) == len(set(listed)) > 300


AT_ONCE = 8


async def test_what_is_remembered_of_a_vast_server_is_bounded(
    vast: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegated_search, "_MAX_KNOWN", 5)
    server = StdioServerParameters(command=vast["command"], args=vast["args"])
    with anyio.fail_after(60):
        async with Client(server, mode="legacy", extensions=[TOOLS_SEARCH]) as client:
            settings = server_settings(client)
            assert settings is not None
            search = DelegatedSearch(client, "vast", settings)
            found = [
                tool.name
                for word in ("weather", "invoice", "photo", "ticket")
                for tool in (await search.search(word)).entries
            ]
            known = [name for name in found if search.seen(name)]
            remembered = client.session._tool_output_schemas  # pyright: ignore[reportPrivateUsage] - shows it to nobody
    assert len(found) == 41
    assert known == found[-5:]
    assert remembered.keys() >= set(known)
    assert len(remembered) <= 10


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Bounds:
    monkeypatch.setattr(delegated_search, "_BOUND_SECONDS", 0.1)
    return Bounds("vast")


async def answer() -> str:
    await anyio.lowlevel.checkpoint()
    return "answer"


async def test_one_that_does_not_answer_is_left_alone_for_a_while(bounds: Bounds):
    with anyio.fail_after(5):
        with pytest.raises(NoAnswerError, match=r"it took more than 0\.1 s"):
            await bounds.within(anyio.sleep_forever)
        with pytest.raises(NoAnswerError, match="a moment ago"):
            await bounds.within(answer)


async def test_one_that_so_many_ask_that_some_get_no_turn_is_asked_again(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
):
    done = anyio.Event()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            monkeypatch.setattr(delegated_search, "_BOUND_SECONDS", 5)
            for _ in range(AT_ONCE):
                tasks.start_soon(bounds.within, done.wait)
            await anyio.wait_all_tasks_blocked()
            monkeypatch.setattr(delegated_search, "_BOUND_SECONDS", 0.1)
            with pytest.raises(NoAnswerError):
                await bounds.within(answer)
            done.set()
        assert await bounds.within(answer) == "answer"


PATIENT = """
from tools_search_server.__main__ import main
from tools_search_server.upstreams import delegated_search

delegated_search._BOUND_SECONDS = 60
main()
"""
"""Runs a gateway that gives up no search by itself during a test."""


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("primitive", "mode", "upstream"),
    [
        (TOOLS, "auto", "stdio"),
        (TOOLS, "auto", "http"),
        (RESOURCES, "legacy", "stdio legacy"),
        (RESOURCE_TEMPLATES, "legacy", "http legacy"),
        (PROMPTS, "legacy", "http"),
    ],
)
async def test_a_search_that_its_caller_cancels_is_cancelled_at_the_server_that_searches(
    servers: Any,
    configuration: Any,
    until: Any,
    tmp_path: Path,
    unused_tcp_port: int,
    primitive: Primitive[Any],
    mode: str,
    upstream: str,
) -> None:
    transport, _, era = upstream.partition(" ")
    entry = server_entry("versatile.py", tmp_path, "--searching", *(["--legacy"] if era else []))
    with anyio.fail_after(60):
        if transport == "http":
            await servers.start_on(unused_tcp_port, *entry["args"], "--http", str(unused_tcp_port))
            entry = {"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"}
        file = configuration(upstream=entry | {"era": era or "auto"})
        argv = ["-c", PATIENT, "--config", str(file), "--search", "resources,prompts", "--index-at-most", "0"]
        target: Any = StdioServerParameters(command=sys.executable, args=argv, env=dict(os.environ))
        if mode == "legacy":
            process = servers.start(*argv, "--http", "127.0.0.1:0")
            target = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))["url"]
        async with Client(target, mode=mode, extensions=[TOOLS_SEARCH]) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(search_tools, client, "wait", primitive=primitive))
                await until((tmp_path / "waiting").exists)
                assert not (tmp_path / "cancelled").exists()
                tasks.cancel_scope.cancel()
            await until((tmp_path / "cancelled").exists)
            await search_tools(client, "other", primitive=primitive)
