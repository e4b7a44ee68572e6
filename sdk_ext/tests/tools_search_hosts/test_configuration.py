"""A host's configuration file: every mistake with its place, and never what was written there, which may be a key."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import pytest
from tools_search_hosts import (
    ConfigurationError,
    HostFile,
    HttpTarget,
    Input,
    ServerEntry,
    StdioTarget,
    UnusableTarget,
    inspect_host_file,
    load_host_file,
)
from tools_search_hosts.formats import load_lenient_json


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"command": "x", "args": "--key s3cret"}, "`args` must be a list"),
        ({"command": "x", "args": [{"key": "s3cret"}]}, "`args.0` must be a text, in quotes"),
        ({"command": ["x", "s3cret"]}, "`command` must be a text, in quotes"),
        ({"command": "x", "cwd": 7}, "`cwd` must be a text, in quotes"),
        ({"command": "x", "env": "A=s3cret"}, "`env` must be an object"),
        ({"command": "x", "env": None}, "`env` must be an object"),
        ({"command": "x", "env": {"A": True}}, "`env.A` must be a text, in quotes"),
        ({"command": " "}, "`command` must name a program"),
        ({"command": "x", "env": {"": "s3cret"}}, "`env` has '', which is not a valid variable name"),
        ({"command": "x", "env": {"A=s": "s3cret"}}, "`env` has 'A=s', which is not a valid variable name"),
        ({"command": "x", "args": ["s3cret\0"]}, "contains the character NUL"),
        ({"command": "x", "disabled": {"key": "s3cret"}}, "`disabled` must be true or false"),
        ({"command": "x", "delegate": "s3cret"}, '`delegate` must be "turn"'),
        ({"command": "x", "alwaysAllow": "s3cret"}, "`alwaysAllow` must be a list"),
        ({"command": "x", "autoApprove": True}, "`autoApprove` must be a list"),
        ({"command": "x", "trust": "s3cret"}, "`trust` must be true or false"),
        ({"url": "htps://host/?key=${KEY}"}, "`url` must be like https://host/mcp"),
        ({"url": "https://me:s3cret@[host/"}, "`url` must be like https://host/mcp"),
        ({"url": "https://host:99999/?key=s3cret"}, "`url` must be like https://host/mcp"),
        ({"command": "x", "timeout": "s3cret"}, "`timeout` must be a number"),
        ({"command": "x", "tool_timeout_sec": 0}, "`tool_timeout_sec` must be a number above 0\n"),
        (
            {"command": "x", "startup_timout_sec": 5},
            "`startup_timout_sec` is unknown: did you mean `startup_timeout_sec`?",
        ),
        ({"command": "x", "tool_timeout_secs": 5}, "`tool_timeout_secs` is unknown: did you mean `tool_timeout_sec`?"),
        ({"command": "x", "startup_timeout_sec": True}, "`startup_timeout_sec` must be a number"),
        ({"command": "x", "envFile": "/nowhere/${KEY}.env", "env": {"KEY": "s3cret"}}, "`envFile` cannot be read (No"),
        ({"command": "x", "env": {"KEY": "${input:key}"}}, "`env.KEY`: the input 'key' is not given: set"),
        ({"command": "x", "args": ["s3cret ${KEY"]}, "`args.0`: `${KEY` is not closed, or has braces within it: write"),
        ({"command": "x", "env": {"A": "${env:KEY s3cret"}}, "`env.A`: `${env:KEY` is not closed, or has"),
        ({"command": "x", "env": {"A": "${KEY:-${s3cret}}"}}, "`env.A`: `${KEY` is not closed, or has braces"),
        ({"command": "x", "env": {"A": "${input:key"}}, "`env.A`: `${input:key` is not closed, or has"),
        ({"command": "x", "cwd": "${"}, "`cwd`: `${` is not closed, or has"),
        ({"command": "${}"}, "`command`: ${} is not understood: use ${NAME}"),
        ({"command": "${env:}"}, "`command`: ${env:} is not understood: use ${NAME}"),
        ({"url": "https://host/?key=${KEY"}, "`url`: `${KEY` is not closed, or has braces"),
        ({"url": "https://host", "headers": {"X": "Bearer ${KEY"}}, "`headers.X`: `${KEY` is not closed, or has"),
        ({"comand": "x"}, "`comand` is unknown: did you mean `command`?"),
        ({"command": "x", "deferLoading": True, "defer_loading": False}, "`deferLoading` and `defer_loading` are the"),
        ({"type": "http", "command": "x"}, "is of type 'streamable-http', which needs `url` rather than `command`"),
        ({"type": "stdio", "url": "https://host"}, "is of type 'stdio', which needs `command` rather than `url`"),
        ({"url": "https://host", "headers": True}, "`headers` must be an object"),
        ({"url": "https://host", "headers": {"X": "s3cret\r\nEvil: 1"}}, "`headers.X` must be visible ASCII"),
        ({"url": "https://host", "headers": {"X Y": "s3cret"}}, "`headers` has 'X Y', which is not a valid header"),
    ],
)
def test_a_mistake_is_named_by_its_place_and_gives_no_secret_away(members: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read({"mcpServers": {"a": members}}, env={"KEY": "s3cret"})
    assert f"server 'a': {told}" in f"{refused.value}\n"
    assert "s3cret" not in str(refused.value)


def written(folder: Path, document: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "mcp.json"
    path.write_text(json.dumps(document))
    return path


def read(document: dict[str, Any], *, env: dict[str, str] | None = None) -> HostFile:
    with TemporaryDirectory() as folder:
        return load_host_file(written(Path(folder), document), environment=env or {})


@pytest.mark.parametrize(
    ("arguments", "told"), [("--key s3cret", "`args` must be a tuple"), ((5,), "`args` must contain texts only")]
)
def test_a_program_that_is_given_other_arguments_than_texts_is_refused(arguments: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        StdioTarget("x", arguments)


def test_a_mistake_in_the_entry_of_one_server_costs_that_server_alone() -> None:
    file = read({"servers": {"unset": {"command": "${NOWHERE}", "args": 5}, "shapeless": 7, "well": {"command": "x"}}})
    assert [entry.name for entry in file.servers] == ["unset", "shapeless", "well"]
    assert file.servers[2].target == StdioTarget("x")
    assert file.problems == (
        "server 'unset': `command`: the environment variable NOWHERE is not set: set it, or give a default as in "
        "${NOWHERE:-value}",
        "server 'unset': `args` must be a list",
        "server 'shapeless': must be an object",
    )
    unusable = file.servers[1].target
    assert isinstance(unusable, UnusableTarget)
    assert str(unusable) == "cannot be used as it is configured: must be an object"


def test_a_file_without_any_server_that_can_be_used_is_refused_with_every_reason() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read({"servers": {"a": {"command": ""}, "b": {"url": "x"}, "off": {"disabled": True}}, "princpals": {}})
    assert refused.value.problems == (
        "server 'a': `command` must name a program",
        "server 'b': `url` must be like https://host/mcp",
        "`princpals` is unknown: did you mean `principals`?",
    )


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"mcpserver": {"a": {"command": "x"}}}, "did you mean `mcpServers`?"),
        ({"servers": {"a": {"command": "x"}}, "principal": {}}, "`principal` is unknown: did you mean `principals`?"),
        ({"servers": {"a": {"command": "x"}}, "tool_set": {}}, "`tool_set` is unknown: did you mean `tool_sets`?"),
    ],
)
def test_a_misspelled_member_of_the_file_refuses_it(document: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match="is unknown") as refused:
        read(document)
    assert told in str(refused.value)


@pytest.mark.parametrize("member", ["startup_timeout", "tool_timeout", "timeoutMs", "http_headers", "uri", "env_vars"])
def test_a_member_that_only_another_host_knows_is_passed_over(member: str) -> None:
    [entry] = read({"mcpServers": {"a": {"command": "x", member: "theirs"}}}).servers
    assert isinstance(entry.target, StdioTarget)


def test_members_are_understood_in_camel_case_as_well() -> None:
    members = {"command": "x", "deferLoading": True, "startupTimeoutSec": 7, "toolTimeoutSec": 9}
    file = read({"mcpServers": {"a": members}, "toolDiscovery": {}, "toolSets": {}, "alwaysAvailable": []})
    [entry] = file.servers
    assert (entry.defer_loading, entry.start_seconds, entry.call_seconds) == (True, 7, 9)
    assert {"tool_discovery", "tool_sets", "always_available"} <= file.members.keys()


INPUTS = [
    {"id": "api-key", "type": "promptString", "description": "The key", "password": True},
    {"id": "region", "type": "pickString", "options": ["eu", "us"], "default": "eu"},
]


def test_an_input_is_taken_from_the_environment_asked_for_once_or_its_default(tmp_path: Path) -> None:
    asked: list[Input] = []

    def ask(wanted: Input) -> str | None:
        asked.append(wanted)
        return "typed" if wanted.key == "api-key" else None

    servers = {
        "a": {"command": "x", "env": {"K": "${input:api-key}", "R": "${input:region}", "E": "${input:else}"}},
        "b": {"command": "x", "env": {"K": "${input:api-key}"}},
        "off": {"command": "${input:off}", "disabled": True},
    }
    path = written(tmp_path, {"inputs": INPUTS, "servers": servers})
    file, _ = inspect_host_file(path, environment={"MCP_INPUT_ELSE": "set"}, ask=ask)
    assert [entry.target.env for entry in file.servers if isinstance(entry.target, StdioTarget)] == [
        {"K": "typed", "R": "eu", "E": "set"},
        {"K": "typed"},
    ]
    assert [(variable.key, variable.description, variable.is_secret, variable.default) for variable in asked] == [
        ("api-key", "The key", True, None),
        ("region", "", False, "eu"),
    ]


def test_a_server_whose_input_nobody_gives_says_what_to_set_and_leaves_the_others_alone() -> None:
    file = read({"inputs": INPUTS, "servers": {"a": {"command": "${input:api-key}"}, "b": {"command": "x"}}})
    assert file.problems == (
        "server 'a': `command`: the input 'api-key' is not given: set the environment variable MCP_INPUT_API_KEY",
    )


def test_the_era_of_one_server_is_read_and_another_word_makes_that_server_unusable() -> None:
    servers = {
        "old": {"command": "x", "era": "legacy"},
        "new": {"command": "x"},
        "wrong": {"command": "x", "era": "2025"},
    }
    file = read({"mcpServers": servers})
    assert [entry.era for entry in file.servers] == ["legacy", None, None]
    assert file.problems == ('server \'wrong\': `era` must be "auto" or "legacy"',)


def only_server(folder: Path, **members: Any) -> ServerEntry:
    [entry] = load_host_file(written(folder, {"servers": {"a": members}}), environment={}).servers
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
    [entry] = read({"servers": {"a": {"command": "x", **members}}}).servers
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
    [entry] = read({"servers": {"a": {"command": "x", **members}}}).servers
    assert [name for name in ("read", "write") if entry.allows(name)] == allowed


@pytest.mark.parametrize("member", ["url", "httpUrl", "serverUrl"])
def test_an_address_is_read_under_the_names_that_hosts_give_it(member: str) -> None:
    [entry] = read({"servers": {"a": {member: "https://host/mcp"}}}).servers
    assert entry.target == HttpTarget("https://host/mcp")


def test_a_file_of_variables_is_read_literally_and_gives_way_to_those_in_the_entry(tmp_path: Path) -> None:
    editor = tmp_path / ".vscode"
    keys = tmp_path / "keys.env"
    keys.write_text('\ufeffC=4\nexport A="Zoë $B ${B}"\n# mine\nB=two\nNOTHING\n', encoding="utf-8")
    members: dict[str, Any] = {"type": "stdio", "command": "x", "envFile": "keys.env", "env": {"B": "three"}}
    entry = only_server(editor, **members)
    assert isinstance(entry.target, StdioTarget)
    assert entry.target.env == {"A": "Zoë $B ${B}", "B": "three", "C": "4"}
    keys.write_bytes("A=Zoë".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"`envFile` cannot be read \(it is not UTF-8 text\)"):
        only_server(editor, **members)


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


@pytest.mark.parametrize(("name", "problem"), [(" ", "an empty name"), ("\ud800", "half of a surrogate pair")])
def test_a_file_with_a_server_whose_name_no_message_can_carry_is_refused(name: str, problem: str, tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"good": {"command": "x"}, name: {"command": "y"}}}))
    with pytest.raises(ConfigurationError, match=problem):
        load_host_file(path)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_said_to_be_empty(text: str, tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="it is empty: write"):
        load_host_file(path)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ('{"a": [1, 2,], /* two, */ }', {"a": [1, 2]}),
        ('["a,]", "//", "/*", "\\",]",]', ["a,]", "//", "/*", '",]']),
        ('["a", // see [1]\n "b" /* } */, ]', ["a", "b"]),
        ('["a", /* one */ // two\n ]', ["a"]),
    ],
)
def test_comments_and_trailing_commas_count_for_nothing(text: str, means: Any) -> None:
    assert load_lenient_json(text) == means


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1} /* the end', "line 1 column 10"),
        ('{\n// why\n  "a": nil}', "line 3 column 8"),
        ('["a', "line 1 column 2"),
        ("[1 / 2]", "line 1 column 4"),
        ("[1 /* , */ 2, ]", "line 1 column 12"),
    ],
)
def test_what_is_wrong_even_so_is_refused_at_its_place(text: str, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        load_lenient_json(text)


@pytest.mark.parametrize(
    "text",
    [",/*" * 20_000, "[1" + ",//\n" * 20_000, "/*" * 50_000, '"' + '\\"' * 50_000 + "\\", "[1" + ",/**/" * 20_000],
    ids=["commas before comments", "comments after commas", "open comments", "escaped quotes", "commas and comments"],
)
def test_a_text_without_end_is_refused_at_once(text: str) -> None:
    started = process_time()
    with pytest.raises(ValueError, match=r"line [12] column"):
        load_lenient_json(text)
    assert process_time() - started < 1
