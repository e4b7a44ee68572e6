"""The configurations of hosts on this machine: found, offered, and chosen by the host's name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the user and the working folder be new ones."""
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project / ".git"):
        folder.mkdir(parents=True)
    for variable in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "TOOLS_SEARCH_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return home


def write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))


def test_without_a_choice_every_configuration_is_offered_and_nothing_is_started(run: Run, home: Path, liar: Any):
    server = liar()
    write(home / ".cursor/mcp.json", {"mcpServers": {"one": server.as_configured(), "off": {"disabled": True}}})
    write(home / ".config/Code/User/settings.json", '{"mcp": {"servers": {"two": {"command": "x"}}}, /* mine */}')
    write(home / ".config/zed/settings.json", {"theme": "dark"})
    write(home / ".codex/config.toml", "[broken")
    write(Path(".mcp.json"), {"mcpServers": {"three": {"command": "x"}}})
    shown = run("servers", "--json").json["configurations"]
    assert [(file["host"], file["scope"], file["option"], file["servers"]) for file in shown] == [
        ("codex", "user", "--host codex", []),
        ("cursor", "user", "--host cursor", ["one"]),
        ("vscode", "user", "--host vscode", ["two"]),
        ("claude-code", "project", "--config .mcp.json", ["three"]),
    ]
    assert "it is not TOML" in shown[0]["problem"]
    outcome = run("servers")
    assert outcome.code == 0
    assert "~/.cursor/mcp.json: one" in outcome.output
    assert "tools-search-client servers --host cursor" in outcome.errors
    assert server.asked() == []


def test_a_file_is_offered_once_where_the_working_folder_is_the_home(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
):
    write(home / ".cursor/mcp.json", {"mcpServers": {"one": {"command": "x"}}})
    monkeypatch.chdir(home)
    (shown,) = run("servers", "--json").json["configurations"]
    assert shown["option"] == "--host cursor"


def test_where_there_is_no_configuration_that_is_said(run: Run, home: Path):
    outcome = run("servers")
    assert (outcome.code, outcome.output) == (0, "")
    assert "No configuration of a known MCP host" in outcome.errors


def test_a_host_is_chosen_by_its_name(run: Run, home: Path, liar: Any):
    write(home / ".cursor/mcp.json", {"mcpServers": {"one": liar().as_configured()}})
    assert [server["server"] for server in run("servers", "--host", "cursor", "--json").json["servers"]] == ["one"]


def test_the_project_in_the_working_folder_counts_for_the_file_of_the_user(run: Run, home: Path, liar: Any):
    mine = {"mcpServers": {"here": liar().as_configured()}}
    write(home / ".claude.json", {"projects": {str(Path.cwd()): mine, "/else": {"mcpServers": {"b": {}}}}})
    for option in (("--host", "claude-code"), ("--config", str(home / ".claude.json"))):
        assert [server["server"] for server in run("servers", *option, "--json").json["servers"]] == ["here"]


def test_a_host_whose_only_file_is_that_of_the_project_is_not_taken_for_the_users(run: Run, home: Path, liar: Any):
    server = liar()
    write(Path(".cursor/mcp.json"), {"mcpServers": {"theirs": server.as_configured()}})
    outcome = run("tools", "--host", "cursor")
    assert outcome.code == 2
    assert "if you trust the project's file, use --config .cursor/mcp.json" in outcome.errors
    assert server.asked() == []


@pytest.mark.usefixtures("home")
def test_a_host_without_a_file_says_where_it_was_looked_for(run: Run):
    outcome = run("tools", "--host", "vscode")
    assert outcome.code == 2
    assert "VS Code has no servers in ~/.config/Code/User/mcp.json nor ~/.config/Code/User/settings" in outcome.errors


def test_a_command_without_a_choice_names_those_that_are_here(run: Run, home: Path):
    write(home / ".cursor/mcp.json", {"mcpServers": {"one": {"command": "x"}}})
    outcome = run("search", "alpha")
    assert outcome.code == 2
    assert "(available here: --host cursor)" in outcome.errors


