"""Completion by the shell: what is offered, and that nothing is started for it."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from tools_search_client.cli.completion import SeenNames, complete_argument
from tools_search_hosts import HttpTarget

from .conftest import Run, Write

BASH = """
eval "$(_TOOLS_SEARCH_CLIENT_COMPLETE=bash_source tools-search-client)"
compopt() { echo "$2"; }  # only possible while a person completes
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tools_search_client_completion tools-search-client 2>&1
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Completes a line, which is given in the words that bash divides it into, and prints what it asks of bash before."""

ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -Uz compinit; compinit -u -D'
zpty -w shell 'eval "$(_TOOLS_SEARCH_CLIENT_COMPLETE=zsh_source tools-search-client)"'
zpty -w shell "complete_it() { zle complete-word; print -r -- \\$BUFFER > completed; exit }; zle -N complete_it"
zpty -w shell "bindkey '^I' complete_it"
zpty -w -n shell "$1"$'\\t'
while zpty -t shell; do zpty -r shell > /dev/null; done
cat completed
"""
"""Completes a line as a person would, with the tab key, and prints the line after that."""

FISH = """
_TOOLS_SEARCH_CLIENT_COMPLETE=fish_source tools-search-client | source
complete --do-complete $argv[1]
"""
"""Prints the words that the last one of a line can become."""


