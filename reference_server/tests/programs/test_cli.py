"""The command line: its help, its refusals and its exit codes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tools_search_hosts.messages import MAX_MESSAGE_BYTES
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE
from tools_search_server.programs.cli import command

SECONDS = 30


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tools_search_server", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)


def refused(*arguments: str, **env: str) -> str:
    """Return what the program says before it ends with 2, having printed nothing."""
    ended = CliRunner().invoke(command, arguments, env=env)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert isinstance(ended.exception, SystemExit)
    return ended.stderr


def test_help_shows_how_to_start() -> None:
    shown = CliRunner().invoke(command, ["--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []
    for word in ("--config FILE", "--catalog FILE", "--http HOST:PORT", "Examples:", "Exit codes:"):
        assert word in shown.stdout


@pytest.mark.parametrize(("module", "extra"), [("minilm", "semantic"), ("universal", "multilingual")])
def test_ranking_by_meaning_without_its_extra_is_refused_with_what_to_install(
    module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_name: str) -> None:
        pass

    monkeypatch.setattr(f"tools_search_ranking.semantic.{module}.find_spec", nothing)
    says = refused(f"--{extra}")
    assert f"--{extra} cannot be used" in says
    assert f"pip install '.[{extra}]'" in says


@pytest.mark.parametrize("imported", ["click", "mcp", "uvicorn", "tools_search_server.gateway.gateway"])
def test_ctrl_c_while_the_program_is_still_being_loaded_ends_it_in_one_line(imported: str) -> None:
    interrupted = """
import runpy, signal, sys

