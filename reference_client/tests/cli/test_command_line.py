"""The command line as a whole: help, errors as JSON, Ctrl-C while it is loaded, an output that nobody reads."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tools_search_client.cli.command_line import commands
from tools_search_hosts import HttpTarget
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE

from ..chat.terminal import Terminal  # noqa: TID252
from .conftest import Run, Write

PROGRAM = [sys.executable, "-m", "tools_search_client"]
HOMELESS = """
import os, pwd, runpy

def getpwuid(uid):
    raise KeyError(uid)

pwd.getpwuid = getpwuid  # as it does in a container that runs as a user unknown there
os.environ.pop("HOME", None)
runpy.run_module("tools_search_client", run_name="__main__")
"""
"""Runs the program for a user without a home folder."""

INTERRUPTED_IMPORT = """
import runpy, signal, sys

interrupted = sys.argv.pop(1)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == interrupted:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
runpy.run_module("tools_search_client", run_name="__main__")
"""
"""Runs the program and sends SIGINT when it is about to import a module."""


WITHOUT_A_SPINNER = """
import anyio
from tools_search_client.cli.command_line import commands, run
from tools_search_client.cli.running import run_until_signal

async def wait():
    await anyio.lowlevel.checkpoint()
    print("waiting")
    await anyio.sleep_forever()

commands.command("wait")(lambda: run_until_signal(wait))
run(["wait"])
"""
"""Waits for Ctrl-C, as a command does before it has shown anything."""

WHILE_LOADED = """
import runpy, sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            print("waiting", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Finder())
runpy.run_module("tools_search_client", run_name="__main__")
"""


INTERRUPTED_EXIT = """
import atexit, os, runpy, signal, sys

