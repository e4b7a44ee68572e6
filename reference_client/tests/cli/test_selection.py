"""The options that choose servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tools_search_hosts import HttpTarget

from ..chat.terminal import Terminal  # noqa: TID252
from .conftest import Run, Write

PROGRAM = [sys.executable, "-m", "tools_search_client"]


def test_a_server_with_a_mistake_in_its_entry_fails_with_the_reason_and_the_others_are_searched(
    run: Run, liar: Any, write_configuration: Write
):
    unset = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${input:token}"}}
    file = write_configuration({"one": liar().as_configured(), "unset": unset})
    found = run("search", "alpha", "--config", str(file))
    assert "one__make_alpha" in found.output
    assert "unset" in found.errors
    assert "set the environment variable MCP_INPUT_TOKEN" in found.errors
    assert "cannot be used as it is configured" in run("servers", "--config", str(file)).errors


def test_an_input_of_the_file_is_asked_for_on_a_terminal(liar: Any, tmp_path: Path):
    server = liar(tools="${input:how-many}").as_configured()
    file = tmp_path / "mcp.json"
    described = {"id": "how-many", "description": "How many tools", "type": "promptString"}
    file.write_text(json.dumps({"inputs": [described], "servers": {"one": server}}))
    outer, inner = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tools_search_client", "tools", "--config", str(file)],
        stdin=inner, stderr=inner, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(inner)
        asked = b""
        while b"How many tools: " not in asked:
            asked += os.read(outer, 1000)
        os.write(outer, b"2\n")
        output, _ = process.communicate(timeout=60)
    os.close(outer)
    assert [line.split()[0] for line in output.splitlines() if "make_" in line] == ["one__make_alpha", "one__make_beta"]


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("key", "reason"), [("\x03", "interrupted by SIGINT"), ("\x04", "aborted")], ids=["Ctrl-C", "Ctrl-D"]
)
@pytest.mark.parametrize("is_secret", [False, True])
def test_an_input_that_the_user_does_not_give_keeps_its_line(tmp_path: Path, key: str, reason: str, is_secret: bool):
    file = tmp_path / "mcp.json"
    described = {"id": "key", "description": "Your key", "type": "promptString", "password": is_secret}
    server = {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "${input:key}"}}
    file.write_text(json.dumps({"inputs": [described], "servers": {"one": server}}))
    with closing(Terminal(["-m", "tools_search_client", "tools", "--config", str(file)], {})) as terminal:
        terminal.until("Your key: ")
        while terminal.process.poll() is None:
            # One that comes just before the program waits for the answer is only heard with the next one.
            terminal.type(key)
            with suppress(subprocess.TimeoutExpired):
                terminal.process.wait(2)
        code, shown = terminal.until_end()
    assert (code, shown.split("\n")[1:]) == (130, [f"Error: {reason}", ""])


def test_the_entry_of_a_server_has_its_own_times_and_an_option_goes_before_them(
    run: Run, liar: Any, write_configuration: Write
):
    hangs, silent = (
        liar("call-hangs").as_configured(),
        {"command": sys.executable, "args": ["-c", "while input(): pass"]},
    )
    file = write_configuration({"slow": hangs | {"tool_timeout_sec": 0.2}, "mute": silent | {"startup_timeout_sec": 1}})
    assert run("call", "slow__make_alpha", "--config", str(file), "--yes", "--json").json["error"] == {
        "type": "ServerTimeoutError",
        "message": "slow__make_alpha: no answer in time: --call-timeout lets it run longer",
    }
    assert "mute failed: not ready after 1 second" in run("servers", "--config", str(file)).errors
    file = write_configuration({"slow": hangs | {"timeout": 600}})
    assert run("call", "make_alpha", "--config", str(file), "--yes", "--call-timeout", "0.2").code == 1


TOO_SHORT = 1e-6
"""In seconds: no server is as quick."""


@pytest.mark.parametrize("asked", [["tools"], ["search", "alpha"], ["describe", "slow__make_alpha"]])
@pytest.mark.parametrize(
    ("entry", "times"),
    [
        ({}, {"deadline": TOO_SHORT}),
        ({}, {"request_timeout": TOO_SHORT}),
        ({}, {"connect_timeout": TOO_SHORT}),
        ({"startup_timeout_sec": TOO_SHORT}, {}),
    ],
)
def test_a_message_about_a_late_server_names_the_option_which_gives_it_more_time_than_the_file(
    run: Run, liar: Any, write_configuration: Write, asked: list[str], entry: dict[str, Any], times: dict[str, float]
):
    file = write_configuration({"slow": liar().as_configured() | entry})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tool_discovery": times}))
    late = run(*asked, "--config", file)
    assert late.code == 1
    assert re.fullmatch(r".*slow.* failed: .*: --timeout gives it more time\n", late.errors)
    assert "slow__make_alpha" in run(*asked, "--config", file, "--timeout", "60").output


def test_a_search_waits_for_the_slowest_server_for_as_long_as_the_option_says(
    run: Run, liar: Any, write_configuration: Write
):
    slow, quick = liar("gated"), liar().target
    once_the_other_searches = f'until grep -qs tools/search {slow.log}; do :; done; exec "$@"'
    entry = {"command": "sh", "args": ["-c", once_the_other_searches, "sh", quick.command, *quick.args]}
    file = write_configuration({"quick": entry, "slow": slow.as_configured()})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tool_discovery": {"grace": TOO_SHORT}}))
    found = run("search", "alpha", "--config", file, "--timeout", "5")
    assert "slow failed: still answering after 5 seconds" in found.errors


def test_the_legacy_era_can_be_asked_for(run: Run, plain_server: HttpTarget):
    outcome = run("servers", "--url", plain_server.url, "--era", "legacy", "--json")
    assert outcome.json["servers"][0]["era"] == "legacy"


def test_the_legacy_era_of_one_server_in_the_file_gives_way_to_the_option(
    run: Run, plain_server: HttpTarget, write_configuration: Write
):
    plain = {"url": plain_server.url, "era": "legacy"}
    file = str(write_configuration({"plain": plain}))
    for options, era in (((), "legacy"), (("--era", "auto"), "modern")):
        assert run("servers", "--config", file, "--json", "--timeout", "100", *options).json["servers"][0]["era"] == era


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "x"),
        ("search", "x", "--url", "http://h/mcp", "--command", "c"),
        ("search", "x", "--command", "c", "--header", "A: b"),
        ("search", "x", "--url", "http://h/mcp", "--header", "no colon"),
        ("search", "x", "--url", "nowhere"),
        ("search", "x", "--config", "/nowhere.json"),
        ("search", " ", "--command", "true"),
        ("search", "x", "--command", "true", "--resources", "--prompts"),
        ("servers", "--command", ""),
        ("servers", "--url", ""),
        ("search", "x", "--command", "c", "--limit", "0"),
        ("nonsense",),
    ],
)
def test_wrong_usage_ends_with_two_and_the_reason(run: Run, arguments: tuple[str, ...]):
    outcome = run(*arguments)
    assert outcome.code == 2
    assert "Error" in outcome.errors


@pytest.mark.parametrize("number", ["nan", "inf", "0", "-1"])
@pytest.mark.parametrize("option", ["--timeout", "--call-timeout"])
def test_an_option_for_a_time_refuses_what_is_no_number_of_seconds_above_0(run: Run, option: str, number: str):
    outcome = run("call", "add", option, number, "--command", "true")
    assert (outcome.code, outcome.errors.count(f"Invalid value for '{option}'")) == (2, 1)


def test_a_confidence_that_is_not_a_number_is_refused(run: Run):
    outcome = run("search", "add", "--least-confidence", "nan", "--command", "true")
    assert (outcome.code, outcome.errors.count("'nan' is not a finite number")) == (2, 1)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("search time -- python -m 'a b'", """--command 'python -m '"'"'a b'"'"''"""),
        ("servers -- python", "--command python"),
        ("chat hello -- python", "--command python"),
        ("search create a branch", "a branch; put several words in quotes"),
        ("tools git", "git; choose servers with --config, --host, --url, --command or --server"),
    ],
)
def test_words_that_a_command_does_not_take_are_answered_with_where_they_belong(run: Run, words: str, advice: str):
    outcome = run(*shlex.split(words))
    assert (outcome.code, outcome.errors.count(advice)) == (2, 1)


def test_an_address_is_sent_its_headers(run: Run):
    outcome = run("servers", "--url", "http://127.0.0.1:9/mcp", "--header", "Authorization: Bearer abc", "--json")
    assert outcome.code == 1


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("option", "level", "is_shown"),
    [((), None, False), ((), "debug", True), (("-vv",), "error", True), (("--verbose",), "debug", False)],
)
def test_the_log_is_shown_from_the_level_on_that_is_asked_for(
    config: Path, option: tuple[str, ...], level: str | None, is_shown: bool
):
    program = [sys.executable, "-m", "tools_search_client", "servers", "--config", str(config), *option]
    environment = {name: value for name, value in os.environ.items() if name != "LOG_LEVEL"}
    environment |= {} if level is None else {"LOG_LEVEL": level}
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert ("DEBUG" in done.stderr.split()) is is_shown


def test_a_level_of_the_log_that_is_none_is_refused(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOG_LEVEL", "loud")
    outcome = run("servers", "--config", config)
    assert outcome.code == 2
    assert "LOG_LEVEL must be one of CRITICAL, ERROR" in outcome.errors


def test_a_configuration_that_others_can_change_is_warned_of(
    write_configuration: Any, plain_server: HttpTarget
) -> None:
    server = {"url": plain_server.url}
    file: Path = write_configuration({"s": server})
    said: list[str] = []
    for mode in (0o666, 0o600):
        file.chmod(mode)
        line = [*PROGRAM, "search", "x", "--config", str(file)]
        said.append(subprocess.run(line, capture_output=True, text=True, timeout=30, check=False).stderr)
    assert f"Warning: {file} can be changed by all users of this machine (mode 0666)" in said[0]
    assert "Warning" not in said[1]


def test_a_file_without_servers_is_no_choice_of_servers(run: Run, write_configuration: Write):
    outcome = run("search", "alpha", "--config", str(write_configuration({})))
    assert outcome.code == 2
    assert "it names no server that is switched on: add one under `mcpServers`" in outcome.errors