@pytest.fixture
def complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what the shell is offered for the last word of a line."""

    def offered(*words: object, shell: str = "bash") -> list[str]:
        line = ["tools-search-client", *map(str, words)]
        with monkeypatch.context() as environment:
            environment.setenv("_TOOLS_SEARCH_CLIENT_COMPLETE", f"{shell}_complete")
            environment.setenv("COMP_WORDS", shlex.join(line))
            environment.setenv("COMP_CWORD", line[-1] if shell == "fish" else str(len(line) - 1))
            lines = run().output.split()
        return lines[1::3] if shell == "zsh" else [kind_and_value.partition(",")[2] for kind_and_value in lines]

    return offered


def test_servers_and_toolsets_are_those_of_the_configuration(
    complete: Any, write_configuration: Write, liar: Any, monkeypatch: pytest.MonkeyPatch
):
    server = liar()
    file = write_configuration({"one": server.as_configured(), "other": {"command": "x"}})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tool_sets": {"few": {"servers": {"one": True}}}}))
    assert complete("tools", "--config", file, "--server", "o") == ["one", "other"]
    assert complete("tools", "--config", file, "--server", "one") == ["one"]
    assert complete("search", "x", "--config", file, "--toolset", "f") == ["few"]
    assert complete("chat", "--config", file, "--toolset", "f") == ["few"]
    monkeypatch.setenv("TOOLS_SEARCH_CONFIG", str(file))
    assert complete("tools", "--server", "on") == ["one"]
    assert server.asked() == []


def test_tools_are_those_that_an_earlier_command_saw(complete: Any, run: Run, write_configuration: Write, liar: Any):
    server = liar(tools=3)
    file = write_configuration({"one": server.as_configured()})
    assert complete("call", "--config", file, "one") == []
    assert run("search", "alpha", "--config", file, "--limit", "1").code == 0
    assert complete("describe", "--config", file, "one") == ["one__make_alpha"]
    run("tools", "--config", file)
    before = server.asked()
    assert sorted(complete("call", "--config", file, "one__make")) == [
        "one__make_alpha",
        "one__make_beta",
        "one__make_gamma",
    ]
    assert complete("call", "--config", file, "make_b") == ["make_beta"]
    content = {"mcpServers": {"other": liar(tools=1).as_configured(), "one": server.as_configured()}}
    file.write_text(json.dumps(content | {"tool_sets": {"few": {"servers": {"other": True}}}}))
    run("tools", "--config", file, "--server", "other")
    run("tools", "--config", file, "--toolset", "few")
    assert complete("call", "--config", file, "make_b") == ["make_beta"], "of a server that was left out"
    assert server.asked() == before


def test_a_configuration_that_cannot_be_read_offers_nothing(complete: Any, tmp_path: Path):
    (tmp_path / "broken.json").write_text("{")
    assert complete("tools", "--config", tmp_path / "broken.json", "--server", "") == []
    assert complete("call", "--config", tmp_path / "nowhere.json", "") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_value_of_an_option_is_offered_with_the_option_where_the_shell_replaces_both(
    complete: Any, write_configuration: Write, shell: str
):
    file = write_configuration({"one": {"command": "x"}})
    assert complete("tools", f"--config={file}", "--server=o", shell=shell) == ["--server=one"]
    assert complete("tools", f"--config={file}", "--server", "o", shell=shell) == ["one"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_tool_is_offered_in_each_form_of_its_name(
    complete: Any, run: Run, write_configuration: Write, liar: Any, shell: str
):
    file = write_configuration({"one": liar(tools=2).as_configured()})
    run("tools", "--config", file)
    for begun, offered in (
        ("one__make_a", "one__make_alpha"),
        ("make_a", "make_alpha"),
        ("one:make_a", "one:make_alpha"),
    ):
        assert complete("call", "--config", file, begun, shell=shell) == [offered]


def test_login_offers_servers(complete: Any, write_configuration: Write):
    file = write_configuration({"one": {"url": "http://127.0.0.1:9/mcp"}})
    assert complete("login", "--config", file, "o") == ["one"]


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tools --config={file} --server=o", "one"),
        ("tools --config={file} --server=", "one"),
        ("describe --config {file} one:make_a", "make_alpha"),
        ("describe --config {file} one:", "make_alpha"),
        ("call --url {url} add_n", "add_numbers"),
        ("call x @al", "@alpha.json"),
        ("call x @be", r"@beta\ gamma.json"),
        ("call x y=1 @su", "nospace\n@sub/"),
        ("call x y=al", "default\n"),
    ],
)
def test_bash_which_divides_words_gets_the_part_that_it_replaces(
    tmp_path: Path, run: Run, write_configuration: Write, liar: Any, plain_server: HttpTarget, line: str, offered: str
):
    (tmp_path / "alpha.json").write_text("{}")
    (tmp_path / "beta gamma.json").write_text("{}")
    (tmp_path / "sub").mkdir()
    file = write_configuration({"one": liar(tools=1).as_configured()})
    run("tools", "--config", file)
    run("tools", "--url", plain_server.url)
    typed = "tools-search-client " + line.format(file=file, url=plain_server.url)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = ["bash", "--norc", "-c", BASH, "bash", *re.findall("[=:@]+|[^ =:@]+", typed)]
    done = subprocess.run(
        shell, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path, env=os.environ | {"PATH": path}
    )
    assert (done.stdout, done.stderr) == (f"{offered}\n", "")


def test_links_that_form_a_loop_offer_nothing(complete: Any, tmp_path: Path):
    (tmp_path / "loop.json").symlink_to("loop.json")
    assert complete("tools", "--config", tmp_path / "loop.json", "--server", "") == []
    assert complete("call", "--config", tmp_path / "loop.json", "") == []


def test_no_file_is_offered_for_an_argument_that_is_json_or_has_no_value_yet(complete: Any):
    assert [complete("call", "x", begun) for begun in ("", "path", "path:=al")] == [[], [], []]


def test_a_file_is_offered_also_where_its_name_has_a_line_break():
    command = click.Context(click.Command("call"))
    for begun in ("@two\nlines", "path=two\nlines"):
        (offered,) = complete_argument(command, click.Argument(["arguments"]), begun)
        assert (offered.value, offered.type) == ("two\nlines", "file")


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("begun", "word"),
    [
        ("tools --config=al", "--config=alpha.json"),
        ("tools --config=of_a=sub/be", "--config=of_a=sub/beta.json"),
        ("tools --config of_a=sub/be", "of_a=sub/beta.json"),
        ("call x @al", "@alpha.json"),
        ("call x y=1 path=of_a=sub/be", "path=of_a=sub/beta.json"),
        ("call x path=a,b/c", "path=a,b/c.json"),
    ],
)
@pytest.mark.parametrize(("shell", "script"), [("zsh", ZSH), ("fish", FISH)])
def test_a_file_is_completed_after_an_equals_sign_and_an_at_sign_as_well(
    tmp_path: Path, shell: str, script: str, begun: str, word: str
):
    for name in ("alpha.json", "of_a=sub/beta.json", "a,b/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    completed = completed_by(shell, script, f"tools-search-client {begun}", tmp_path)
    # zsh prints the line, and quotes the second "="
    assert completed.replace("\\", "").split()[-1] == word


def test_fish_shows_the_whole_help_of_an_option(tmp_path: Path):
    offered = completed_by("fish", FISH, "tools-search-client search --least", tmp_path)
    assert "Default: `tool_discovery` in the configuration, or 0.02." in offered


def completed_by(shell: str, script: str, line: str, folder: Path) -> str:
    """Return what the script prints for a line in a folder."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [shell, *(["-f", "-c", script, "zsh"] if shell == "zsh" else ["--no-config", "-c", script]), line],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=folder,
        env=os.environ | {"PATH": path, "TERM": "xterm", "ZDOTDIR": str(folder), "HOME": str(folder)},
    ).stdout


def test_names_that_cannot_be_written_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        SeenNames("mcp.json").remember([])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [*(tmp_path / "tools-search-client").iterdir()] == []


def test_names_that_a_killed_command_left_unfinished_are_removed_by_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = SeenNames("mcp.json")
    names.remember([])
    (kept,) = (tmp_path / "tools-search-client").iterdir()
    start = (
        "import os, signal, sys; from pathlib import Path; from tools_search_client.cli.completion import SeenNames; "
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL); SeenNames('mcp.json').remember([])"
    )
    killed = subprocess.run([sys.executable, "-c", start], timeout=60, check=False)
    (left,) = {*kept.parent.iterdir()} - {kept}
    os.utime(left, (0, 0))
    names.remember([])
    assert killed.returncode == -signal.SIGKILL
    assert [*kept.parent.iterdir()] == [kept]
