"""The configuration of each host, in the form that the host's own documentation shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools_search_hosts import (
    ConfigurationError,
    HostFile,
    HttpTarget,
    ServerEntry,
    StdioTarget,
    UnusableTarget,
    inspect_host_file,
    load_host_file,
)

CODEX = """
model = "gpt-5"
[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["LOCAL_TOKEN", {name = "OTHER", source = "local"}, "UNSET"]
startup_timeout_sec = 20
tool_timeout_sec = 45
enabled_tools = ["open"]
[mcp_servers.context7.env]
MY_ENV_VAR = "MY_ENV_VALUE"
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Figma-Region" = "us-east-1" }
env_http_headers = { "X-Trace" = "TRACE", "X-None" = "UNSET" }
[mcp_servers.off]
command = "off"
enabled = false
"""

ZED = """{
  // what Zed writes
  "theme": "One Dark",
  "context_servers": {
    "local": {"source": "custom", "command": "some-command", "args": ["a"], "env": null, "enabled": true},
    "older": {"source": "custom", "command": {"path": "old", "args": ["b"], "env": {"A": "1"}}, "settings": {}},
    "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer t"}},
    "extension": {"source": "extension", "settings": {"token": "x"}},
    "off": {"command": "x", "enabled": false},
  },
}"""

GOOSE = """
GOOSE_MODE: smart_approve
extensions:
  developer: {bundled: true, enabled: true, name: developer, timeout: 300, type: builtin}
  summon: {enabled: true, type: platform, name: summon}
  files:
    type: stdio
    name: files
    enabled: true
    cmd: npx
    args: ["-y", "server-filesystem", "/tmp"]
    env_keys: [FILES_TOKEN]
    envs: {LEVEL: "1"}
    timeout: 300
    description: null
  remote: {type: streamable_http, enabled: true, uri: "https://example.com/mcp", headers: {X-A: "${LEVEL:-2}"}}
  7: {type: stdio, enabled: true, cmd: seven, args: []}
  off: {type: stdio, enabled: false, cmd: x, args: []}
