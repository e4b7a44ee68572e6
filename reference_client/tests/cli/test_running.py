"""How the program ends when it is interrupted, misused or not listened to: an exit code, no traceback, nothing left."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytestmark = pytest.mark.anyio

PROGRAM = [sys.executable, "-m", "tools_search_client"]
STUBBORN = Path(__file__).parents[3] / "reference_server/tests/servers/raw.py"
Until = Callable[[Callable[[], bool]], Any]

INTERRUPTED_IMPORT = """
import runpy, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
runpy.run_module("tools_search_client", run_name="__main__")
"""
"""Runs the program and sends SIGINT when it is about to import a module."""


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_it_with_its_own_exit_code_and_leaves_no_process(
    liar: Any, write_configuration: Any, until: Until, number: signal.Signals
) -> None:
    server = liar("hangs")
    program = [*PROGRAM, "search", "x", "--json", "--config", str(write_configuration({"s": server.as_configured()}))]
    with anyio.fail_after(30):
        async with await anyio.open_process(program) as process:
            await until(lambda: bool(server.asked("tools/search")))
            process.send_signal(number)
            assert process.stdout is not None
            assert process.stderr is not None
            output = b"".join([chunk async for chunk in process.stdout])
            errors = b"".join([chunk async for chunk in process.stderr])
            code = await process.wait()
        await until(lambda: not is_alive(server.pid))
    assert (code, errors.decode()) == (128 + number, f"Error: interrupted by {number.name}\n")
    assert json.loads(output)["error"]["type"] == "InterruptionError"


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
async def test_servers_that_do_not_stop_are_ended_with_all_that_they_have_started(
    tmp_path: Path, until: Until, number: signal.Signals | None
) -> None:
    server = shlex.join([sys.executable, str(STUBBORN), "stubborn", str(tmp_path)])
    asked = ["search", "plain"] if number is None else ["call", "plain", "{}", "--yes"]
    notes = [tmp_path / "pid", tmp_path / "family"]
    with anyio.fail_after(60):
        async with await anyio.open_process([*PROGRAM, *asked, "--command", server], stdout=None) as process:
            await until(lambda: len([pid for note in notes if note.exists() for pid in note.read_text().split()]) == 3)
            pids = [int(pid) for note in notes for pid in note.read_text().split()]
            if number is not None:
                process.send_signal(number)
            await process.wait()
    assert not any(map(is_alive, pids))


def test_a_configuration_that_others_can_change_is_warned_of(write_configuration: Any, plain_server: Any) -> None:
    server = {"command": plain_server.command, "args": list(plain_server.args)}
    file: Path = write_configuration({"s": server})
    said: list[str] = []
    for mode in (0o666, 0o600):
        file.chmod(mode)
        line = [*PROGRAM, "search", "x", "--config", str(file)]
        said.append(subprocess.run(line, capture_output=True, text=True, timeout=30, check=False).stderr)
    assert f"Warning: {file} can be changed by all users of this machine (mode 0666)" in said[0]
    assert "Warning" not in said[1]


@pytest.mark.parametrize("imported", ["click", "mcp", "rich.console", "tools_search_client.cli.show"])
def test_ctrl_c_while_the_program_is_still_being_loaded_ends_it_in_one_line(imported: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, imported], capture_output=True, text=True, timeout=30, check=False
    )
    assert (shown.returncode, shown.stdout, shown.stderr) == (130, "", "Error: interrupted by SIGINT\n")


async def test_the_demo_is_interrupted_at_once_even_while_it_waits_for_another_program(
    tmp_path: Path, until: Until
) -> None:
    program = [*PROGRAM, "demo"]
    shown = tmp_path / "shown"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with anyio.fail_after(100), shown.open("wb") as output:
        async with await anyio.open_process(program, stdout=output, stderr=output, env=environment) as process:
            await until(lambda: "The verdict" in shown.read_text() and any(tmp_path.glob("tools-search-verdict-*")))
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(10):
                assert await process.wait() == 128 + signal.SIGTERM
    assert "Traceback" not in shown.read_text()
    assert names_in(tmp_path) == ["shown"]


async def test_a_question_is_interrupted_as_well(plain_server: Any) -> None:
    command = " ".join([plain_server.command, *plain_server.args])
    program = [*PROGRAM, "call", "add_numbers", '{"a": 1, "b": 2}', "--command", command]
    ours, theirs = pty.openpty()
    with anyio.fail_after(30):
        async with await anyio.open_process(program, stdin=theirs) as process:
            os.close(theirs)
            assert process.stderr is not None
            asked = b""
            while b"Call it?" not in asked:
                asked += await process.stderr.receive()
            while process.returncode is None:
                # One that comes just before the program waits for the answer is only heard with the next one.
                process.send_signal(signal.SIGINT)
                with anyio.move_on_after(5):
                    await process.wait()
            assert process.returncode == 128 + signal.SIGINT
    os.close(ours)


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x"],
        ["search", "", "--command", "true"],
        ["search", "x", "--limit", "0", "--command", "true"],
        ["call", "x", "{bad", "--command", "true"],
        ["search", "x", "--config", "nowhere.json"],
        ["nothing"],
        ["call", "x", "-", "--command", "true"],
    ],
)
def test_programs_get_every_mistake_as_json(arguments: list[str]) -> None:
    line = [*PROGRAM, *arguments, "--json"]
    closed_input = ["bash", "-c", 'exec "$@" <&-', "bash", *line]
    done = subprocess.run(closed_input, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    message = json.loads(done.stdout)["error"]["message"]
    assert message
    assert message.splitlines()[0] in done.stderr


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("| true; exit ${PIPESTATUS[0]}", 141, ""),
        (">/dev/full", 1, "cannot be written to standard output: No space left"),
        (">&-", 2, ""),
    ],
)
@pytest.mark.parametrize("asked", ["search x --json --config nowhere.json"])
def test_an_output_that_cannot_be_written_is_no_crash(redirection: str, code: int, said: str, asked: str) -> None:
    line = f"{sys.executable} -m tools_search_client {asked} {redirection}"
    done = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert (done.returncode, "Traceback" in done.stderr, "Exception ignored" in done.stderr) == (code, False, False)
    assert said in done.stderr


def test_where_nobody_can_be_asked_since_the_input_is_closed_a_tool_is_not_called(plain_server: Any) -> None:
    command = shlex.join([plain_server.command, *plain_server.args])
    line = [*PROGRAM, "call", "add_numbers", '{"a": 1, "b": 2}', "--command", command]
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", *line], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "add --yes" in done.stderr
