"""The commands `prompts` and `resources`."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tools_search_hosts import HttpTarget

from .conftest import Run, Write, command_line

ARCHIVE = Path(__file__).parents[3] / "reference_server" / "tests" / "servers" / "archive.py"


@pytest.fixture
def notes(write_configuration: Write, notes_servers: dict[str, HttpTarget]) -> Path:
    """Two servers with notes, and one that cannot be started."""
    servers: dict[str, object] = {name: {"url": server.url} for name, server in notes_servers.items()}
    return write_configuration(servers | {"gone": {"command": "/nowhere/program"}})


MUTE = """
import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("mute")

@server.prompt()
async def wait() -> str:
    await anyio.sleep_forever()

@server.resource("wait://ever")
async def ever() -> str:
    await anyio.sleep_forever()

server.run()
"""


@pytest.mark.rotating
@pytest.mark.parametrize("arguments", [("prompts", "mute__wait"), ("resources", "wait://ever")])
@pytest.mark.parametrize("others", [{}, {"gone": {"command": "/nowhere/program"}}])
def test_what_does_not_come_in_time_is_named_with_what_gives_it_more(
    run: Run, write_configuration: Write, arguments: tuple[str, str], others: dict[str, object]
):
    servers = {"mute": {"command": sys.executable, "args": ["-c", MUTE], "tool_timeout_sec": 0.2}}
    outcome = run(*arguments, "--config", write_configuration(servers | others))
    told = f"Error: {arguments[1]}: no answer in time: `call_timeout` in the configuration gives it more time\n"
    assert (outcome.code, outcome.errors) == (1, told)


def test_prompts_are_listed_with_their_arguments_and_one_is_filled_in(run: Run, notes: Path):
    listed = run("prompts", "--config", notes)
    assert listed.code == 0
    assert listed.output.splitlines()[1] == "ann__summary\tann\tlength\tSum up the notes."
    assert "gone failed" in listed.errors
    (ann, bob) = run("prompts", "--config", notes, "--json").json["prompts"]
    assert (ann["name"], bob["server"], bob["prompt"]["arguments"][0]["required"]) == ("ann__summary", "bob", True)
    for name in ("bob__summary", "bob:summary"):
        assert run("prompts", name, "length=10", "--config", notes).output == "Sum up what bob wrote in 10 words.\n"
    whole = run("prompts", "summary", "length=10", "--config", notes, "--server", "ann", "--json").json
    assert whole["messages"][0]["content"]["text"] == "Sum up what ann wrote in 10 words."


def test_a_prompt_is_not_requested_without_the_arguments_that_it_needs(run: Run, notes: Path):
    outcome = run("prompts", "ann:summary", "size=3", "--config", notes)
    assert (outcome.code, outcome.output) == (2, "")
    assert outcome.errors.endswith("Error: ann__summary needs length: it takes length\n")


@pytest.mark.parametrize("arguments", [["tools"], ["prompts"], ["resources"], ["search", "--prompts", "letter"]])
def test_what_a_list_that_broke_off_had_so_far_is_printed_with_what_went_wrong(
    run: Run, write_configuration: Write, tmp_path: Path, arguments: list[str]
):
    names = [f"letter_{number}" for number in range(4)]
    long = {
        "page": 2,
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names],
        "prompts": [{"name": name} for name in names],
        "resources": [{"name": name, "uri": f"letter:{name}"} for name in names],
        "faults": {f"{kind}/list 2": -32603 for kind in ("tools", "prompts", "resources")},
    }
    (tmp_path / "long.json").write_text(json.dumps(long))
    long_server = {"command": sys.executable, "args": [str(ARCHIVE), str(tmp_path / "long.json")]}
    outcome = run(*arguments, "--config", write_configuration({"long": long_server}))
    assert outcome.code == 0
    assert [name in outcome.output for name in names] == [True, True, False, False]
    assert "long failed: its list broke off after 2 entries: no (-32603)" in outcome.errors


@pytest.mark.parametrize("faults", [{"resources/templates/list 1": -32603}, {"resources/templates/list": -32603}])
def test_resources_are_listed_with_what_went_wrong_with_the_templates(
    run: Run, write_configuration: Write, tmp_path: Path, faults: dict[str, int]
):
    templates = [{"name": f"letter {number}", "uriTemplate": f"letter:{number}/{{page}}"} for number in range(2)]
    own = {"page": 1, "resources": [{"name": "letter", "uri": "letter:1"}], "resourceTemplates": [*templates, 7]}
    (tmp_path / "one.json").write_text(json.dumps(own | {"faults": faults}))
    server = {"command": sys.executable, "args": [str(ARCHIVE), str(tmp_path / "one.json")]}
    configuration = write_configuration({"one": server})
    listed, whole = run("resources", "--config", configuration), run("resources", "--config", configuration, "--json")
    assert (listed.code, "letter:1\tone" in listed.output) == (0, True)
    assert "one failed: " in listed.errors
    assert "no (-32603)" in listed.errors
    (report,) = whole.json["servers"]
    assert report["failure"]["code"] == -32603
    assert report["hits"] == 1 + len(whole.json["templates"])


def test_resources_and_templates_are_listed_and_one_is_read(run: Run, notes: Path):
    rows = [line.split("\t")[:3] for line in run("resources", "--config", notes).output.splitlines()]
    assert ["notes://of/bob", "bob", "text/plain"] in rows
    assert ["notes://{day}/all", "ann", "text/plain"] in rows
    whole = run("resources", "--config", notes, "--json").json
    assert [len(whole[kind]) for kind in ("resources", "templates", "servers")] == [4, 2, 3]
    assert run("resources", "notes://of/bob", "--config", notes).output == "bob writes.\n"
    made = run("resources", "notes://monday/all", "--config", notes, "--server", "bob", "--json").json
    assert base64.b64decode(made["contents"][0]["blob"]) == b"bob slept on monday."


def test_prompts_resources_and_templates_are_found_by_what_they_are_for(run: Run, notes: Path):
    prompts = run("search", "sum up notes", "--prompts", "--config", notes)
    assert prompts.code == 0
    assert prompts.output.splitlines()[0] == "#\tprompt\tserver\tby\tmatched\tdescription"
    assert {line.split("\t")[1] for line in prompts.output.splitlines()[1:]} == {"ann__summary", "bob__summary"}
    assert "gone failed" in prompts.errors
    own = run("search", "notes://of/bob", "--resources", "--limit", "1", "--explain", "--config", notes)
    assert own.output.splitlines()[1].split("\t")[:5] == ["1", "notes://of/bob", "bob", "list", "1"]
    assert "Searched only by name and description, not (or not yet) by content: ann, bob." in own.errors
    assert "by content" not in prompts.errors
    whole = run("search", "notes of one day", "--templates", "--config", notes, "--json").json
    assert [item["template"]["uriTemplate"] for item in whole["templates"]] == ["notes://{day}/all"] * 2
    assert [whole["templates"][0][member] for member in ("rank", "foundBy", "ownRank")] == [1, "list", 1]
    assert [report["server"] for report in whole["servers"]] == ["ann", "bob", "gone"]
    assert run("search", "zeppelins", "--resources", "--config", notes).code == 3
    assert run("search", " ", "--resources", "--config", notes).code == 2


def test_a_toolset_of_single_tools_hides_what_else_their_server_has(run: Run, notes: Path):
    document = json.loads(notes.read_text())
    document["tool_sets"] = {"bobs": {"servers": {"ann": ["none"], "bob": True}}}
    notes.write_text(json.dumps(document))
    found = run("search", "sum up notes", "--prompts", "--config", notes, "--toolset", "bobs", "--json").json
    assert [item["server"] for item in found["prompts"]] == ["bob"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("prompts", "summary"), "several servers have 'summary': choose one with --server ann or --server bob"),
        (("prompts", "bob"), "'bob' is the name of a server: use --server bob to see only what it has"),
        (("resources", "ann"), "'ann' is the name of a server: use --server ann to see only what it has"),
        (("prompts", "sumary"), "no server lists 'sumary'; the closest is summary"),
        (("resources", "notes://today"), "choose one with --server ann or --server bob"),
        (("resources", "x://y"), "no server lists 'x://y' (these servers failed: gone: "),
    ],
)
def test_a_name_that_none_or_several_have_is_refused(run: Run, notes: Path, arguments: tuple[str, ...], told: str):
    outcome = run(*arguments, "--config", notes)
    assert (outcome.code, told in outcome.errors) == (2, True), outcome.errors


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("prompts", "No server that answered has prompts to show.\n"),
        ("resources", "No server that answered has resources to show.\n"),
        ("tools", "No server that answered has tools to show.\n"),
    ],
)
def test_a_list_of_nothing_is_said_and_has_no_heading(run: Run, liar: Any, command: str, told: str):
    listed = run(command, "--command", command_line(liar(tools=0).target))
    assert (listed.code, listed.output, listed.errors) == (0, "", told)


def test_a_list_of_servers_that_all_failed_has_no_heading(run: Run):
    for command in ("tools", "prompts", "resources", "stats"):
        listed = run(command, "--command", "/nowhere/program")
        assert (listed.code, listed.output) == (1, "")
        assert listed.errors.startswith("the server failed: ")
        assert listed.errors.count("\n") == 1
