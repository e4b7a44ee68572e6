"""A host's configuration file: every mistake with its place, and never what was written there, which may be a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_ext_tools_search.hosts import (
    ConfigurationError,
    HttpTarget,
    ServerEntry,
    StdioTarget,
    load_host_file,
    parse_host_file,
)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"command": "x", "args": "--key s3cret"}, "`args` must be a list of texts"),
        ({"command": "x", "args": [{"key": "s3cret"}]}, "`args` must be a list of texts"),
        ({"command": ["x", "s3cret"]}, "`command` must be a text, not a list"),
        ({"command": "x", "cwd": 7}, "`cwd` must be a text, not a number"),
        ({"command": "x", "env": "A=s3cret"}, "`env` must be an object of texts, not a text"),
        ({"command": "x", "env": None}, "`env` must be an object of texts, not null"),
        ({"command": "x", "env": {"A=s": "s3cret"}}, "`env` has 'A=s', which is no name of a variable"),
        ({"command": "x", "args": ["s3cret\0"]}, "holds the character NUL"),
        ({"command": "x", "disabled": {"key": "s3cret"}}, "`disabled` must be true or false, not an object"),
        ({"command": "x", "delegate": "s3cret"}, '`delegate` must be "turn"'),
        ({"command": "x", "alwaysAllow": "s3cret"}, "`alwaysAllow` must be a list of texts"),
        ({"command": "x", "autoApprove": True}, "`autoApprove` must be a list of texts"),
        ({"command": "x", "trust": "s3cret"}, "`trust` must be true or false, not a text"),
        ({"url": "htps://host/?key=${KEY}"}, "`url` must be like https://host/mcp"),
        ({"url": "https://me:s3cret@[host/"}, "`url` must be like https://host/mcp"),
        ({"url": "https://host:99999/?key=s3cret"}, "`url` must be like https://host/mcp"),
        ({"command": "x", "timeout": "s3cret"}, "`timeout` must be a number above 0"),
        ({"command": "x", "tool_timeout_sec": 0}, "`tool_timeout_sec` must be a number above 0"),
        ({"command": "x", "startup_timeout_sec": True}, "`startup_timeout_sec` must be a number above 0"),
        ({"command": "x", "envFile": "/nowhere/${KEY}.env", "env": {"KEY": "s3cret"}}, "`envFile` cannot be read (No"),
        ({"command": "x", "env": {"KEY": "${input:key}"}}, "`env.KEY`: ${input:key} asks for typed input: use ${env:"),
        ({"url": "https://host", "headers": True}, "`headers` must be an object of texts, not true or false"),
        ({"url": "https://host", "headers": {"X": "s3cret\r\nEvil: 1"}}, "`headers.X` must be visible ASCII"),
        ({"url": "https://host", "headers": {"X Y": "s3cret"}}, "`headers` has 'X Y', which is no name of a header"),
    ],
)
def test_a_mistake_is_named_by_its_place_and_gives_no_secret_away(members: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_host_file({"mcpServers": {"a": members}}, source="mcp.json", folder=Path(), environment={"KEY": "s3cret"})
    assert f"server 'a': {told}" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def only_server(folder: Path, **members: Any) -> ServerEntry:
    [entry] = parse_host_file({"servers": {"a": members}}, source="mcp.json", folder=folder, environment={}).servers
    return entry


@pytest.mark.parametrize(
    ("members", "start_seconds", "call_seconds"),
    [
        ({}, None, None),
        ({"timeout": 60}, None, 60),
        ({"timeout": 120_000}, None, 120),
        ({"startup_timeout_sec": 20.5, "tool_timeout_sec": 0.5, "timeout": 60_000}, 20.5, 0.5),
        ({"startup_timeout_ms": 15_000}, 15, None),
    ],
)
def test_timeouts_are_read_in_the_units_of_each_host(
    members: dict[str, Any], start_seconds: float | None, call_seconds: float | None
) -> None:
    entry = only_server(Path(), command="x", **members)
    assert (entry.start_seconds, entry.call_seconds) == (start_seconds, call_seconds)


@pytest.mark.parametrize(
    ("members", "allowed"),
    [
        ({}, []),
        ({"alwaysAllow": ["read"]}, ["read"]),
        ({"autoApprove": ["write"], "alwaysAllow": ["read"]}, ["read", "write"]),
        ({"alwaysAllow": ["*"]}, ["read", "write"]),
        ({"trust": True}, ["read", "write"]),
        ({"trust": False, "alwaysAllow": []}, []),
    ],
)
def test_what_needs_no_consent_is_read_under_the_names_that_hosts_give_it(
    members: dict[str, Any], allowed: list[str]
) -> None:
    entry = only_server(Path(), command="x", **members)
    assert [name for name in ("read", "write") if entry.allows(name)] == allowed


@pytest.mark.parametrize("member", ["url", "httpUrl", "serverUrl"])
def test_an_address_is_read_under_the_names_that_hosts_give_it(member: str) -> None:
    assert only_server(Path(), **{member: "https://host/mcp"}).target == HttpTarget("https://host/mcp")


def test_a_file_of_variables_is_read_literally_and_gives_way_to_those_in_the_entry(tmp_path: Path) -> None:
    editor = tmp_path / ".vscode"
    (tmp_path / "keys.env").write_text("# mine\nexport A='one $B'\nB=two\nNOTHING\n")
    entry = only_server(editor, type="stdio", command="x", envFile="keys.env", env={"B": "three"})
    assert isinstance(entry.target, StdioTarget)
    assert entry.target.env == {"A": "one $B", "B": "three"}


def test_a_file_as_an_editor_writes_it_is_read_and_what_is_only_the_editors_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        """{
          // what VS Code keeps beside the servers
          "inputs": [{"id": "key", "type": "promptString", "description": "A key", "password": true}],
          "servers": {
            "here": {"type": "stdio", "command": "${HOME_OF_IT:-/opt}/x", "cwd": "${workspaceFolder}",
                     "env": {"PORT": 80}, "dev": {"watch": "*.py"}, "sandboxEnabled": true},
            "there": {"type": "http", "url": "https://host/mcp", "headers": {"Authorization": "Bearer ${env:KEY}"}},
            "off": {"command": "${NOT_SET}", "disabled": true},
            "off_too": {"command": "${NOT_SET}", "enabled": false}, /* and a comma too many */
          },
        }"""
    )
    assert load_host_file(file, environment={"KEY": "k"}).servers == (
        ServerEntry("here", StdioTarget("/opt/x", (), {"PORT": "80"}, cwd=str(tmp_path))),
        ServerEntry("there", HttpTarget("https://host/mcp", {"Authorization": "Bearer k"})),
    )