last = sys.argv.pop()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == last:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
runpy.run_module("tools_search_server", run_name="__main__")
"""
    shown = subprocess.run(
        [sys.executable, "-c", interrupted, imported], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (shown.returncode, shown.stdout, shown.stderr.strip()) == (130, "", "Error: interrupted by SIGINT")


def test_the_version_is_that_of_the_distribution() -> None:
    assert CliRunner().invoke(command, ["--version"]).stdout.startswith("tools-search-server, version ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--config", "a", "--catalog", "b"], "select different servers"),
        (["--http", "8000"], "is not HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "is not HOST:PORT"),
        (["--http", "0.0.0.0:0"], "--allow-remote"),
        (["--http", "example.com:0"], "--allow-remote"),
        (["--catalog", "/nonexistent/c.json"], "/nonexistent/c.json"),
        (["--config", "/nonexistent/mcp.json"], "/nonexistent/mcp.json"),
        (["--cursor-key-file", "/nonexistent/key"], "/nonexistent/key"),
        (["--call-timeout", "nan"], "'nan' is not a number"),
        (["mcp.json"], "use --config or --catalog"),
    ],
)
def test_what_has_to_be_mended_first_ends_with_2_and_names_it(arguments: list[str], says: str) -> None:
    assert says in refused(*arguments)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"TOOLS_SEARCH_CURSOR_KEY": "short"}, "TOOLS_SEARCH_CURSOR_KEY"),
        ({"TOOLS_SEARCH_DELAY_MS": "1.5"}, "TOOLS_SEARCH_DELAY_MS"),
        ({"TOOLS_SEARCH_CATALOG": "/nonexistent/c.json"}, "/nonexistent/c.json"),
    ],
)
def test_an_environment_that_has_to_be_mended_first_ends_with_2(env: dict[str, str], says: str) -> None:
    assert says in refused(**env)


def test_a_configuration_with_a_mistake_in_what_callers_may_see_starts_nothing(tmp_path: Path) -> None:
    witness = tmp_path / "started"
    toucher = {"command": sys.executable, "args": ["-c", f"open({str(witness)!r}, 'w')"]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"fine": toucher}, "toolsets": {"reading": {"wrong": True}}}))
    assert "wrong" in refused("--config", str(file))
    assert not witness.exists()


def test_a_port_that_is_taken_ends_with_1_and_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run("--http", f"127.0.0.1:{port}")
    assert ended.returncode == 1
    advice = "the address is already in use. Choose another port, or 0 for any free one."
    assert f"cannot serve on 127.0.0.1:{port}: {advice}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_requests_may_come_from_a_file_and_answers_go_to_one(tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    requests.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}))
    with requests.open() as source, answers.open("w") as sink:
        ended = subprocess.run(
            [sys.executable, "-m", "tools_search_server"], stdin=source, stdout=sink, timeout=SECONDS, check=False
        )
    assert ended.returncode == 0
    assert json.loads(answers.read_text())["id"] == 1


def test_a_host_that_stops_reading_is_the_end(servers: Any) -> None:
    process = servers.start("-m", "tools_search_server", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n")
    process.stdin.flush()
    assert process.wait(SECONDS) == 0
    assert "Traceback" not in process.stderr.read()
    process.stdin.close()
    process.stderr.close()
    servers.running.remove(process)


def test_a_large_answer_arrives_whole() -> None:
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "tools_search_server", "--page-size", "1000"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in (1, 2)]
        process.stdin.close()
        assert process.wait(SECONDS) == 0
    assert len(answers[1]["result"]["tools"]) >= 200


def test_the_first_line_on_stdout_is_the_url_and_nothing_follows(servers: Any) -> None:
    process = servers.start("-m", "tools_search_server", "--http", "localhost:0")
    assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    assert process.stdout.read() == ""


def test_ipv6_and_remote_addresses_are_served_when_meant(servers: Any) -> None:
    six = servers.start("-m", "tools_search_server", "--http", "[::1]:0")
    assert json.loads(six.stdout.readline())["url"].startswith("http://[::1]:")
    remote = servers.start("-m", "tools_search_server", "--http", "0.0.0.0:0", "--allow-remote")
    assert json.loads(remote.stdout.readline())["url"].startswith("http://0.0.0.0:")


@pytest.mark.parametrize("redirection", ["<&-", ">&-"])
def test_a_closed_stream_is_explained_where_it_is_the_wire(redirection: str) -> None:
    line = f"exec {sys.executable} -m tools_search_server {redirection}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 1
    assert "cannot serve on stdio: it is closed" in ended.stderr


@pytest.mark.parametrize("redirection", [">&-", "| true"])
def test_a_check_whose_result_nobody_can_read_ends_without_a_traceback(redirection: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"ends": {"command": "false"}}}')
    line = f"exec {sys.executable} -m tools_search_server --check --config {file} {redirection}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "WARNING ends is down" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_url_that_nobody_can_read_does_not_keep_the_server_from_serving(unused_tcp_port: int) -> None:
    line = f"exec {sys.executable} -m tools_search_server --http 127.0.0.1:{unused_tcp_port} >&-"
    with subprocess.Popen(["bash", "-c", line], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + SECONDS
        with socket.socket() as probe:
            while probe.connect_ex(("127.0.0.1", unused_tcp_port)) != 0:
                assert process.poll() is None
                assert time.monotonic() < deadline
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_an_output_that_takes_nothing_is_named_as_the_reason() -> None:
    line = f"exec {sys.executable} -m tools_search_server --http 127.0.0.1:0 >/dev/full"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--compat", "meta-tools"], "--compat requires --config."),
        (["--config", "FILE", "--compat", "meta-tools", "--compat", "list-changed"], "stdio has only one endpoint"),
        (["--config", "FILE", "--compat", "meta-tools", "--compat-prefix", "a__"], "is not a valid prefix"),
        (["--config", "FILE", "--compat", "both"], "'meta-tools', 'list-changed', 'auto'"),
        (["--search", "prompts"], "--search requires --config: a catalog file itself determines what can be searched."),
        (
            ["--config", "FILE", "--search", "prompts,tools"],
            "'tools' is not one of 'resources', 'contents', 'prompts'.",
        ),
    ],
)
def test_modes_that_cannot_be_served_are_refused_with_the_reason(
    configuration: Any, raw: Any, options: list[str], says: str
) -> None:
    file: Path = configuration(one=raw("good"))
    argv = [str(file) if option == "FILE" else option for option in options]
    assert says in " ".join(refused(*argv).split())


def test_an_installation_without_the_programs_libraries_names_the_extra():
    without = (
        "import sys; sys.modules['click'] = None; from tools_search_server.__main__ import main; main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "the module click is missing" in done.stderr
    assert f"{sys.executable} -m pip install 'mcp-ext-tools-search[server]'" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config", "absent.json", "--check"),
        ("status", "--database", "absent"),
    ],
)
def test_each_command_gives_an_invalid_configuration_the_same_type_in_json(arguments: tuple[str, ...]):
    ended = run(*arguments, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["error"]["type"]) == (2, "ConfigurationError")


@pytest.mark.parametrize(
    ("asked", "completes", "answer"),
    [
        ("--help", False, f"default {DEFAULT_LEAST_CONFIDENCE}."),
        ("--help", False, f"[default: {MAX_MESSAGE_BYTES // 1024**2};"),
        ("--version", False, "version"),
        ("status --help", False, "Show the servers of a running gateway"),
        ("import --help", False, "Replace the tools of a catalog in a database"),
        ("--compat-m", True, "plain,--compat-max-tools"),
        ("re", True, "plain,reindex"),
    ],
)
def test_help_and_completion_answer_without_loading_the_sdk_the_protocols_types_or_the_engine(
    asked: str, completes: bool, answer: str
):
    words = asked.split()
    complete = {
        "_TOOLS_SEARCH_SERVER_COMPLETE": "bash_complete",
        "COMP_WORDS": shlex.join(["tools-search-server", *words]),
        "COMP_CWORD": str(len(words)),
    }
    program = (
        "import atexit, sys; from tools_search_server.__main__ import main; "
        "atexit.register(lambda: print({'mcp', 'mcp_types', 'numpy', 'httpx2'} & {*sys.modules}, file=sys.stderr)); "
        f"main({[] if completes else words})"
    )
    environment = os.environ | {"COLUMNS": "200"} | (complete if completes else {})
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert done.stderr == "set()\n"
    assert answer in " ".join(done.stdout.split())