def test_the_environment_names_a_configuration_and_an_option_goes_before_it(
    run: Run, home: Path, liar: Any, monkeypatch: pytest.MonkeyPatch
):
    write(home / "mine.json", {"mcpServers": {"mine": liar().as_configured()}})
    write(home / ".cursor/mcp.json", {"mcpServers": {"theirs": liar().as_configured()}})
    monkeypatch.setenv("TOOLS_SEARCH_CONFIG", str(home / "mine.json"))
    assert [server["server"] for server in run("servers", "--json").json["servers"]] == ["mine"]
    assert [server["server"] for server in run("servers", "--json", "--host", "cursor").json["servers"]] == ["theirs"]


def test_a_file_that_cannot_be_read_is_reported_and_leaves_the_others(run: Run, home: Path):
    loop = home / ".cursor/mcp.json"
    loop.parent.mkdir()
    loop.symlink_to(loop)
    (home / ".codex/config.toml").mkdir(parents=True)
    (home / ".config").write_text("a file in the place of the folder")
    write(home / ".claude.json", {"mcpServers": {"one": {"command": "x"}}})
    shown = run("servers", "--json").json["configurations"]
    assert [(file["host"], file["problem"]) for file in shown] == [
        ("claude-code", None),
        ("codex", "it cannot be read: Is a directory"),
        ("cursor", "it cannot be read: Too many levels of symbolic links"),
    ]
    outcome = run("tools", "--host", "cursor")
    assert outcome.code == 2
    assert f"{loop} cannot be used:\n  - it cannot be read: Too many levels" in outcome.errors


@pytest.mark.parametrize(
    ("host", "file", "document", "problem"),
    [
        ("claude-code", ".claude.json", {"mcpServers": 5}, "`mcpServers` must be an object"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", {"mcpServers": ["a"]}, "must be an object"),
        ("codex", ".codex/config.toml", "mcp_servers = 5", "must be an object"),
        ("cursor", ".cursor/mcp.json", {"mcpServers": {"a": {}}, "servers": {}}, "it has both `mcpServers` and"),
        ("goose", ".config/goose/config.yaml", "extensions: 5", "must be an object"),
        ("vscode", ".config/Code/User/mcp.json", {"servers": "a"}, "`servers` must be an object"),
        ("vscode", ".config/Code/User/settings.json", {"mcp": {"servers": 5}}, "must be an object"),
        ("zed", ".config/zed/settings.json", {"context_servers": [1]}, "must be an object"),
        (
            "zed",
            ".config/zed/settings.json",
            {"context_servers": {"a": {"enabled": False}}},
            "no server that is switched",
        ),
    ],
)
def test_a_file_whose_servers_cannot_be_read_says_why(
    run: Run, home: Path, host: str, file: str, document: object, problem: str
):
    write(home / file, document)
    (shown,) = run("servers", "--json").json["configurations"]
    assert (shown["host"], shown["servers"], problem in (shown["problem"] or "")) == (host, [], True), shown
    outcome = run("tools", "--host", host)
    assert outcome.code == 2
    assert problem in outcome.errors


def test_the_loop_of_one_host_does_not_matter_to_another_file(run: Run, home: Path, liar: Any):
    (home / ".claude.json").symlink_to(".claude.json")
    write(Path("mcp.json"), {"mcpServers": {"one": liar().as_configured()}})
    assert run("tools", "--config", "mcp.json").code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_entered_is_reported_and_leaves_the_others(run: Run, home: Path):
    write(home / ".claude.json", {"mcpServers": {"one": {"command": "x"}}})
    (home / ".config").mkdir(mode=0)
    shown = run("servers", "--json").json["configurations"]
    assert {file["problem"] for file in shown} == {None, "it cannot be read: Permission denied"}


@pytest.mark.parametrize("words", [("tools", "--config"), ("call", "x", "--yes", "--config"), ("stats", "--config")])
def test_links_that_form_a_loop_are_a_file_that_cannot_be_read(run: Run, home: Path, words: tuple[str, ...]):
    Path("loop.json").symlink_to("loop.json")
    outcome = run(*words, "loop.json")
    assert outcome.code == 2
    assert "loop.json cannot be used:\n  - it cannot be read: Too many levels of symbolic links" in outcome.errors


def test_a_file_that_a_variable_names_is_reported_with_the_variable(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLS_SEARCH_CONFIG", "gone.json")
    outcome = run("tools")
    assert outcome.code == 2
    assert "gone.json, which TOOLS_SEARCH_CONFIG names, cannot be used:" in outcome.errors