"""


def read(path: Path, text: str, environment: dict[str, str] | None = None, workspace: Path | None = None) -> HostFile:
    path.write_text(text)
    if workspace is None:
        return load_host_file(path, environment=environment or {})
    return inspect_host_file(path, environment=environment or {}, workspace=workspace)[0]


def test_codex_is_read_with_the_variables_that_it_passes_on(tmp_path: Path) -> None:
    environment = {"LOCAL_TOKEN": "l", "OTHER": "o", "FIGMA_TOKEN": "f", "TRACE": "t"}
    context7, figma = read(tmp_path / "config.toml", CODEX, environment).servers
    env = {"LOCAL_TOKEN": "l", "OTHER": "o", "MY_ENV_VAR": "MY_ENV_VALUE"}
    assert context7.target == StdioTarget("npx", ("-y", "@upstash/context7-mcp"), env)
    assert (context7.start_seconds, context7.call_seconds) == (20, 45)
    headers = {"X-Trace": "t", "Authorization": "Bearer f", "X-Figma-Region": "us-east-1"}
    assert figma.target == HttpTarget("https://mcp.figma.com/mcp", headers)
    assert isinstance(figma.target, HttpTarget)
    assert figma.target.expanded == {"FIGMA_TOKEN": "f", "TRACE": "t"}


def test_a_token_that_is_not_set_costs_that_server_alone(tmp_path: Path) -> None:
    file = read(tmp_path / "config.toml", CODEX)
    assert [problem.partition(": set")[0] for problem in file.problems] == [
        "server 'figma': `headers.Authorization`: the environment variable FIGMA_TOKEN, which `bearer_token_env_var` "
        "names, is not set"
    ]
    assert isinstance(file.servers[0].target, StdioTarget)


def test_a_token_in_place_of_its_variables_name_is_refused_and_not_printed(tmp_path: Path) -> None:
    codex = '[mcp_servers.a]\nurl = "https://h/mcp"\nbearer_token_env_var = "sk-s3cret"'
    with pytest.raises(ConfigurationError, match="must name an environment variable, not be its value") as refused:
        read(tmp_path / "config.toml", codex)
    assert "s3cret" not in str(refused.value)


def test_zed_is_read_in_its_present_and_its_older_form(tmp_path: Path) -> None:
    file = read(tmp_path / "settings.json", ZED)
    assert file.servers[:3] == (
        ServerEntry("local", StdioTarget("some-command", ("a",))),
        ServerEntry("older", StdioTarget("old", ("b",), {"A": "1"})),
        ServerEntry("remote", HttpTarget("https://example.com/mcp", {"Authorization": "Bearer t"})),
    )
    assert file.problems == ("server 'extension': needs `command` (to start it) or `url` (to reach it)",)


def test_goose_is_read_without_the_parts_of_goose_itself(tmp_path: Path) -> None:
    files, remote, seven = read(tmp_path / "config.yaml", GOOSE, {"FILES_TOKEN": "s"}).servers
    arguments = ("-y", "server-filesystem", "/tmp")  # noqa: S108 - of the example
    assert files == ServerEntry(
        "files", StdioTarget("npx", arguments, {"FILES_TOKEN": "s", "LEVEL": "1"}), call_seconds=300
    )
    assert remote.target == HttpTarget("https://example.com/mcp", {"X-A": "2"})
    assert (seven.name, seven.target) == ("7", StdioTarget("seven"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claude.json", '{"mcpServers": {"a": {"command": "x", "env": {"A": "${KEY"}}, "b": {"command": "x"}}}'),
        ("mcp.json", '{"servers": {"a": {"command": "x", "env": {"A": "${KEY"}}, "b": {"command": "x"}}}'),
        ("settings.json", '{"context_servers": {"a": {"command": "x", "env": {"A": "${KEY"}}, "b": {"command": "x"}}}'),
        ("config.toml", 'mcp_servers.a = {command = "x", env = {A = "${KEY"}}\nmcp_servers.b.command = "x"'),
        ("config.yaml", 'extensions: {a: {cmd: x, envs: {A: "${KEY"}}, b: {cmd: x}}'),
    ],
)
def test_a_variable_that_is_not_closed_costs_its_entry_in_every_format(tmp_path: Path, name: str, text: str) -> None:
    a, b = read(tmp_path / name, text, {"KEY": "k"}).servers
    assert isinstance(a.target, UnusableTarget)
    assert a.target.problems[0].startswith("`env.A`: `${KEY` is not closed")
    assert b.target == StdioTarget("x")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mcp.json", '{"mcpServers":\r\n{"a": {"command": "x"}}}'),
        ("config.toml", '[mcp_servers.a]\r\ncommand = "x"'),
        ("config.yaml", "extensions:\r\n  a: {cmd: x}"),
    ],
)
def test_a_file_written_on_windows_is_read_in_every_format(tmp_path: Path, name: str, text: str) -> None:
    (only,) = read(tmp_path / name, f"\ufeff{text}\r\n").servers
    assert only.target == StdioTarget("x")


@pytest.mark.parametrize(
    "settings",
    [
        {"mcp": {"inputs": [{"id": "k", "default": "d"}], "servers": {"a": {"command": "${input:k}"}}}},
        {"mcp.inputs": [{"id": "k", "default": "d"}], "mcp.servers": {"a": {"command": "${input:k}"}}},
    ],
)
def test_the_settings_of_vs_code_are_read_among_all_others(tmp_path: Path, settings: dict[str, Any]) -> None:
    [entry] = read(tmp_path / "settings.json", json.dumps({"editor.toolSet": 4, "principal": 1, **settings})).servers
    assert entry.target == StdioTarget("d")


def test_claude_code_has_the_servers_of_the_project_before_those_of_the_user(tmp_path: Path) -> None:
    project = {"mcpServers": {"b": {"command": "theirs"}, "c": {"command": "c"}}, "disabledMcpServers": ["a"]}
    document = {
        "mcpServers": {"a": {"command": "a"}, "b": {"command": "mine"}, "d": {"command": "d"}},
        "projects": {str(tmp_path / "one"): project, str(tmp_path / "two"): {"mcpServers": {"e": {"command": "e"}}}},
        "numStartups": 5,
    }

    def commands(workspace: str) -> dict[str, str]:
        file = read(tmp_path / ".claude.json", json.dumps(document), workspace=tmp_path / workspace)
        return {entry.name: entry.target.command for entry in file.servers if isinstance(entry.target, StdioTarget)}

    assert commands("one") == {"b": "theirs", "d": "d", "c": "c"}
    assert commands("elsewhere") == {"a": "a", "b": "mine", "d": "d"}


def test_claude_code_with_servers_of_other_projects_alone_says_where_they_count(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        "projects": {"/one": {"mcpServers": {"e": {"command": "e"}}}, "/two": {"mcpServers": {}}}
    }
    with pytest.raises(ConfigurationError, match=r"those of its projects count in their own folders: /one$"):
        read(tmp_path / ".claude.json", json.dumps(document))


def test_claude_code_with_a_project_but_no_usable_servers_says_so(tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    path.write_text(json.dumps({"mcpServers": 5, "projects": {str(tmp_path): {"mcpServers": {}}}}))
    _, problems = inspect_host_file(path, environment={}, workspace=tmp_path)
    assert problems == ["`mcpServers` must be an object from names to servers"]


@pytest.mark.parametrize("member", ["mcpServers", "servers"])
def test_a_file_in_the_common_form_may_have_settings_named_like_another_hosts_servers(
    tmp_path: Path, member: str
) -> None:
    text = json.dumps({member: {"a": {"command": "x"}}, "extensions": {"b": {"cmd": "y"}}})
    assert read(tmp_path / "mcp.json", text).servers == (ServerEntry("a", StdioTarget("x")),)


def test_the_project_is_the_folder_around_an_editors_or_the_one_that_is_given(tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "${workspaceFolder}|${workspaceFolderBasename}"}}})
    (tmp_path / ".cursor").mkdir()
    path = tmp_path / ".cursor" / "mcp.json"
    assert read(path, text).servers[0].target == StdioTarget(f"{tmp_path}|{tmp_path.name}")
    assert read(path, text, workspace=Path("/projects/one")).servers[0].target == StdioTarget("/projects/one|one")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("config.toml", "[mcp_servers\nkey = 's3cret'", "it is not TOML: .*line 1"),
        ("config.yaml", "extensions:\n  a: 's3cret\n", "it is not YAML: .*line 3"),
        ("config.yml", "a: &a [*a]\nextensions: {}", "it is not YAML: "),
        ("config.yaml", "a: \x00", "it is not YAML: it has a character"),
        ("settings.json", '{"context_servers": ', "it is not JSON: "),
        ("mcp.json", r'{"mcpServers": {"s3cret": {"command": "C:\Users\x"}}}', "write each backslash twice"),
        ("mcp.json", r'{"mcpServers": {"s3cret": {"command": "C:\users\x"}}}', "write each backslash twice"),
        ("config.toml", r'mcp_servers.a = {command = "C:\Users\x"}', "write each backslash twice"),
        ("config.toml", r'mcp_servers.a = {command = "C:\python\x"}', "write each backslash twice"),
        ("config.yaml", r'extensions: "C:\Users\x"', "write each backslash twice"),
        ("config.toml", "mcp_servers = 5", "`mcpServers` must be an object"),
        ("mcp.json", '{"mcpServers": {"a": {"url": "s3cret"}, "a": {"command": "x"}}}', "the name 'a' occurs twice"),
    ],
)
def test_a_file_that_is_not_in_its_format_says_which_and_gives_no_secret_away(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        read(tmp_path / name, text)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "entry",
    [
        'env_vars = "A"\ncommand = "x"',
        'env_vars = [5, []]\ncommand = "x"',
        'env_http_headers = ["A"]\nurl = "https://h/mcp"',
        'env_http_headers = {A = ["A"]}\nurl = "https://h/mcp"',
        'bearer_token_env_var = ["A"]\nurl = "https://h/mcp"',
        'env = 5\nenv_vars = ["A"]\ncommand = "x"',
    ],
)
def test_members_of_a_wrong_type_cost_at_most_their_own_server(tmp_path: Path, entry: str) -> None:
    text = f'[mcp_servers.odd]\n{entry}\n[mcp_servers.well]\ncommand = "x"'
    file = read(tmp_path / "config.toml", text, {"A": "a"})
    assert file.servers[-1] == ServerEntry("well", StdioTarget("x"))
