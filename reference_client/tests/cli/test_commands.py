"""The command line: what it prints, what it asks, and the code it ends with."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import click
import pytest
from tools_search_client.__main__ import main
from tools_search_hosts import StdioTarget

Write = Callable[[dict[str, object]], Path]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
Run = Callable[..., "Outcome"]


class Outcome:
    """What a run of the command left: its exit code and both streams."""

    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code, self.output, self.errors = code, output, errors

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""

    def run_main(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run_main


@pytest.fixture
def config(liar: Any, plain_server: StdioTarget, write_configuration: Write) -> Path:
    """Three servers: one that searches, one that is listed, one that cannot be started."""
    plain = {"command": plain_server.command, "args": list(plain_server.args)}
    return write_configuration({"one": liar().as_configured(), "plain": plain, "gone": {"command": "/nowhere/program"}})


def command_line(target: StdioTarget) -> str:
    return shlex.join([target.command, *target.args])


def test_tools_are_shown_as_loaded_or_deferred_where_they_are_loaded_on_demand(
    run: Run, liar: Any, plain_server: StdioTarget, write_configuration: Write
):
    plain = {"command": plain_server.command, "args": list(plain_server.args)}
    config = write_configuration({"one": liar(tools=1).as_configured() | {"defer_loading": True}, "plain": plain})
    assert "status" not in run("tools", "--config", config).output
    document = json.loads(config.read_text()) | {"tool_discovery": {"enabled": True}}
    config.write_text(json.dumps(document))
    shown = run("tools", "--config", config, "--json").json["tools"]
    assert {tool["name"]: tool["status"] for tool in shown} == {
        "one__make_alpha": "deferred",
        "plain__add_numbers": "loaded",
        "plain__reverse_text": "loaded",
        "plain__fail_always": "loaded",
    }
    assert "deferred" in run("tools", "--config", config).output


def test_stats_tell_what_listing_costs_and_what_finding_on_demand_saves(
    run: Run, reference_server: StdioTarget, plain_server: StdioTarget, write_configuration: Write
):
    many = {"command": reference_server.command, "args": [*reference_server.args], "defer_loading": True}
    config = write_configuration(
        {"plain": {"command": plain_server.command, "args": [*plain_server.args]}, "many": many}
    )
    document = json.loads(config.read_text()) | {"tool_discovery": {"enabled": True}}
    config.write_text(json.dumps(document))
    outcome = run("stats", "--config", config, "--json")
    assert outcome.code == 0
    servers, first = outcome.json["servers"], outcome.json["firstRequest"]
    assert list(servers) == ["many", "plain"]  # the dearest first
    for count in ("definitions", "tokens"):
        assert first["listed"][count] == servers["many"][count] + servers["plain"][count]
    # `search_tools`, and beside it the tools of the server that is not deferred.
    assert first["asConfigured"]["definitions"] == servers["plain"]["definitions"] + 1
    assert first["onDemand"]["definitions"] == 1
    assert first["onDemand"]["tokens"] < first["asConfigured"]["tokens"] < first["listed"]["tokens"]
    assert "less" in run("stats", "--config", config).errors


def test_stats_of_few_tools_say_that_nothing_is_saved(run: Run, plain_server: StdioTarget, write_configuration: Write):
    config = write_configuration({"plain": {"command": plain_server.command, "args": [*plain_server.args]}})
    assert "saves nothing" in run("stats", "--config", config).errors


def test_search_prints_ranked_tools_and_every_server_as_json(run: Run, config: Path):
    outcome = run("search", "add two numbers", "--config", config, "--limit", "3", "--json")
    answer = outcome.json
    assert outcome.code == 0
    assert (answer["query"], answer["limit"]) == ("add two numbers", 3)
    assert [tool["rank"] for tool in answer["tools"]] == [1, 2, 3]
    first = answer["tools"][0]
    assert (first["name"], first["server"], first["foundBy"]) == ("plain__add_numbers", "plain", "list")
    assert "name" in first["matched"]
    assert first["tool"]["inputSchema"]["required"] == ["first", "second"]
    assert [(server["server"], server["mode"]) for server in answer["servers"]] == [
        ("one", "search"),
        ("plain", "list"),
        ("gone", None),
    ]
    assert answer["servers"][2]["failure"]["kind"] == "unavailable"


def test_search_prints_plain_lines_into_a_pipe_and_failures_beside_it(run: Run, config: Path):
    outcome = run("search", "add two numbers", "--config", config, "--limit", "1")
    heading, first = outcome.output.splitlines()
    assert heading.split("\t") == ["#", "tool", "score", "by", "matched", "description"]
    assert first.split("\t")[:2] == ["1", "plain__add_numbers"]
    assert "gone failed" in outcome.errors


@pytest.mark.parametrize(
    ("stated", "options", "finds"),
    [
        ({}, [], True),
        ({"least_confidence": 1}, [], False),
        ({"least_confidence": 1}, ["--least-confidence", "0"], True),
        ({}, ["--least-confidence", "1"], False),
    ],
)
def test_nothing_is_found_below_the_confidence_that_the_configuration_or_an_option_states(
    run: Run, plain_server: StdioTarget, tmp_path: Path, stated: dict[str, Any], options: list[str], finds: bool
):
    path = tmp_path / "confident.json"
    plain = {"command": plain_server.command, "args": list(plain_server.args)}
    path.write_text(json.dumps({"mcpServers": {"plain": plain}, "tool_discovery": stated}))
    outcome = run("search", "what happens in the second season", "--config", str(path), *options)
    assert outcome.code == 0
    assert bool(outcome.output) == finds


def test_a_search_without_a_match_says_that_this_is_no_proof(run: Run, plain_server: StdioTarget):
    outcome = run("search", "xylophone", "--command", command_line(plain_server))
    assert (outcome.code, outcome.output) == (0, "")
    assert "no proof" in outcome.errors


def test_a_search_that_was_listed_instead_says_why(run: Run, liar: Any):
    outcome = run("search", "alpha", "--command", command_line(liar("refuses:-32603").target))
    assert outcome.code == 0
    assert "the server: listed instead of searched" in outcome.errors
    assert "\x1b" not in outcome.errors


def test_nothing_found_while_some_server_failed_is_incomplete(
    run: Run, plain_server: StdioTarget, write_configuration: Write
):
    plain = {"command": plain_server.command, "args": list(plain_server.args)}
    path = write_configuration({"plain": plain, "gone": {"command": "/nowhere/program"}})
    assert run("search", "xylophone", "--config", path).code == 3


@pytest.mark.parametrize("command", [("search", "x"), ("tools",), ("servers",)])
def test_when_every_server_fails_the_command_fails(run: Run, write_configuration: Write, command: tuple[str, ...]):
    path = write_configuration({"gone": {"command": "/nowhere/program"}})
    outcome = run(*command, "--config", path)
    assert outcome.code == 1
    assert "/nowhere/program" in outcome.errors


def test_the_only_servers_tools_keep_their_own_names(run: Run, liar: Any):
    outcome = run("search", "alpha", "--command", command_line(liar().target), "--limit", "1", "--json")
    assert [tool["name"] for tool in outcome.json["tools"]] == ["make_alpha"]


def test_servers_shows_what_each_offers(run: Run, config: Path):
    outcome = run("servers", "--config", config)
    rows = [line.split("\t") for line in outcome.output.splitlines()]
    assert rows[0] == ["server", "program", "protocol", "mode", "tools", "ms"]
    assert [row[:5] for row in rows[1:]] == [
        ["one", "-", "2026-07-28 modern", "search", "6"],
        ["plain", "plain 1.0", "2026-07-28 modern", "list", "3"],
        ["gone", "-", "-", "failed", "-"],
    ]
    assert outcome.code == 0


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


def test_servers_as_json_tells_the_settings(run: Run, config: Path):
    one, plain, gone = run("servers", "--config", config, "--json").json["servers"]
    assert (one["settings"], plain["settings"], gone["settings"]) == ({"catalogSize": 6}, None, None)
    assert (plain["serverInfo"]["name"], plain["tools"]) == ("plain", 3)
    assert gone["failure"]["kind"] == "unavailable"


@pytest.mark.parametrize("command", [("servers",), ("tools",), ("search", "alpha")])
def test_tools_that_are_left_out_are_not_lost_in_silence(run: Run, liar: Any, command: tuple[str, ...]):
    line = command_line(liar("list-flawed", place="nowhere").target)
    outcome = run(*command, "--command", line)
    assert (outcome.code, outcome.errors) == (
        0,
        "the server: 3 tools are left out, since their definitions are invalid\n",
    )
    assert run(*command, "--command", line, "--json").json["servers"][0]["leftOut"] == 3


def test_the_legacy_era_can_be_asked_for(run: Run, plain_server: StdioTarget):
    outcome = run("servers", "--command", command_line(plain_server), "--era", "legacy", "--json")
    assert outcome.json["servers"][0]["era"] == "legacy"


def test_tools_lists_every_tool_by_the_name_to_call_it_by(run: Run, config: Path):
    names = [line.split("\t")[0] for line in run("tools", "--config", config).output.splitlines()[1:]]
    assert len(names) == 9
    assert {"one__make_alpha", "plain__reverse_text"} <= set(names)
    as_json = run("tools", "--config", config, "--json").json
    assert [tool["name"] for tool in as_json["tools"]] == names


def test_call_prints_what_the_tool_says(run: Run, config: Path):
    outcome = run("call", "add_numbers", '{"first": 2, "second": 3}', "--config", config, "--yes")
    assert (outcome.code, outcome.output) == (0, "5\n")


def test_call_as_json_prints_the_whole_result(run: Run, config: Path):
    arguments = ("call", "plain__add_numbers", '{"first": 2, "second": 3}', "--config", config, "--yes", "--json")
    assert run(*arguments).json["result"]["structuredContent"] == {"result": 5}


def test_a_tool_that_fails_ends_with_one(run: Run, plain_server: StdioTarget):
    outcome = run("call", "fail_always", "--command", command_line(plain_server), "--yes")
    assert outcome.code == 1
    assert "reports an error" in outcome.errors


@pytest.mark.parametrize("fault", ["none", "read-only"])
def test_no_tool_is_called_where_nobody_can_be_asked_whatever_it_says_of_itself(run: Run, liar: Any, fault: str):
    server = liar(fault)
    outcome = run("call", "make_alpha", "--command", command_line(server.target))
    assert outcome.code == 2
    assert "add --yes to call it, or name it in `alwaysAllow`" in outcome.errors
    assert server.asked("tools/call") == []


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"alwaysAllow": ["make_alpha"]}, 0),
        ({"autoApprove": ["*"]}, 0),
        ({"trust": True}, 0),
        ({"alwaysAllow": ["make_beta", "good__make_alpha"], "trust": False}, 2),
    ],
)
def test_the_operators_configuration_ends_the_asking(
    run: Run,
    liar: Any,
    write_configuration: Callable[[dict[str, object]], Path],
    members: dict[str, Any],
    code: int,
):
    server = liar()
    config = write_configuration({"good": server.as_configured() | members})
    assert run("call", "make_alpha", "--config", str(config)).code == code
    assert len(server.asked("tools/call")) == (code == 0)


@pytest.mark.parametrize(("answer", "code", "calls"), [("y\n", 0, 1), ("n\n", 2, 0)])
def test_a_tool_is_called_after_consent(
    run: Run, liar: Any, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, calls: int
):
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    server = liar("read-only")
    outcome = run("call", "make_alpha", "--command", command_line(server.target))
    assert outcome.code == code
    assert "Make a alpha thing" in outcome.errors or "says nothing of itself" in outcome.errors
    assert len(server.asked("tools/call")) == calls


def test_arguments_can_come_from_standard_input(run: Run, liar: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"size": 7}'))
    outcome = run("call", "make_alpha", "-", "--command", command_line(liar().target), "--yes")
    assert '"size": 7' in outcome.output


@pytest.mark.parametrize("arguments", ["{", "[]", "5"])
def test_arguments_that_are_no_object_are_refused_before_anything_starts(run: Run, liar: Any, arguments: str):
    server = liar()
    outcome = run("call", "make_alpha", arguments, "--command", command_line(server.target), "--yes")
    assert outcome.code == 2
    assert server.asked() == []


def test_an_unknown_tool_is_answered_with_the_closest(run: Run, config: Path):
    outcome = run("call", "reverse_txet", "--config", config, "--json")
    assert outcome.code == 2
    assert "plain__reverse_text" in outcome.json["error"]["message"]
    assert outcome.json["error"]["type"] == "UnknownToolError"


def test_content_that_is_no_text_and_structured_content_alone_are_printed_as_json(run: Run, liar: Any):
    for fault, told in (("image", '"mimeType": "image/png"'), ("structured", '"sum": 5')):
        assert told in run("call", "make_alpha", "--command", command_line(liar(fault).target), "--yes").output


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
        ("search", "x", "--command", "c", "--limit", "0"),
        ("nonsense",),
    ],
)
def test_wrong_use_ends_with_two_and_says_what_is_wrong(run: Run, arguments: tuple[str, ...]):
    outcome = run(*arguments)
    assert outcome.code == 2
    assert "Error" in outcome.errors


def test_an_address_is_sent_its_headers(run: Run):
    outcome = run("servers", "--url", "http://127.0.0.1:9/mcp", "--header", "Authorization: Bearer abc", "--json")
    assert outcome.code == 1


def test_what_a_server_writes_cannot_command_the_terminal(run: Run, liar: Any):
    outcome = run("tools", "--command", command_line(liar("dressed-up").target))
    assert "\x1b" not in outcome.output
    assert "\u202e" not in outcome.output
    assert len(outcome.output.splitlines()) == 2


def test_on_a_terminal_rows_are_aligned_and_explained(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    outcome = run("search", "add two numbers", "--config", config, "--limit", "2")
    output = click.unstyle(outcome.output)
    assert "asking the servers" in outcome.errors
    heading, first, detail = output.splitlines()[:3]
    assert heading.index("score") == first.index("1.00")
    assert detail == "    Add two numbers."
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("columns", ["1", "4", "12"])
def test_a_terminal_that_is_very_narrow_is_no_crash(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch, columns: str
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", columns)
    outcome = run("search", "add two numbers", "--config", config)
    assert outcome.code == 0
    assert max(map(len, click.unstyle(outcome.output).splitlines())) <= max(int(columns), 5)


def test_a_tool_may_take_as_long_as_the_user_says(run: Run, liar: Any):
    line = command_line(liar("call-hangs").target)
    outcome = run("call", "make_alpha", "--command", line, "--yes", "--call-timeout", "0.2", "--json")
    assert (outcome.code, outcome.json["error"]["type"]) == (1, "ServerTimeoutError")


def test_an_error_of_a_server_stays_on_one_line(run: Run, liar: Any):
    outcome = run("call", "make_alpha", "--command", command_line(liar("call-refused").target), "--yes")
    assert (outcome.code, outcome.errors) == (1, "Error: no Error: all is well (-32000)\n")


@pytest.mark.parametrize("command", [(), ("search",), ("servers",), ("tools",), ("call",), ("demo",)])
def test_every_command_explains_itself(run: Run, command: tuple[str, ...]):
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert "Usage: tools-search-client" in outcome.output


def test_the_version_is_told(run: Run):
    assert "tools-search-client" in run("--version").output


def test_verbose_shows_what_the_protocol_library_logs(config: Path):
    program = [sys.executable, "-m", "tools_search_client", "servers", "--config", str(config), "--verbose"]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=30)
    assert "DEBUG" in done.stderr or "debug" in done.stderr.lower() or "httpx" in done.stderr


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


@pytest.mark.anyio
async def test_a_server_that_is_killed_while_it_is_searched_loses_only_its_own_tools(
    liar: Any, plain_server: StdioTarget, write_configuration: Write, until: Until
):
    victim = liar("hangs")
    plain = {"command": plain_server.command, "args": list(plain_server.args)}
    path = write_configuration({"plain": plain, "victim": victim.as_configured()})
    program = [sys.executable, "-m", "tools_search_client", "search", "reverse a text", "--config", str(path), "--json"]
    with anyio.fail_after(30):
        async with await anyio.open_process(program, stderr=subprocess.DEVNULL) as process:
            await until(lambda: bool(victim.asked("tools/search")))
            os.kill(victim.pid, signal.SIGKILL)
            assert process.stdout is not None
            output = b"".join([chunk async for chunk in process.stdout])
            code = await process.wait()
    answer = json.loads(output)
    assert (code, answer["tools"][0]["name"]) == (0, "plain__reverse_text")
    assert [(one["server"], one["failure"] and one["failure"]["kind"]) for one in answer["servers"]] == [
        ("plain", None),
        ("victim", "unavailable"),
    ]


@pytest.mark.parametrize("server", ["searching", "listed"])
def test_the_page_to_copy_runs_as_it_stands(server: str, reference_server: StdioTarget, plain_server: StdioTarget):
    target, query = (
        (reference_server, "create an invoice") if server == "searching" else (plain_server, "turn a text around")
    )
    program = [sys.executable, "-m", "tools_search_client.one_server", query, "--", target.command, *target.args]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=30)
    how, first = done.stdout.splitlines()[:2]
    assert ("tools/search" in how) == (server == "searching")
    assert first.startswith("'create_invoice'" if server == "searching" else "'reverse_text'")
