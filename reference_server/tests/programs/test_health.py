"""What operators see of a gateway: its health, its status, the output of a check, and its log."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from click.testing import CliRunner, Result
from mcp import Client
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from starlette.applications import Starlette
from tools_search_server.compat.always_available import ALWAYS_VARIABLE
from tools_search_server.programs.cli import command
from tools_search_server.programs.health import health_route
from tools_search_server.programs.log import log_to_stderr

pytestmark = pytest.mark.anyio

SECONDS = 30
SECRET = "s3cret-and-long-enough"  # noqa: S105


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools_search_server", *arguments], env=os.environ | (env or {}),
        capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def ask_status(url: str, *options: str) -> Result:
    return CliRunner().invoke(command, ["status", "--url", url, *options])


def health_of(url: str) -> dict[str, Any]:
    answer = httpx2.get(url.replace("/mcp", "/healthz"), trust_env=False)
    assert answer.status_code == 200
    return answer.json()


async def until_settled(url: str) -> dict[str, Any]:
    while (health := await anyio.to_thread.run_sync(health_of, url))["starting"]:  # noqa: ASYNC110
        await anyio.sleep(0.05)
    return health


@pytest.fixture
def telling(raw: Any) -> dict[str, Any]:
    """A server whose error repeats the key that it was given."""
    source = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    e = {'code': -32000, 'message': 'bad key ' + os.environ['KEY'] + '\\x1b[2J'}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': e}), flush=True)\n"
    )
    return {"command": sys.executable, "args": ["-c", source], "env": {"KEY": SECRET}}


async def test_health_tells_the_state_of_each_server_and_status_shows_it(
    servers: Any, configuration: Any, raw: Any, telling: dict[str, Any], kill: Any, tmp_path: Path
) -> None:
    file = configuration(
        good=raw("good", tmp_path),
        crashing=raw("crashing"),
        closed={"url": f"http://127.0.0.1:9/{SECRET}/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
        telling=telling,
        stuck=raw("hanging") | {"startup_timeout_sec": 0.5},
    )
    with anyio.fail_after(SECONDS):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
        health = await until_settled(url)
        by_name: dict[str, dict[str, Any]] = {server["name"]: server for server in health["servers"]}
        shown = await anyio.to_thread.run_sync(ask_status, url)
        as_json = await anyio.to_thread.run_sync(ask_status, url, "--json")
    assert (health["status"], health["tools"], health["ready"], health["down"]) == ("degraded", 1, 1, 4)
    good = by_name["good"]
    assert (good["state"], good["transport"], good["tools"], good["protocol"]) == ("ready", "stdio", 1, "2025-11-25")
    assert good["since"].endswith("+00:00")
    assert by_name["crashing"]["reason"].startswith("it ended with exit code 1")
    assert by_name["stuck"]["reason"] == "it did not answer within 0.5 s; if it needs longer, set `startup_timeout_sec`"
    advice = "start the server, or correct `url`"
    assert by_name["closed"]["reason"] == f"nothing answers at http://127.0.0.1:9; {advice}"
    assert by_name["telling"]["reason"] == 'it answered with error -32000: "bad key … [2J"'
    assert SECRET not in json.dumps(health)
    assert shown.exit_code == as_json.exit_code == 1
    assert json.loads(as_json.stdout)["servers"] == health["servers"]
    assert "degraded: 1 ready, 0 idle, 0 starting, 4 down, 1 tool\n" in shown.stdout
    [row] = [line for line in shown.stdout.splitlines() if line.startswith("crashing")]
    assert row.split()[1] == "down"
    assert "it ended with exit code 1" in row


async def test_health_changes_with_the_servers(
    servers: Any, configuration: Any, raw: Any, kill: Any, tmp_path: Path
) -> None:
    file = configuration(good=raw("good", tmp_path))
    with anyio.fail_after(SECONDS):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
        assert (await until_settled(url))["status"] == "ok"
        assert (await anyio.to_thread.run_sync(ask_status, url)).exit_code == 0
        kill(tmp_path)
        while (health := health_of(url))["status"] == "ok":  # noqa: ASYNC110 - another process sets no events
            await anyio.sleep(0.02)
        assert health["servers"][0]["state"] == "down"
        while health_of(url)["status"] != "ok":  # noqa: ASYNC110
            await anyio.sleep(0.02)


@pytest.mark.parametrize(("peer", "sees"), [("127.0.0.1", True), ("::1", True), ("192.0.2.7", False), ("", False)])
async def test_only_callers_on_the_same_machine_learn_which_servers_there_are(peer: str, sees: bool) -> None:
    app = Starlette(routes=[health_route(lambda: {"status": "ok", "down": 1, "servers": [{"name": "private"}]})])
    transport = httpx2.ASGITransport(app, client=(peer, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        health = (await client.get("/healthz")).json()
    assert ("servers" in health) == sees
    assert health["down"] == 1


def test_status_says_what_is_wrong_with_the_address(unused_tcp_port: int) -> None:
    closed = ask_status(f"http://127.0.0.1:{unused_tcp_port}/mcp")
    assert (closed.exit_code, closed.stdout) == (1, "")
    assert "no gateway answers" in closed.stderr
    none = ask_status("127.0.0.1")
    assert none.exit_code == 2
    assert "is not a URL" in none.stderr


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"{}"])
async def test_status_says_when_something_else_answers(body: bytes) -> None:
    async def answer(client: SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with anyio.fail_after(SECONDS):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, answer)
            url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610 - of anyio
            asked = await anyio.to_thread.run_sync(ask_status, url)
            assert asked.exit_code == 1
            assert "is not a tools-search gateway (HTTP 200)" in asked.stderr
            tasks.cancel_scope.cancel()


def test_a_check_says_what_each_server_offers_and_leaves_nothing_running(
    configuration: Any, raw: Any, versatile: Any, is_alive: Callable[[int], bool], tmp_path: Path
) -> None:
    checked = run("--check", "--config", str(configuration(good=raw("good", tmp_path))))
    assert checked.returncode == 0, checked.stderr
    assert "good\n  tools: plain\n" in checked.stdout
    assert not is_alive(int((tmp_path / "pid").read_text()))
    unset = {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}}
    file = configuration(busy=versatile(tmp_path), missing={"command": "no-such"}, unset=unset)
    partly = run("--check", "--config", str(file), env={ALWAYS_VARIABLE: "busy__ask, plane"})
    assert partly.returncode == 1
    assert "'no-such' was not found" in partly.stdout
    assert "NOT_SET_ANYWHERE" in partly.stdout
    assert "busy\n  tools: ask, count, " in partly.stdout
    assert "`always_available` names 'plane', but no tool has that name" in partly.stdout
    assert "'busy__ask'" not in partly.stdout
    assert not is_alive(int((tmp_path / "pid").read_text()))
    # Names of tools stay whole.
    offered = partly.stdout.split("\nbusy\n")[1].splitlines()
    assert offered == [line.rstrip() for line in offered]
    assert max(map(len, offered)) <= 100
    # The log for people speaks of servers and not of modules.
    assert "INFO busy is ready" in partly.stderr
    assert "tools_search_server." not in partly.stderr


@pytest.mark.rotating
@pytest.mark.parametrize("as_json", [False, True])
def test_a_check_counts_the_tools_of_a_large_server_and_names_only_some(
    configuration: Any, raw: Any, tmp_path: Path, as_json: bool
) -> None:
    tools = [{"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(5_000)]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    file = configuration(large=raw("stated", tmp_path))
    checked = run("--check", *(["--json"] if as_json else []), "--config", str(file))
    assert checked.returncode == 0, checked.stderr
    if as_json:
        assert len(json.loads(checked.stdout)["servers"][0]["tools"]) == 5_000
    else:
        assert "tools: tool_0, tool_1, " in checked.stdout
        assert "and 4900 more" in " ".join(checked.stdout.split())
        assert "tool_100" not in checked.stdout


@pytest.mark.rotating
@pytest.mark.parametrize("lazy", [False, True])
async def test_a_server_with_a_mistake_in_its_entry_costs_itself_alone(
    configuration: Any, raw: Any, servers: Any, tmp_path: Path, lazy: bool
) -> None:
    unset = {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}}
    file = configuration(good=raw("good", tmp_path), unset=unset, mistyped={"comand": "x"})
    with anyio.fail_after(SECONDS):
        options = ["--config", str(file), *(["--lazy"] if lazy else [])]
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*options))
        health = await until_settled(url)
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            assert (await client.list_tools()).tools
    told = {server["name"]: (server["state"], server["reason"] or "") for server in health["servers"]}
    assert told["unset"][0] == told["mistyped"][0] == "down"
    assert "`env.KEY`: the environment variable NOT_SET_ANYWHERE is not set: set it" in told["unset"][1]
    assert "did you mean `command`?" in told["mistyped"][1]


@pytest.mark.parametrize(
    ("also", "told"),
    [
        ({"toolsets": {"some": {"nobody": True}}}, "`toolsets.some.nobody`"),
        ({"principals": {"ada": {"toolset": "none"}}}, "`principals.ada"),
        ({"principal": {}}, "did you mean `principals`?"),
    ],
)
def test_a_mistake_in_what_says_who_sees_what_refuses_the_whole_file(
    also: dict[str, Any], told: str, raw: Any, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"good": raw("good", tmp_path)}, **also}))
    refused = CliRunner().invoke(command, ["--config", str(file), "--http", "127.0.0.1:0"])
    assert (refused.exit_code, told in refused.stderr) == (2, True)


def test_a_check_is_an_object_for_programs(configuration: Any, raw: Any, tmp_path: Path) -> None:
    file = str(configuration(good=raw("good", tmp_path), missing={"command": "no-such"}))
    checked = run("--check", "--json", "--config", file, env={ALWAYS_VARIABLE: "plane"})
    told = json.loads(checked.stdout)
    good, missing = told["servers"]
    assert (checked.returncode, told["ok"], told["unknownAlwaysAvailable"]) == (1, False, ["plane"])
    assert (good["state"], good["tools"], missing["tools"]) == ("ready", ["plain"], [])
    assert "was not found" in missing["reason"]


NODES_END = "set API_KEY\\n    at Module.load (loader:1) {\\n  code: 1\\n}\\n\\nNode.js v20.0.0"
"""An error as Node prints it."""


@pytest.mark.rotating
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("end", ["set API_KEY", NODES_END])
def test_a_check_shows_the_last_line_of_a_server_that_ended(configuration: Any, as_json: bool, end: str) -> None:
    words = f"import sys; print('starting', file=sys.stderr); sys.exit('{end}')"
    file = str(configuration(keyless={"command": sys.executable, "args": ["-c", words]}))
    checked = run("--check", *(["--json"] if as_json else []), "--config", file)
    assert checked.returncode == 1
    if as_json:
        assert json.loads(checked.stdout)["servers"][0]["lastOutput"] == "set API_KEY"
    else:
        assert "\nkeyless\n  last output: set API_KEY\n" in checked.stdout


async def test_a_check_that_is_told_to_stop_leaves_nothing_running(
    servers: Any, configuration: Any, raw: Any, is_alive: Callable[[int], bool], until: Any, tmp_path: Path
) -> None:
    file = configuration(stuck=raw("hanging", tmp_path))
    process = servers.start("-m", "tools_search_server", "--check", "--config", str(file))
    with anyio.fail_after(SECONDS):
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(process.wait, SECONDS) == 1
    assert "starting" in process.stdout.read()
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_check_needs_a_configuration() -> None:
    refused = CliRunner().invoke(command, ["--check"])
    assert refused.exit_code == 2
    assert "--config" in refused.stderr


@pytest.mark.parametrize("arguments", [["--config", "{}"], ["--http", "127.0.0.1:0", "--config={}"]])
def test_a_gateway_that_would_start_itself_is_refused(configuration: Any, arguments: list[str], tmp_path: Path) -> None:
    mine = [argument.format(tmp_path / "mcp.json") for argument in arguments]
    file = configuration(tools={"command": "tools-search-server", "args": mine}, other={"command": "no-such"})
    refused = CliRunner().invoke(command, ["--config", str(file), "--check"])
    assert refused.exit_code == 2
    assert "server 'tools': is a gateway for this same file" in refused.stderr


def test_links_that_form_a_loop_in_the_arguments_of_a_server_are_its_own_matter(
    configuration: Any, tmp_path: Path
) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    file = configuration(tools={"command": "no-such", "args": ["--config", str(loop)]})
    checked = run("--check", "--config", str(file))
    assert checked.returncode == 1
    assert "no-such" in checked.stdout


async def test_the_json_log_holds_the_states_of_servers_and_nothing_of_requests(
    servers: Any, configuration: Any, raw: Any, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(SECONDS), log.open("w") as stderr:
        file = configuration(good=raw("good"), bad={"command": "no-such"}, crashing=raw("crashing"))
        arguments = ("--log-format", "json", "--config", str(file))
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments, stderr=stderr))
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            assert (await search_tools(client, f"plain {SECRET}")).tools
            await client.session.call_tool("good__plain", {"query": SECRET})
            with pytest.raises(Exception, match="Unknown tool"):
                await client.session.call_tool(SECRET, {})
        servers.running[-1].send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(servers.running[-1].wait, SECONDS) == 0
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= entry.keys() for entry in entries)
    states = {entry["server"]: (entry["state"], entry["level"]) for entry in entries if "state" in entry}
    assert states == {"good": ("ready", "info"), "bad": ("down", "warning"), "crashing": ("down", "warning")}
    assert ("crashing", "crashing: I always crash") in {(entry.get("server"), entry["message"]) for entry in entries}
    assert SECRET not in log.read_text()


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_tells_where_the_program_failed_and_not_what_it_was_sent(
    form: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log_to_stderr(form)
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("any").exception("it failed")
    logged = capsys.readouterr().err
    assert "it failed" in logged
    assert "in test_the_log_tells_where_the_program_failed_and_not_what_it_was_sent" in logged
    assert "ValueError" in logged
    assert SECRET not in logged
    if form == "json":
        assert json.loads(logged)["level"] == "error"


async def test_each_server_has_its_own_limit_for_a_call(gateway: Any, versatile: Any, tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with gateway("auto", slow=versatile(tmp_path) | {"tool_timeout_sec": 0.2}) as client:
            with pytest.raises(Exception, match="did not answer in time"):
                await client.session.call_tool("slow__wait", {})


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("options", "mode", "warnings"),
    [(["--check"], 0o646, 1), (["--check"], 0o600, 0), (["--http", "127.0.0.1:0"], 0o666, 1)],
)
def test_a_configuration_that_others_can_change_is_warned_of_in_one_line(
    servers: Any, configuration: Any, raw: Any, options: Sequence[str], mode: int, warnings: int
) -> None:
    file: Path = configuration(good=raw("good"))
    file.chmod(mode)
    process = servers.start("-m", "tools_search_server", "--config", str(file), *options, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=SECONDS)
    lines = [line for line in errors.splitlines() if "WARNING" in line]
    assert len(lines) == warnings, errors
    for line in lines:
        assert f"{file} can be changed by all users of this machine (mode {mode:04o})" in line
        assert f"run `chmod go-w {file}`" in line
