"""Common behavior of the three programs on a terminal: help, errors as JSON, and machines where little works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import click.testing
import pytest
from tools_search_client.cli.command_line import commands as client
from tools_search_conformance.cli.cli import cli as conformance
from tools_search_server.programs.cli import command as server

PROGRAMS: Final = {
    "tools-search-server": server,
    "tools-search-client": client,
    "tools-search-conformance": conformance,
}
MODULES: Final = {name: name.replace("-", "_") for name in PROGRAMS}
NOWHERE: Final = "/nonexistent"
AS_NOBODY: Final = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
"""Root may write anywhere, so that what is forbidden is tried as somebody else."""


def _pages(words: Sequence[str], command: click.Command) -> Iterator[tuple[str, ...]]:
    yield tuple(words)
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _pages([*words, name], below)


PAGES: Final = [page for name, command in PROGRAMS.items() for page in _pages([name], command)]
JSON: Final = [
    ["tools-search-server", "status", "--url", "http://127.0.0.1:9/mcp", "--json"],
    ["tools-search-server", "status", "--json", "--no-such-option"],
    ["tools-search-server", "--config", f"{NOWHERE}/mcp.json", "--check", "--json"],
    ["tools-search-client", "servers", "--config", f"{NOWHERE}/mcp.json", "--json"],
    ["tools-search-client", "search", "--json", "--no-such-option"],
    ["tools-search-conformance", "server", "--json", "--effort", "quick", "--", f"{NOWHERE}/program"],
    ["tools-search-conformance", "client", "--json", "--", f"{NOWHERE}/driver"],
    ["tools-search-conformance", "server", "--json"],
    ["tools-search-conformance", "trace", f"{NOWHERE}/report.json", "--json"],
]


def run(
    words: Sequence[str], *, prefix: Sequence[str] = (), folder: Path | str = "/", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs with little more of an environment than what is given."""
    command = [*prefix, sys.executable, "-m", MODULES[words[0]], *words[1:]]
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return subprocess.run(
        command,
        cwd=folder,
        env={"HOME": NOWHERE, "LC_ALL": "C.UTF-8"} | inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
@pytest.mark.parametrize("columns", ["60", "100"])
def test_every_help_page_shows_an_example_and_no_stray_markup(page: tuple[str, ...], columns: str):
    done = click.testing.CliRunner().invoke(
        PROGRAMS[page[0]], [*page[1:], "--help"], prog_name=page[0], terminal_width=int(columns)
    )
    assert done.exit_code == 0
    assert not re.findall(r"\\(?!\n)", done.output)  # a command may go on in the next line
    assert all(character.isprintable() or character == "\n" for character in done.output)
    assert not re.findall(r"\w\.\.\.$", done.output, re.MULTILINE)
    assert "Start here:" in done.output or "Examples:" in done.output
    assert max(map(len, done.output.splitlines())) <= 110


@pytest.mark.parametrize("page", [page for page in PAGES if len(page) > 1], ids=" ".join)
def test_examples_on_a_help_page_are_commands_that_the_program_takes(page: tuple[str, ...]):
    shown = click.testing.CliRunner().invoke(PROGRAMS[page[0]], [*page[1:], "--help"], prog_name=page[0]).output
    begin = " ".join(page)
    assert any(line.strip().startswith(begin) for line in shown.partition("Examples:")[2].splitlines())


@pytest.mark.parametrize("words", JSON, ids=" ".join)
def test_with_json_an_error_is_an_object(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    main = import_module(f"{MODULES[words[0]]}.__main__").main
    monkeypatch.chdir(tmp_path)

    def code(*typed: str) -> int:
        monkeypatch.setattr(sys, "argv", list(typed))
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    plain = code(*(word for word in words if word != "--json"))
    assert (plain > 0, capsys.readouterr().out) == (True, "")
    assert code(*words) == plain
    told = capsys.readouterr()
    error = json.loads(told.out)["error"]
    assert set(error) == {"type", "message"}
    assert error["message"].split()[0] in told.err


def test_options_of_the_target_are_not_options_of_the_suite(tmp_path: Path):
    done = run(["tools-search-conformance", "server", "--", f"{NOWHERE}/program", "--json"], folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize("words", [["server", "--only", "advertised", "--", "x"], ["client", "--", "x"]])
def test_a_folder_for_reports_that_cannot_be_written_is_wrong_usage_and_named(words: list[str]):
    done = run(["tools-search-conformance", *words], prefix=AS_NOBODY, folder="/")
    assert done.returncode == 2
    assert "cannot write to the report folder 'conformance-report': Permission denied" in done.stderr
    assert "such as --out /" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["tools-search-conformance", "list"], 4),
        (["tools-search-conformance", "docs"], 4),
        (["tools-search-client", "--help"], 1),
        (["tools-search-server", "token", "alice"], 1),
    ],
    ids=str,
)
def test_a_full_disk_is_reported(words: list[str], code: int):
    command = ["sh", "-c", 'exec "$@" >/dev/full', "sh", sys.executable, "-m", MODULES[words[0]], *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert done.stderr == "Error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize(
    "words",
    [["tools-search-conformance", "list"], ["tools-search-conformance", "docs", "draft"]],
    ids=" ".join,
)
def test_a_closed_pipe_is_not_reported_as_a_verdict(words: list[str]):
    command = [sys.executable, "-m", MODULES[words[0]], *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(60) == 141
    assert said == ""


def test_the_texts_that_come_with_the_suite_are_listed_and_printed():
    def printed(*words: str, code: int = 0) -> str:
        done = click.testing.CliRunner().invoke(conformance, words, prog_name="tools-search-conformance")
        assert done.exit_code == code
        return done.stdout

    listed = json.loads(printed("docs", "--json"))
    assert {"draft", "driver", "skeleton", "server", "client", "host"} <= set(listed)
    overview = printed("docs")
    for name, entry in listed.items():
        assert printed("docs", name) == Path(entry["path"]).read_text(encoding="utf-8")
        assert entry["purpose"] in overview
    printed("docs", "nothing", code=2)
    assert listed["draft"]["path"] in printed("explain", "limit-invalid")