atexit.register(os.kill, os.getpid(), signal.SIGINT)
runpy.run_module("tools_search_client", run_name="__main__")
"""
"""Runs the program and sends SIGINT when the interpreter exits."""


@pytest.mark.parametrize("command", [(), ("search",), ("servers",), ("tools",), ("call",), ("demo",)])
def test_every_command_explains_itself(run: Run, command: tuple[str, ...]):
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert "Usage: tools-search-client" in outcome.output


@pytest.mark.parametrize("name", ["", *sorted(commands.commands)])
def test_the_help_of_every_command_fits_a_terminal_of_80_columns(run: Run, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*name.split(), "--help").output.splitlines()
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.rotating
@pytest.mark.parametrize("arguments", [["search", "x", "--host", "emacs"], ["call", "x", "{bad", "--command", "true"]])
def test_a_terminal_breaks_the_lines_of_a_usage_error_between_words(arguments: list[str]):
    piped = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=30, check=False)
    with closing(Terminal([*PROGRAM[1:], *arguments], {}, columns=60)) as terminal:
        code, shown = terminal.until_end()
    assert (code, piped.returncode) == (2, 2)
    assert max(map(len, piped.stderr.splitlines())) > 60 >= max(map(len, shown.splitlines()))
    assert shown.split() == piped.stderr.split()


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_every_command_can_print_json(name: str):
    assert "--json" in {option for each in commands.commands[name].params for option in each.opts}


def test_the_version_is_printed(run: Run):
    assert "tools-search-client" in run("--version").output


def test_the_program_runs_as_a_process(config: Path):
    program = [
        sys.executable,
        "-m",
        "tools_search_client",
        "search",
        "reverse a text",
        "--config",
        str(config),
        "--json",
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(done.stdout)["tools"][0]["name"] == "plain__reverse_text"
    assert done.stderr == ""


@pytest.mark.parametrize("imported", ["click", "mcp", "rich.console", "tools_search_client.cli.show"])
def test_ctrl_c_while_the_program_is_still_being_loaded_ends_it_in_one_line(imported: str) -> None:
    line = [sys.executable, "-c", INTERRUPTED_IMPORT, imported, "tools", "--url", "http://127.0.0.1:9/mcp"]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
    assert (shown.returncode, shown.stdout, shown.stderr.strip()) == (130, "", "Error: interrupted by SIGINT")


@pytest.mark.parametrize("program", [WITHOUT_A_SPINNER, WHILE_LOADED], ids=["without a spinner", "while loaded"])
def test_what_a_terminal_shows_of_ctrl_c_is_not_on_the_line_of_the_error(program: str) -> None:
    with closing(Terminal(["-c", program], {})) as terminal:
        terminal.until("waiting")
        terminal.interrupt()
        code, _ = terminal.until_end()
    shown = terminal.raw.replace("\r\n", "\n").split("\n")[-2].rpartition("\r")[2]
    assert (code, shown) == (130, "Error: interrupted by SIGINT")


def test_ctrl_c_while_a_file_is_read_ends_the_program_as_it_does_elsewhere(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "servers.json")
    program = [*PROGRAM, "tools", "--json", "--config", str(pipe)]
    # The pipe is open once the program reads it.
    with subprocess.Popen(program, stdout=-1, stderr=-1, text=True) as run, pipe.open("w"):
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=30)
    assert json.loads(output) == {"error": {"type": "Interrupted", "message": "interrupted by SIGINT"}}
    assert (run.returncode, errors.strip()) == (130, "Error: interrupted by SIGINT")


def test_ctrl_c_while_the_program_exits_ends_it_without_a_traceback() -> None:
    line = [sys.executable, "-c", INTERRUPTED_EXIT, "search", "x", "--config", "nowhere.json"]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
    assert shown.returncode == -signal.SIGINT
    assert shown.stderr.splitlines()[-1] == "  - it cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x"],
        ["search", "", "--command", "true"],
        ["search", "x", "--limit", "0", "--command", "true"],
        ["call", "x", "{bad", "--command", "true"],
        ["search", "x", "--config", "nowhere.json"],
        ["nothing"],
    ],
)
def test_programs_get_every_mistake_as_json(run: Run, arguments: list[str]) -> None:
    outcome = run(*arguments, "--json")
    assert outcome.code == 2
    message = outcome.json["error"]["message"]
    assert message
    assert message.splitlines()[0] in outcome.errors


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["servers"], 0, "No configuration of a known MCP host was found"),
        (["servers", "--host", "cursor"], 2, "Cursor has no servers in ~/.cursor/mcp.json"),
        (["tools", "--config", "PLAIN"], 0, ""),
        (["login", "--config", "PLAIN"], 0, "does not require signing in"),
    ],
)
def test_a_user_without_a_home_folder_has_no_files_there(
    words: list[str], code: int, said: str, plain_server: HttpTarget, write_configuration: Write
) -> None:
    file = write_configuration({"plain": {"url": plain_server.url}})
    line = [sys.executable, "-c", HOMELESS, *(str(file) if word == "PLAIN" else word for word in words)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr


@pytest.mark.rotating
@pytest.mark.parametrize("words", [["servers"], ["tools", "--config", "mcp.json"]])
def test_a_working_folder_that_is_gone_is_named(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    line = f"cd {tmp_path}/gone && rmdir ../gone && {shlex.join([*PROGRAM, *words])}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: the working folder no longer exists: change to one that does\n",
    )


def test_an_input_that_is_closed_is_a_mistake_like_others() -> None:
    line = [*PROGRAM, "call", "x", "-", "--command", "true", "--json"]
    closed_input = ["bash", "-c", 'exec "$@" <&-', "bash", *line]
    done = subprocess.run(closed_input, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    message = json.loads(done.stdout)["error"]["message"]
    assert "standard input is closed" in message
    assert message in done.stderr


@pytest.mark.rotating
@pytest.mark.parametrize(("asked", "code_of_result"), [("search x --json --config nowhere.json", 2), ("--version", 0)])
@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("| true; exit ${PIPESTATUS[0]}", 141, ""),
        (">/dev/full", 1, "cannot write to standard output: No space left"),
        (">&-", None, ""),
    ],
)
def test_an_output_that_cannot_be_written_is_no_crash(
    redirection: str, code: int | None, said: str, asked: str, code_of_result: int
) -> None:
    code = code_of_result if code is None else code
    line = f"{sys.executable} -m tools_search_client {asked} {redirection}"
    done = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert (done.returncode, "Traceback" in done.stderr, "Exception ignored" in done.stderr) == (code, False, False)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("module", "asked"), [("click", ["--version"]), ("httpx2", ["tools", "--url", "http://127.0.0.1:9/mcp"])]
)
def test_an_installation_without_the_programs_libraries_names_the_extra(module: str, asked: list[str]):
    without = (
        f"import sys; sys.modules[{module!r}] = None; from tools_search_client.__main__ import main; main({asked})"
    )
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"the module {module} is missing" in done.stderr
    assert f"{sys.executable} -m pip install 'mcp-ext-tools-search[client]'" in done.stderr


@pytest.mark.parametrize(
    ("asked", "completes", "answer"),
    [
        ("--help", False, "Show what the tools cost a model."),
        ("--version", False, "version"),
        ("search --help", False, f"`tool_discovery` in the configuration, or {DEFAULT_LEAST_CONFIDENCE}."),
        ("tools --config {file} --server o", True, "plain,one"),
        ("search x --config {file} --toolset f", True, "plain,few"),
        ("call --config {file} --t", True, "plain,--timeout"),
    ],
)
def test_help_and_completion_answer_without_loading_the_sdk_the_protocols_types_or_the_engine(
    write_configuration: Write, asked: str, completes: bool, answer: str
):
    file = write_configuration({"one": {"command": "x"}})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tool_sets": {"few": {"servers": {"one": True}}}}))
    words = asked.format(file=file).split()
    complete = {
        "_TOOLS_SEARCH_CLIENT_COMPLETE": "bash_complete",
        "COMP_WORDS": shlex.join(["tools-search-client", *words]),
        "COMP_CWORD": str(len(words)),
    }
    program = (
        "import atexit, sys; from tools_search_client.__main__ import main; "
        "atexit.register(lambda: print({'mcp', 'mcp_types', 'numpy', 'httpx2'} & {*sys.modules}, file=sys.stderr)); "
        f"main({[] if completes else words})"
    )
    environment = os.environ | {"COLUMNS": "200"} | (complete if completes else {})
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert done.stderr == "set()\n"
    assert answer in " ".join(done.stdout.split())
