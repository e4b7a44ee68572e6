"""Stopping: in every mode, by every signal, with anything open, the program exits with 0 and leaves no process."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tools_search_server.access.principals import new_token, token_hash

pytestmark = pytest.mark.anyio

TOKEN = new_token()
PRINCIPALS = {"alice": {"token": token_hash(TOKEN)}}

SECONDS = 90
"""Bounds each test; all of them are done in a fraction of it."""

STOP_SECONDS = 8
"""Bounds the stop of a gateway whose servers have to be killed, on a machine that does much else."""

PLAIN: tuple[str, ...] = ()
META = ("--compat", "meta-tools")
LISTS = ("--compat", "list-changed")
BOTH = (*META, *LISTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stubborn").mkdir()
    return tmp_path


@pytest.fixture
def configured(folder: Path, raw: Any, versatile: Any) -> Callable[..., Path]:
    """Write the configuration of a server that stops as it should and one that does not."""

    def write(**members: Any) -> Path:
        entries = {"busy": versatile(folder), "stubborn": raw("stubborn", folder / "stubborn")}
        file = folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": entries, **members}))
        return file

    return write


def started(folder: Path) -> Sequence[int]:
    """Return the processes of the two servers and of what the second has started, or nothing before all are there."""
    stubborn = folder / "stubborn"
    files = [folder / "pid", stubborn / "pid", stubborn / "family"]
    pids = [int(pid) for file in files if file.exists() for pid in file.read_text().split()]
    return pids if len(pids) == 4 else ()


async def stops_clean(process: subprocess.Popen[str], number: int) -> None:
    """Send a signal, and see that the process ends soon, with exit code 0 and without a word about anything wrong."""
    began = time.monotonic()
    process.send_signal(number)
    _, errors = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=SECONDS))
    seconds = time.monotonic() - began
    assert process.returncode == 0, errors
    assert not number or f"stopping on {signal.Signals(number).name}" in errors
    assert not any(word in errors for word in ("Traceback", "ERROR", "gave up")), errors
    assert seconds < STOP_SECONDS


async def stay(url: str, mode: str, waits: Callable[[], Any], *, task_status: Any) -> None:
    """Hold a session or a subscription open, with a call under way, until the server ends it."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with suppress(Exception):
        async with (
            httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            anyio.create_task_group() as tasks,
        ):
            listed = [tool.name for tool in (await client.session.list_tools()).tools]
            name, arguments = "busy__wait", dict[str, Any]()
            if "call_tool" in listed:
                name, arguments = "call_tool", {"name": name, "arguments": arguments}
            if mode == "auto":
                tasks.start_soon(listen, client)
            tasks.start_soon(client.call_tool, name, arguments)
            await waits()
            task_status.started()


async def listen(client: Client) -> None:
    async with client.listen(tools_list_changed=True) as events:
        async for _ in events:
            pass


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("options", "number"),
    [
        (PLAIN, signal.SIGINT),
        (BOTH, signal.SIGTERM),
        ((*META, "--stateless"), signal.SIGHUP),
        (("--lazy",), signal.SIGTERM),
    ],
    ids=str,
)
async def test_a_gateway_on_http_stops_clean_with_sessions_streams_and_calls_open(
    servers: Any,
    configured: Callable[..., Path],
    folder: Path,
    is_alive: Callable[[int], bool],
    until: Any,
    options: Sequence[str],
    number: signal.Signals,
) -> None:
    file = configured(**({"principals": PRINCIPALS} if options == PLAIN else {}))
    arguments = ["-m", "tools_search_server", "--http", "127.0.0.1:0", "--config", str(file), *options]
    with anyio.fail_after(SECONDS):
        process = servers.start(*arguments, stderr=subprocess.PIPE)
        urls = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))
        async with anyio.create_task_group() as tasks:
            for url in urls.values():
                for mode in ("legacy", "auto"):
                    (folder / "waiting").unlink(missing_ok=True)
                    await tasks.start(stay, url, mode, lambda: until((folder / "waiting").exists))
            await until(lambda: bool(started(folder)) or "--lazy" in options)
            pids = started(folder)
            await stops_clean(process, number)
            assert not any(map(is_alive, pids))
            tasks.cancel_scope.cancel()


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("options", "ending"),
    [(PLAIN, "end of input"), (PLAIN, signal.SIGINT), (META, signal.SIGTERM), (LISTS, signal.SIGHUP)],
    ids=str,
)
async def test_a_gateway_on_stdio_stops_clean_with_a_call_open(
    servers: Any,
    configured: Callable[..., Path],
    folder: Path,
    is_alive: Callable[[int], bool],
    until: Any,
    options: Sequence[str],
    ending: Any,
) -> None:
    reading, writing = os.pipe()
    arguments = ["-m", "tools_search_server", "--config", str(configured()), *options]
    asked: dict[str, Any] = {"name": "busy__wait", "arguments": {}}
    named: dict[str, Any] = {"name": "call_tool", "arguments": asked} if options == META else asked
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": named},
    ]
    with anyio.fail_after(SECONDS):
        process = servers.start(*arguments, stdin=reading, stderr=subprocess.PIPE)
        os.close(reading)
        os.write(writing, b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages))
        await until(lambda: bool(started(folder)) and (folder / "waiting").exists())
        pids = started(folder)
        if ending == "end of input":
            os.close(writing)
        await stops_clean(process, 0 if ending == "end of input" else ending)
        if ending != "end of input":
            os.close(writing)
    assert not any(map(is_alive, pids))


