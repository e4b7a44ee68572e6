"""Tables on a terminal."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest
from rich.cells import cell_len
from tools_search_client.cli import output

from ..chat.terminal import Terminal  # noqa: TID252
from .conftest import Run

PROGRAM = [sys.executable, "-m", "tools_search_client"]
SCRIPTS = shlex.join([sys.executable, str(Path(__file__).parents[1] / "fixtures" / "servers" / "scripts.py")])


def test_on_a_terminal_rows_are_aligned_and_explained(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    outcome = run("search", "add two numbers", "--config", config, "--limit", "2")
    output = click.unstyle(outcome.output)
    assert "asking the servers" in outcome.errors
    heading, first, detail = output.splitlines()[:3]
    assert heading.index("by") == first.index("list")
    assert detail == "    Add two numbers."
    assert max(map(len, output.splitlines())) <= 80


LONG_PROGRESS = """
import sys
from tools_search_client.cli import output

with output.waiting("calling") as show:
    show("calling " + "long " * int(sys.argv[1]))
    sys.stdin.readline()
"""


@pytest.mark.parametrize("words", [1, 50])
def test_a_message_of_a_server_about_its_progress_takes_one_line_with_room_for_what_ctrl_c_shows(words: int):
    with closing(Terminal(["-c", LONG_PROGRESS, str(words)], {}, columns=40)) as terminal:
        terminal.until("calling long")
        terminal.enter("")
        code, _ = terminal.until_end()
    lines = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", terminal.raw).replace("\r", "\n").splitlines()
    shown = [line for line in lines if "long" in line]
    assert (code, {line.split()[1] for line in shown}) == (0, {"calling"})
    assert {line[-1] for line in shown} == {"…" if words > 1 else "g"}
    assert max(map(cell_len, shown)) <= 40 - len("^C")


@pytest.mark.parametrize("columns", ["1", "6", "20", "40", "80"])
@pytest.mark.parametrize("asked", [("search", "add two numbers"), ("servers",), ("tools",)])
def test_no_terminal_is_too_narrow_for_whole_names_and_figures(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch, columns: str, asked: tuple[str, ...]
):
    cells = [line.split("\t") for line in run(*asked, "--config", config).output.splitlines()]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", columns)
    outcome = run(*asked, "--config", config)
    assert outcome.code == 0
    shown = click.unstyle(outcome.output)
    for heading, *column in zip(*cells, strict=True):
        if heading not in {"description", "ms"}:
            assert all(cell in shown for cell in [heading, *column])


def test_the_columns_of_a_narrow_terminal_are_aligned_on_each_line(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    lines = click.unstyle(run("tools", "--config", config).output).splitlines()
    assert lines[:2] == ["tool                 server", "    effect"]
    assert lines[2:4] == ["one__make_alpha      one", "    unknown"]


def test_a_single_long_name_leaves_the_other_rows_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    long = "a_name_of_more_than_half_of_the_width"
    rows = [("add", "one", "reads"), (long, "one", "writes"), ("sum", "two", "")]
    output.print_table(("tool", "server", "effect"), rows)
    assert click.unstyle(capsys.readouterr().out).splitlines() == [
        "tool  server  effect",
        "add   one     reads",
        long,
        "      one     writes",
        "sum   two",
    ]


def test_a_line_of_wide_characters_ends_with_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    detail = click.unstyle(run("tools", "--command", SCRIPTS).output).splitlines()[2]
    assert cell_len(detail) <= 40
    assert detail.endswith("…")


def test_every_script_is_readable_in_what_a_tool_takes(run: Run):
    assert run("describe", "forecast", "--command", SCRIPTS).output.splitlines()[-1].split("\t")[:3] == [
        "城市",
        "string",
        'default "東京"',
    ]
    refused = run("call", "forecast", "城市:=3", "--command", SCRIPTS)
    assert '城市 (string, default "東京")' in refused.errors


@pytest.mark.rotating
@pytest.mark.parametrize("command", ["tools", "call forecast --yes"])
def test_an_encoding_without_a_character_is_no_crash(command: str):
    line = [*PROGRAM, *command.split(), "--command", SCRIPTS]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u" in done.stdout


DESCRIBED = """
from typing import Annotated
from mcp.server.mcpserver import MCPServer
from pydantic import Field

server = MCPServer("described")


@server.tool()
def ship(to: Annotated[str, Field(description="Where it goes. " * 5 + "No post office box: 漢字漢字漢字漢字漢字")]):
    return to


server.run()
"""


@pytest.mark.rotating
@pytest.mark.parametrize("columns", [3, 20, 40])
def test_describe_shows_what_is_said_of_a_parameter_in_full(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
):
    (tmp_path / "server.py").write_text(DESCRIBED, encoding="utf-8")
    program = shlex.join([sys.executable, str(tmp_path / "server.py")])
    whole = run("describe", "ship", "--command", program).output.splitlines()[-1].split("\t")[-1]
    assert whole.endswith("No post office box: 漢字漢字漢字漢字漢字")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = click.unstyle(run("describe", "ship", "--command", program).output)
    detail = shown.rpartition("required")[2].splitlines()
    assert "".join("".join(detail).split()) == "".join(whole.split())
    assert columns < 10 or max(map(cell_len, detail)) <= columns
