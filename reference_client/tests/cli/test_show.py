"""The commands `servers`, `tools`, `search` and `stats`: what they print, and the code they end with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_hosts import HttpTarget, StdioTarget

from .conftest import Run, Until, Write, command_line


def test_tools_are_shown_as_loaded_or_deferred_where_they_are_loaded_on_demand(
    run: Run, liar: Any, plain_server: HttpTarget, write_configuration: Write
):
    plain = {"url": plain_server.url}
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


def test_stats_show_the_cost_of_listing_and_the_savings_of_finding_on_demand(
    run: Run, reference_server: HttpTarget, plain_server: HttpTarget, write_configuration: Write
):
    many = {"url": reference_server.url, "defer_loading": True}
    config = write_configuration({"plain": {"url": plain_server.url}, "many": many})
    document = json.loads(config.read_text()) | {"tool_discovery": {"enabled": True}}
    config.write_text(json.dumps(document))
    outcome = run("stats", "--config", config, "--json")
    assert outcome.code == 0
    servers, first = outcome.json["servers"], outcome.json["firstRequest"]
    assert list(servers) == ["many", "plain"]  # the dearest first
    for count in ("definitions", "tokens"):
        assert first["listed"][count] == servers["many"][count] + servers["plain"][count]
    # `search_tools`, and the tools of the server that is not deferred.
    assert first["asConfigured"]["definitions"] == servers["plain"]["definitions"] + 1
    assert first["onDemand"]["definitions"] == 1
    assert first["onDemand"]["tokens"] < first["asConfigured"]["tokens"] < first["listed"]["tokens"]
    assert "less" in run("stats", "--config", config).errors


def test_stats_never_say_that_all_is_saved_or_that_a_server_costs_nothing(
    run: Run, tmp_path: Path, plain_server: HttpTarget, write_configuration: Write
):
    tools = [
        {"server": "big", "name": f"t{number}", "description": "does it " * 400, "inputSchema": {"type": "object"}}
        for number in range(200)
    ]
    (tmp_path / "tools.jsonl").write_text("".join(f"{json.dumps(tool)}\n" for tool in tools))
    program = Path(__file__).parents[1] / "fixtures" / "servers" / "listing.py"
    entry = {"command": sys.executable, "args": [str(program), str(tmp_path / "tools.jsonl"), "big"]}
    outcome = run("stats", "--config", write_configuration({"big": entry, "plain": {"url": plain_server.url}}))
    assert ", 99% less." in outcome.errors
    (small,) = [line.split() for line in outcome.output.splitlines() if line.startswith("plain")]
    assert small[-1] == "<1%"


def test_stats_of_few_tools_say_that_nothing_is_saved(run: Run, plain_server: HttpTarget, write_configuration: Write):
    config = write_configuration({"plain": {"url": plain_server.url}})
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


def test_search_prints_plain_lines_into_a_pipe_and_failures_on_standard_error(run: Run, config: Path):
    outcome = run("search", "add two numbers", "--config", config, "--limit", "1")
    heading, first = outcome.output.splitlines()
    assert heading.split("\t") == ["#", "tool", "by", "matched", "description"]
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
    run: Run, plain_server: HttpTarget, tmp_path: Path, stated: dict[str, Any], options: list[str], finds: bool
):
    path = tmp_path / "confident.json"
    plain = {"url": plain_server.url}
    path.write_text(json.dumps({"mcpServers": {"plain": plain}, "tool_discovery": stated}))
    outcome = run("search", "reverse the second season", "--config", str(path), *options)
    assert outcome.code == 0
    assert bool(outcome.output) == finds


def test_a_search_without_a_match_says_that_this_is_no_proof(run: Run, plain_server: HttpTarget):
    outcome = run("search", "xylophone", "--url", plain_server.url)
    assert (outcome.code, outcome.output) == (0, "")
    assert "does not mean that there is none" in outcome.errors


def test_a_search_that_was_listed_instead_says_why(run: Run, liar: Any):
    outcome = run("search", "alpha", "--command", command_line(liar("refuses:-32603").target))
    assert outcome.code == 0
    assert "the server: listed instead of searched" in outcome.errors
    assert "\x1b" not in outcome.errors


def test_nothing_found_while_some_server_failed_is_incomplete(
    run: Run, plain_server: HttpTarget, write_configuration: Write
):
    plain = {"url": plain_server.url}
    path = write_configuration({"plain": plain, "gone": {"command": "/nowhere/program"}})
    assert run("search", "xylophone", "--config", path).code == 3


@pytest.mark.parametrize("command", [("search", "x"), ("search", "x", "--prompts"), ("tools",), ("servers",)])
def test_when_every_server_fails_the_command_fails(run: Run, write_configuration: Write, command: tuple[str, ...]):
    path = write_configuration({"gone": {"command": "/nowhere/program"}})
    outcome = run(*command, "--config", path)
    assert outcome.code == 1
    assert outcome.errors.startswith("gone failed: '/nowhere/program' was not found")  # and nothing about words


def test_the_only_servers_tools_keep_their_own_names(run: Run, liar: Any):
    outcome = run("search", "alpha", "--command", command_line(liar().target), "--limit", "1", "--json")
    assert [tool["name"] for tool in outcome.json["tools"]] == ["make_alpha"]


def test_servers_shows_what_each_offers(run: Run, config: Path):
    outcome = run("servers", "--config", config)
    rows = [line.split("\t") for line in outcome.output.splitlines()]
    assert rows[0] == ["server", "protocol", "mode", "tools", "ms", "program"]
    assert [[*row[:4], row[5]] for row in rows[1:]] == [
        ["one", "2026-07-28 modern", "search", "6", "-"],
        ["plain", "2026-07-28 modern", "list", "3", "plain 1.0"],
        ["gone", "-", "failed", "-", "-"],
    ]
    assert outcome.code == 0


def test_servers_as_json_has_the_settings(run: Run, config: Path):
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
        "the server: 3 tools are left out because their definitions are invalid or repeat a name\n",
    )
    assert run(*command, "--command", line, "--json").json["servers"][0]["leftOut"] == 3


def test_a_tool_that_has_the_name_of_another_is_not_lost_in_silence(run: Run, liar: Any):
    outcome = run("tools", "--command", command_line(liar("list-twins", place="nowhere").target))
    left_out = "the server: one tool is left out because its definition is invalid or repeats a name\n"
    assert (outcome.code, outcome.errors, len(outcome.output.splitlines())) == (0, left_out, 7)


def test_tools_lists_every_tool_by_the_name_to_call_it_by(run: Run, config: Path):
    names = [line.split("\t")[0] for line in run("tools", "--config", config).output.splitlines()[1:]]
    assert len(names) == 9
    assert {"one__make_alpha", "plain__reverse_text"} <= set(names)
    as_json = run("tools", "--config", config, "--json").json
    assert [tool["name"] for tool in as_json["tools"]] == names


def test_text_of_a_server_cannot_command_the_terminal(run: Run, liar: Any):
    outcome = run("tools", "--command", command_line(liar("dressed-up").target))
    assert "\x1b" not in outcome.output
    assert "\u202e" not in outcome.output
    assert len(outcome.output.splitlines()) == 2


@pytest.mark.anyio
async def test_a_server_that_is_killed_while_it_is_searched_loses_only_its_own_tools(
    liar: Any, plain_server: HttpTarget, write_configuration: Write, until: Until
):
    victim = liar("hangs")
    plain = {"url": plain_server.url}
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
    assert [(server["server"], server["failure"] and server["failure"]["kind"]) for server in answer["servers"]] == [
        ("plain", None),
        ("victim", "unavailable"),
    ]


@pytest.fixture
def two_servers(liar: Any, plain_server: HttpTarget, write_configuration: Write) -> Path:
    """One server that is searched and one that is listed, with toolsets."""
    plain = {"url": plain_server.url}
    config = write_configuration({"one": liar().as_configured(), "plain": plain})
    sets = {"few": {"servers": {"plain": {"exclude": ["reverse_text"]}}}, "alpha": {"servers": {"one": ["make_alpha"]}}}
    config.write_text(json.dumps(json.loads(config.read_text()) | {"tool_sets": sets}))
    return config


def test_explain_says_which_server_found_a_tool_how_and_where_it_stood_there(run: Run, two_servers: Path):
    lines = run("search", "alpha numbers", "--config", two_servers, "--explain").output.splitlines()
    assert lines[0].split("\t") == ["#", "tool", "server", "by", "rank", "matched", "description"]
    shown = {cells[1]: cells[2:5] for cells in (line.split("\t") for line in lines[1:])}
    assert shown["one__make_alpha"] == ["one", "search", "1"]
    assert shown["plain__add_numbers"] == ["plain", "list", "1"]
    ranked = run("search", "alpha numbers", "--config", two_servers, "--json").json["tools"]
    assert {tool["name"]: tool["ownRank"] for tool in ranked}["plain__add_numbers"] == 1


def test_no_score_is_shown_as_the_best_of_a_bad_lot_would_have_the_highest(run: Run, two_servers: Path):
    for options in ((), ("--server", "one"), ("--explain",)):
        assert "score" not in run("search", "alpha", "--config", two_servers, *options).output.splitlines()[0]


def test_words_that_no_tool_found_mentions_are_named(run: Run, two_servers: Path):
    said = "None of the tools found mentions: pharaoh."
    asked = run("search", "add the numbers of the pharaoh", "--config", two_servers)
    assert (said in asked.output + asked.errors, "plain__add_numbers" in asked.output) == (True, True)
    asked = run("search", "add numbers", "--config", two_servers)
    assert "mentions" not in asked.output + asked.errors


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--server", "plain"), ["plain__add_numbers", "plain__reverse_text", "plain__fail_always"]),
        (("--toolset", "few"), ["plain__add_numbers", "plain__fail_always"]),
        (("--toolset", "alpha"), ["one__make_alpha"]),
        (("--toolset", "few", "--server", "one"), []),
    ],
)
def test_servers_and_toolsets_narrow_what_is_listed(run: Run, two_servers: Path, options: Any, names: list[str]):
    listed = run("tools", "--config", two_servers, "--json", *options).json
    assert [tool["name"] for tool in listed["tools"]] == names
    costs = run("stats", "--config", two_servers, "--json", *options).json
    assert costs["firstRequest"]["listed"]["definitions"] == len(names)


def test_servers_and_toolsets_narrow_what_is_found_described_and_called(run: Run, two_servers: Path):
    narrowed = ("--config", two_servers, "--toolset", "few")
    found = run("search", "reverse text or add numbers", *narrowed, "--limit", "2", "--json").json["tools"]
    assert [tool["name"] for tool in found] == ["plain__add_numbers"]
    for command in (("describe", "reverse_text"), ("call", "reverse_text", "text=a", "--yes")):
        outcome = run(*command, *narrowed)
        assert outcome.code == 2
        assert "plain__reverse_text is not in the toolset 'few'" in outcome.errors
    assert run("call", "add_numbers", "first=1", "second=1", "--yes", *narrowed).output == "2\n"
    assert run("describe", "add_numbers", *narrowed, "--server", "one").code == 2


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--server", "plan"), "no server is named 'plan'; the closest is 'plain'"),
        (("--toolset", "fw"), "no toolset is named 'fw'; the closest is 'few'"),
    ],
)
def test_an_unknown_server_or_toolset_is_answered_with_the_closest(
    run: Run, two_servers: Path, option: tuple[str, str], told: str
):
    outcome = run("tools", "--config", two_servers, *option)
    assert outcome.code == 2
    assert told in outcome.errors


def test_a_server_cannot_be_chosen_where_there_is_only_one_without_a_name(run: Run, plain_program: StdioTarget):
    for target in (("--command", command_line(plain_program)), ("--url", "http://127.0.0.1:9/mcp")):
        outcome = run("tools", *target, "--server", "plain")
        assert outcome.code == 2
        assert "--server chooses among the servers of --config or --host" in outcome.errors