@pytest.mark.rotating
async def test_signals_while_it_stops_change_nothing_to_the_last_moment(
    servers: Any,
    configured: Callable[..., Path],
    folder: Path,
    is_alive: Callable[[int], bool],
    until: Any,
) -> None:
    numbers = itertools.cycle([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    arguments = ["-m", "tools_search_server", "--http", "127.0.0.1:0", "--config", str(configured())]
    with anyio.fail_after(SECONDS):
        process = servers.start(*arguments, stderr=subprocess.PIPE)
        await until(lambda: bool(started(folder)))
        pids = started(folder)
        while process.poll() is None:
            process.send_signal(next(numbers))
            await anyio.sleep(0.001)
        _, errors = process.communicate()
    assert (process.returncode, "Traceback" in errors) == (0, False), errors
    assert not any(map(is_alive, pids))


async def test_the_catalog_server_stops_clean_with_sessions_and_subscriptions_open(servers: Any) -> None:
    async def ready() -> None:
        pass

    with anyio.fail_after(SECONDS):
        process = servers.start("-m", "tools_search_server", "--http", "127.0.0.1:0", stderr=subprocess.PIPE)
        url = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))["url"]
        async with anyio.create_task_group() as tasks:
            for mode in ("legacy", "auto"):
                await tasks.start(stay, url, mode, ready)
            await stops_clean(process, signal.SIGINT)
            tasks.cancel_scope.cancel()


async def test_clients_that_do_not_read_their_answers_do_not_delay_the_end(servers: Any) -> None:
    def asks_without_reading(url: str, connection: socket.socket) -> None:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        session = httpx2.post(url, json=greeting, headers=accept, timeout=SECONDS).headers["mcp-session-id"]
        body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        headers = {"Host": "localhost", "Content-Length": len(body), "Mcp-Session-Id": session, **accept}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        place = httpx2.URL(url)
        connection.connect((place.host, place.port))
        connection.setblocking(False)
        while select.select([], [connection], [], 3)[1]:
            connection.send(f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode() * 100)

    with anyio.fail_after(SECONDS), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        arguments = ["-m", "tools_search_server", "--http", "127.0.0.1:0", "--page-size", "1000"]
        process = servers.start(*arguments, stderr=subprocess.PIPE)
        url = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))["url"]
        await anyio.to_thread.run_sync(asks_without_reading, url, connection)
        await stops_clean(process, signal.SIGTERM)


async def test_a_check_that_is_interrupted_leaves_no_process(
    servers: Any, configured: Callable[..., Path], raw: Any, folder: Path, is_alive: Callable[[int], bool], until: Any
) -> None:
    file = configured()
    document = json.loads(file.read_text())
    document["mcpServers"]["hanging"] = raw("hanging")
    file.write_text(json.dumps(document))
    with anyio.fail_after(SECONDS):
        process = servers.start("-m", "tools_search_server", "--config", str(file), "--check", stderr=subprocess.PIPE)
        await until(lambda: bool(started(folder)))
        pids = started(folder)
        process.send_signal(signal.SIGINT)
        _, errors = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=SECONDS))
    assert "Traceback" not in errors
    assert not any(map(is_alive, pids))


async def test_servers_that_heed_the_end_of_their_input_do_not_outlive_a_gateway_that_is_killed(
    servers: Any, configuration: Any, raw: Any, is_alive: Callable[[int], bool], until: Any, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    file = configuration(**{folder.name: raw("good", folder) for folder in folders})
    with anyio.fail_after(SECONDS):
        process = servers.start("-m", "tools_search_server", "--http", "127.0.0.1:0", "--config", str(file))
        await until(lambda: all((folder / "pid").exists() for folder in folders))
        pids = [int((folder / "pid").read_text()) for folder in folders]
        process.kill()
        await until(lambda: not any(map(is_alive, pids)))
