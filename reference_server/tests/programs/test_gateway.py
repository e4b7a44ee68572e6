"""The gateway as its users have it: a process over stdio or HTTP, in both eras, with real servers behind it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages, search_tools, server_settings
from mcp_types import INVALID_PARAMS, CallToolResult, ToolListChangedNotification

UPSTREAMS = Path(__file__).parents[1] / "servers"

pytestmark = pytest.mark.anyio

LIKE_NOHUP = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "tools_search_server", *sys.argv[1:]])
"""


@pytest.fixture
def arguments(configuration: Any, versatile: Any, raw: Any, tmp_path: Path) -> list[str]:
    old = tmp_path / "old"
    old.mkdir()
    return ["--config", str(configuration(busy=versatile(tmp_path), old=raw("good", old)))]


async def children(pid: int) -> list[int]:
    listed = await anyio.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]


@pytest.mark.parametrize(
    ("transport", "mode"), [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]
)
async def test_all_servers_are_listed_searched_and_called_as_one(
    connect: Any, arguments: list[str], until: Any, transport: str, mode: str, tmp_path: Path
) -> None:
    steps: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        steps.append(done)

    with anyio.fail_after(60):
        async with connect(transport, mode, *arguments) as client:
            settings = server_settings(client)
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            found = [tool async for page in iter_pages(client, "plain") for tool in page.tools]
            result = await client.call_tool(found[0].name)
            await client.call_tool("busy__count", progress_callback=progress)
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("busy__ecko")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "busy__wait")
                await until((tmp_path / "waiting").exists)
                tasks.cancel_scope.cancel()
            await until((tmp_path / "cancelled").exists)
    assert settings is not None
    assert settings.topics == ["busy", "old"]
    # One definition is invalid for legacy callers, and the size is approximate. It is absent if a server starts slowly.
    assert settings.catalog_size in (None, len(listed), len(listed) + 1)
    assert found[0].name == "old__plain"
    assert {tool.name for tool in found} <= listed.keys()
    assert isinstance(result, CallToolResult)
    assert steps == [1, 2, 3]
    assert unknown.value.code == INVALID_PARAMS
    assert "busy__echo" in unknown.value.message


@pytest.mark.rotating
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_connects_once_all_servers_have_started_is_told_how_many_tools_there_are(
    servers: Any, arguments: list[str], mode: str
) -> None:
    size: int | None = None
    listed = list[str]()
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments))
        while size is None:
            async with Client(url, mode=mode, extensions=[TOOLS_SEARCH]) as client:
                listed = [tool.name for tool in (await client.list_tools()).tools]
                settings = server_settings(client)
                size = settings and settings.catalog_size
    assert size in (len(listed), len(listed) + 1)


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
async def test_a_change_of_a_servers_tools_reaches_every_subscriber(
    connect: Any, arguments: list[str], transport: str, mode: str
) -> None:
    tell, changes = anyio.create_memory_object_stream[object](100)

    async def on_message(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            await tell.send(message)

    async def subscribe(client: Client, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        if mode == "legacy":
            task_status.started()
            return
        async with client.listen(tools_list_changed=True) as events:
            task_status.started()
            async for event in events:
                await tell.send(event)

    found: list[str] = []
    with anyio.fail_after(60):
        async with (
            connect(transport, mode, *arguments, message_handler=on_message) as client,
            anyio.create_task_group() as tasks,
        ):
            assert client.server_capabilities.tools is not None
            assert client.server_capabilities.tools.list_changed
            await client.list_tools()
            await tasks.start(subscribe, client)
            await client.call_tool("busy__grow")
            while not found:  # servers that were ready late are changes too
                await changes.receive()
                found = [tool.name for tool in (await search_tools(client, "marmalade")).tools]
            tasks.cancel_scope.cancel()
    tell.close()
    changes.close()
    assert found == ["busy__grown_14"]


async def test_a_terminal_that_is_closed_does_not_end_what_nohup_has_started(
    servers: Any, configuration: Any, raw: Any
) -> None:
    file = configuration(good=raw("good"))
    process = servers.start("-c", LIKE_NOHUP, "--http", "127.0.0.1:0", "--config", str(file))
    with anyio.fail_after(60):
        url = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))["url"]
        process.send_signal(signal.SIGHUP)
        async with Client(url) as client:
            assert (await client.session.list_tools()).tools


