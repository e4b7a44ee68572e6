"""The front door: connections that say nothing, requests that never end and forged headers keep nobody out."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from starlette.responses import Response
from tools_search_server.access.principals import new_token, token_hash
from tools_search_server.base.address import Address
from tools_search_server.programs.http_server import HttpServer
from tools_search_server.programs.serving import listening

pytestmark = pytest.mark.anyio

TOKENS = {"alice": new_token(), "bob": new_token()}
SECONDS = 90
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": GREETING}
SHOWN = {"Authorization": f"Bearer {TOKENS['alice']}", "Accept": "application/json, text/event-stream"}


@pytest.fixture
def start(servers: Any, raw: Any, tmp_path: Path) -> Callable[..., tuple[subprocess.Popen[str], str, Path]]:
    """Start a gateway that may open so many files; return it, its URL and the file that takes its log."""

    def started(files: int, *, names: int = 1) -> tuple[subprocess.Popen[str], str, Path]:
        folders = [tmp_path / f"server{number}" for number in range(names)]
        for folder in folders:
            folder.mkdir()
        file = tmp_path / "mcp.json"
        entries = {folder.name: raw("good", folder) for folder in folders}
        principals = {name: {"token": token_hash(token)} for name, token in TOKENS.items()}
        file.write_text(json.dumps({"mcpServers": entries, "principals": principals}))
        log = tmp_path / "log"
        with log.open("w") as errors:
            process = servers.start(
                *("-m", "tools_search_server", "--http", "127.0.0.1:0", "--config", str(file)),
                stderr=errors,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
            )
        return process, json.loads(process.stdout.readline())["url"], log

    return started


@contextmanager
def connections(url: str, count: int, said: bytes = b"") -> Generator[list[socket.socket]]:
    """Open connections on which no whole request comes."""
    place = httpx2.URL(url)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        opened = [stack.enter_context(socket.create_connection((place.host, place.port or 0))) for _ in range(count)]
        for each in opened:
            each.sendall(said)
        yield opened


def opens_session(url: str, **headers: str) -> int:
    """Ask as a principal, and return the status."""
    return httpx2.post(url, json=INITIALIZE, headers=SHOWN | headers, timeout=SECONDS, trust_env=False).status_code


def says(url: str, request: bytes) -> bytes:
    """Send bytes and return all that is answered until the connection is closed."""
    place = httpx2.URL(url)
    with socket.create_connection((place.host, place.port or 0), timeout=SECONDS) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.rotating
@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "], ids=["idle", "half-open"])
async def test_callers_are_served_and_servers_restarted_while_connections_without_a_request_use_up_all_descriptors(
    start: Any, kill: Callable[[Path], int], until: Any, tmp_path: Path, said: bytes
) -> None:
    folder = tmp_path / "server0"
    with anyio.fail_after(SECONDS):
        process, url, log = await anyio.to_thread.run_sync(start, 1024)
        await until((folder / "pid").exists)
        with connections(url, 1300, said):
            for _ in range(10):
                assert await anyio.to_thread.run_sync(opens_session, url) == 200
            killed = kill(folder)
            await until(lambda: (folder / "pid").read_text() not in ("", str(killed)))
            await until(lambda: "connections: " in log.read_text())
            assert await anyio.to_thread.run_sync(opens_session, url) == 200
            open_files = len(os.listdir(f"/proc/{process.pid}/fd"))  # noqa: PTH208
    assert open_files < 700
    [line] = [line for line in log.read_text().splitlines() if "connections: " in line]
    assert "without a complete request closed to make room, as all 512 were in use" in line
    assert "Traceback" not in log.read_text()


async def test_a_request_that_is_not_whole_in_time_is_closed_and_a_connection_between_two_requests_is_kept(
    start: Any,
) -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    body = head + b"Content-Length: 9\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in SHOWN.items()) + b"\r\n1"
    with anyio.fail_after(SECONDS):
        _, url, log = await anyio.to_thread.run_sync(start, 1024)
        place = httpx2.URL(url)
        with (
            closing(HTTPConnection(place.host, place.port, timeout=SECONDS)) as used,
            connections(url, 20) as mute,
            connections(url, 20, head) as begun,
            connections(url, 20, body) as cut_off,
        ):
            assert await anyio.to_thread.run_sync(status_on, used) == 401
            for each in (*mute, *begun, *cut_off):
                each.settimeout(SECONDS)
                assert await anyio.to_thread.run_sync(closes, each)
            used.auto_open = 0
            assert await anyio.to_thread.run_sync(status_on, used) == 401
    assert "Traceback" not in log.read_text()


async def test_a_connection_whose_response_was_read_slowly_is_kept_between_requests_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools_search_server.programs.http_server._REQUEST_SECONDS", 1)
    app = Response(b"x" * 32 * 1024 * 1024)
    with anyio.fail_after(SECONDS), listening(Address("127.0.0.1", 0)) as listener:
        place: tuple[str, int] = listener.getsockname()
        async with HttpServer(app, descriptors=1024, is_local=True).opened(listener):

            def ask() -> None:
                with closing(HTTPConnection(*place, timeout=SECONDS)) as used:
                    assert status_on(used) == 200
                    # Its time begins after that of a wait for another request would have begun.
                    with socket.create_connection(place, timeout=SECONDS) as mute:
                        assert closes(mute)
                    used.auto_open = 0
                    assert status_on(used) == 200

            await anyio.to_thread.run_sync(ask)


async def test_the_number_of_connections_that_a_lack_of_descriptors_lowered_is_allowed_again_later(
    monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr("tools_search_server.programs.http_server._REPORT_SECONDS", 0.1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = HttpServer(Response(), descriptors=1024, is_local=True)
    with anyio.fail_after(SECONDS), listening(Address("127.0.0.1", 0)) as listener:
        async with server.opened(listener):
            with socket.create_connection(listener.getsockname()) as client:
                # No descriptor is left, until the limit is lowered once.
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(client.fileno(), 3), hard))
                try:
                    await until(lambda: server.max_connections == 16)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await until(lambda: server.max_connections == 512)


def status_on(connection: HTTPConnection) -> int:
    connection.request("POST", "/mcp")
    with connection.getresponse() as response:
        response.read()
        return response.status


def closes(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1)
    except ConnectionResetError:
        return True


@pytest.mark.rotating
async def test_callers_are_served_while_others_dribble_and_others_open_connections_without_end(start: Any) -> None:
    with anyio.fail_after(SECONDS):
        _, url, log = await anyio.to_thread.run_sync(start, 256)
        place = httpx2.URL(url)
        is_over = threading.Event()

        def flood() -> None:
            held: list[socket.socket] = []
            while not is_over.is_set():
                held.append(socket.create_connection((place.host, place.port or 0)))
                held[-1].sendall(b"GET")
                if len(held) == 300:
                    held.pop(0).close()
            for each in held:
                each.close()

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            statuses = [await anyio.to_thread.run_sync(opens_session, url) for _ in range(20)]
        finally:
            is_over.set()
            thread.join()
    assert statuses == [200] * 20
    assert "Traceback" not in log.read_text()
    assert len(log.read_text().splitlines()) < 30


async def test_more_servers_than_descriptors_do_not_fill_the_log(start: Any, until: Any) -> None:
    with anyio.fail_after(SECONDS):
        _, url, log = await anyio.to_thread.run_sync(lambda: start(40, names=12))
        with connections(url, 60):
            await until(lambda: "connections: " in log.read_text() or "Too many open files" in log.read_text())
    assert "socket.accept() out of system resource" not in log.read_text()


async def test_the_limit_of_open_files_is_raised_to_what_is_allowed(servers: Any) -> None:
    with anyio.fail_after(SECONDS):
        process = servers.start(
            *("-m", "tools_search_server", "--http", "127.0.0.1:0"),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048)),
        )
        await anyio.to_thread.run_sync(process.stdout.readline)
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (2048, 2048)


NAMES = [
    ({"Origin": "http://127.0.0.1:1@evil.example"}, 403),
    ({"Origin": "http://localhost:1@evil.example"}, 403),
    ({"Origin": "http://localhost:1.evil.example"}, 403),
    ({"Origin": "http://127.0.0.1.evil.example:80"}, 403),
    ({"Origin": "http://[::1]:1@evil.example"}, 403),
    ({"Origin": "http://localhost:80/path"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": ""}, 403),
    ({"Origin": "http://10.0.0.1:80"}, 403),
    ({"Origin": "http://localhost:6274"}, 200),
    ({"Origin": "http://[::1]:6274"}, 200),
    ({"Origin": "https://127.0.0.1"}, 200),
    ({"Host": "127.0.0.1:1@evil.example"}, 421),
    ({"Host": "localhost:80.evil.example"}, 421),
    ({"Host": "evil.example"}, 421),
    ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ({"Host": "localhost:9000"}, 200),
    ({"Host": "[::1]:9000"}, 200),
]


@pytest.mark.rotating
@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.0.0.2:0"])
def test_only_names_of_this_machine_are_accepted_as_host_and_origin(servers: Any, address: str) -> None:
    process = servers.start("-m", "tools_search_server", "--http", address)
    url = json.loads(process.stdout.readline())["url"]
    health = url.removesuffix("/mcp") + "/healthz"
    assert httpx2.get(health, trust_env=False).json() == {"status": "ok"}
    asked = [httpx2.get(health, headers=headers, trust_env=False).status_code for headers, _ in NAMES]
    opened = [opens_session(url, **headers) for headers, _ in NAMES]
    assert asked == opened == [status for _, status in NAMES]


def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(servers: Any) -> None:
    url = servers.start_http()
    second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    length = b"Content-Length: %d\r\n" % (5 + len(second))
    for lengths in (length + b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\n" + length):
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + lengths + b"\r\n"
        answer = says(url, head + b"0\r\n\r\n" + second)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.rotating
def test_a_principal_that_keeps_opening_sessions_is_refused_with_the_reason_and_others_are_not(start: Any) -> None:
    _, url, _ = start(1024)
    with httpx2.Client(headers=SHOWN, timeout=SECONDS, trust_env=False) as client:
        answers = [client.post(url, json=INITIALIZE) for _ in range(501)]
        assert [answer.status_code for answer in answers] == [200] * 500 + [429]
        assert "500 are open with this token" in answers[-1].text
        assert "DELETE" in answers[-1].text
        assert (
            client.post(url, json=INITIALIZE, headers={"Authorization": f"Bearer {TOKENS['bob']}"}).status_code == 200
        )
        session = answers[0].headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert client.post(url, json=ping, headers={"mcp-session-id": session}).status_code == 200
        assert client.delete(url, headers={"mcp-session-id": session}).status_code == 200
        assert client.post(url, json=INITIALIZE).status_code == 200


async def test_a_client_that_ends_its_session_with_messages_on_the_way_leaves_nothing_in_the_log(start: Any) -> None:
    process, url, log = start(512)
    statuses: list[int] = []
    limits = httpx2.Limits(max_connections=None)
    with anyio.fail_after(SECONDS):
        async with httpx2.AsyncClient(timeout=SECONDS, trust_env=False, limits=limits) as web:
            for _ in range(3):
                greeted = await web.post(url, json=INITIALIZE, headers=SHOWN)
                own = SHOWN | {
                    "Mcp-Session-Id": greeted.headers["mcp-session-id"],
                    "MCP-Protocol-Version": "2025-11-25",
                }
                is_first_accepted = anyio.Event()

                async def send(
                    message: dict[str, Any],
                    own: dict[str, str] = own,
                    is_first_accepted: anyio.Event = is_first_accepted,
                ) -> None:
                    sent = await web.post(url, json={"jsonrpc": "2.0"} | message, headers=own)
                    statuses.append(sent.status_code)
                    is_first_accepted.set()

                async with anyio.create_task_group() as tasks:
                    for number in range(40):
                        tasks.start_soon(send, {"method": "notifications/cancelled", "params": {"requestId": number}})
                    await is_first_accepted.wait()
                    tasks.start_soon(partial(web.delete, url, headers=own))
                    for number in range(40):
                        tasks.start_soon(send, {"id": number, "method": "ping"})
    process.terminate()
    process.communicate(timeout=SECONDS)
    assert set(statuses) >= {202, 404}
    assert "Error" not in log.read_text()
    assert "ERROR" not in log.read_text()