@pytest.mark.rotating
async def test_a_signal_ends_a_stdio_gateway_whose_host_is_silent(
    servers: Any, arguments: list[str], is_alive: Callable[[int], bool], until: Any, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    with anyio.fail_after(60):
        process = servers.start("-m", "tools_search_server", *arguments, stdin=reading)
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "old" / "pid").exists())
        started = await children(process.pid)
        process.terminate()
        assert await anyio.to_thread.run_sync(lambda: process.wait(20)) == 0
        assert process.stdout.read() == ""
    os.close(reading)
    os.close(writing)
    assert not any(is_alive(pid) for pid in started)


async def has_echo(client: Client) -> bool:
    return any(tool.name == "web__echo" for tool in (await client.session.list_tools()).tools)


@pytest.mark.rotating
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_http_server_comes_back_after_a_restart(
    servers: Any,
    gateway: Any,
    era: str,
    tmp_path: Path,
    unused_tcp_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools_search_server.upstreams.liveness._QUIET_SECONDS", 1000)

    async def start() -> Any:
        options = ["--legacy"] if era == "legacy" else []
        argv = (str(UPSTREAMS / "versatile.py"), str(tmp_path), *options, "--http", str(unused_tcp_port))
        return await servers.start_on(unused_tcp_port, *argv)

    async def wait_for_echo(client: Client) -> None:
        while not await has_echo(client):  # noqa: ASYNC110 - a listing is the only thing to look at
            await anyio.sleep(0.05)

    with anyio.fail_after(60):
        first = await start()
        entry = {"url": f"http://127.0.0.1:{unused_tcp_port}/mcp", "headers": {"X-Any": "1"}}
        async with gateway("auto", web=entry) as client:
            await wait_for_echo(client)
            assert not (await client.session.call_tool("web__count", {})).is_error
            first.kill()
            await anyio.to_thread.run_sync(first.wait)
            await start()
            if era == "modern":  # its subscription ended with it
                await wait_for_echo(client)
            else:  # no notice that the session is gone: the next call finds out, and is sent again
                assert await has_echo(client)
            again: Any = await client.session.call_tool("web__count", {})
    assert not again.is_error, again.content


@pytest.mark.rotating
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_death_of_an_http_server_is_noticed_without_any_call(
    servers: Any,
    gateway: Any,
    raw: Any,
    era: str,
    tmp_path: Path,
    unused_tcp_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("QUIET", "POLL"):
        monkeypatch.setattr(f"tools_search_server.upstreams.liveness._{name}_SECONDS", 0.1)
    options = ["--legacy"] if era == "legacy" else []
    argv = (str(UPSTREAMS / "versatile.py"), str(tmp_path), *options, "--http", str(unused_tcp_port))
    with anyio.fail_after(60):
        process = await servers.start_on(unused_tcp_port, *argv)
        entry = {"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"}
        async with gateway("auto", web=entry, other=raw("good")) as client:
            while not await has_echo(client):  # noqa: ASYNC110 - a listing is the only thing to look at
                await anyio.sleep(0.05)
            process.kill()
            while await has_echo(client):  # noqa: ASYNC110
                await anyio.sleep(0.05)
            assert [tool.name for tool in (await client.session.list_tools()).tools] == ["other__plain"]


@pytest.mark.rotating
async def test_arguments_that_are_mirrored_into_headers_reach_an_http_server(
    servers: Any, configuration: Any, tmp_path: Path, unused_tcp_port: int
) -> None:
    argv = (str(UPSTREAMS / "versatile.py"), str(tmp_path), "--http", str(unused_tcp_port))
    file = configuration(web={"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"})
    with anyio.fail_after(60):
        await servers.start_on(unused_tcp_port, *argv)
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
        for mode in ("auto", "legacy"):
            async with Client(url, mode=mode) as client:
                listed = [tool.name for tool in (await client.session.list_tools()).tools]
                result = await client.session.call_tool("web__region", {"region": "north"})
            assert "web__region" in listed
            assert "web__wrong" not in listed
            assert isinstance(result, CallToolResult)
            assert not result.is_error, result.content
