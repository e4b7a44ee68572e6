"""The demo: the whole of it over the servers of this environment, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import CallToolResult, JSONRPCRequest, JSONRPCResponse, TextContent, Tool
from tools_search_client.__main__ import main
from tools_search_client.cli import demo as demo_module
from tools_search_client.demo import programs, workspace
from tools_search_client.demo.installation import Installation, cache_folder, install_extra_servers
from tools_search_client.demo.stage import Shown, Stage, StepError, StepReport, WireMeter
from tools_search_client.demo.steps import MEASURED, call, compare, fall_back, judge, negotiate, queries, search
from tools_search_client.demo.story import STEPS, Demo, Step, play
from tools_search_client.demo.workspace import (
    Workspace,
    demo_servers,
    make_workspace,
    missing_packages,
    missing_servers,
)
from tools_search_client.federation.federation import Federation
from tools_search_client.found import (
    FederatedListing,
    FederatedSearch,
    FoundTool,
    ServerDescription,
    ServerReport,
)

DEMO = [sys.executable, "-m", "tools_search_client", "demo"]

Ran = subprocess.CompletedProcess[str]


def test_the_demo_shows_every_link_over_published_servers():
    done = subprocess.run([*DEMO, "--json"], capture_output=True, text=True, timeout=300, check=False)
    shown = json.loads(done.stdout)
    steps = {step["step"]: step for step in shown["steps"]}
    assert (done.returncode, shown["ok"], shown["failed"]) == (0, True, [])
    assert shown["servers"] == ["git", "time", "excel"]
    assert set(steps["negotiate"]["legacy"]["serverAdvertises"]) == {"extensions", "experimental"}
    assert set(steps["negotiate"]["modern"]["serverAdvertises"]) == {"extensions"}
    first = ["git__git_create_branch", "time__get_current_time", "excel__create_workbook"]
    for step in ("search", "fallback"):
        assert [search["tools"][0]["name"] for search in steps[step]["searches"]] == first
    for era in ("modern", "legacy"):
        assert next(iter(steps["negotiate"][era]["serverAdvertises"].values()))["catalogSize"] == 60
    assert steps["call"]["listRequests"] == 0
    assert [call["seen"].split(":")[0] for call in steps["call"]["calls"]] == ["git branch --list", "budget.xlsx"]
    assert {server["mode"] for server in steps["fallback"]["servers"]} == {"list"}
    assert sum(server["tools"] for server in steps["fallback"]["servers"]) == 60
    assert steps["compare"]["listing"]["tools"] == 60
    assert steps["compare"]["savedPercent"]["tokens"] > 80
    assert steps["compare"]["listing"]["messages"] >= 2
    assert "CONFORMANT" in steps["judge"]["verdict"]
    counted = re.findall(r"judging: (\d+)/(\d+) checks", done.stderr)
    assert counted
    assert all(int(done) <= int(total) for done, total in counted)


def test_what_is_said_of_the_ranking_is_what_was_measured():
    records = (Path(__file__).parents[3] / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    means = records.partition("Means over the sets")[2]
    row = re.search(r"^\| fielded \| (\S+) \| (\S+) \|", means, re.MULTILINE)
    assert row is not None
    assert tuple(round(100 * float(share)) for share in row.groups()) == MEASURED


def pretend(monkeypatch: pytest.MonkeyPatch, run: Callable[[Sequence[str]], Ran]) -> list[Sequence[str]]:
    """Replace the programs that install by `run`, and return the list of what was run."""
    commands: list[Sequence[str]] = []

    def record(command: Sequence[str], **_: Any) -> Ran:
        commands.append(command)
        return run(command)

    monkeypatch.setattr(subprocess, "run", record)
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return commands


def finished(command: Sequence[str], code: int = 0, output: str = "", errors: str = "") -> Ran:
    return subprocess.CompletedProcess(command, code, output, errors)


def test_extra_servers_are_installed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def run(command: Sequence[str]) -> Ran:
        if "venv" in command:
            Path(command[-1]).mkdir()
        return finished(command, output="v22.1.0" if command[-1] == "--version" else "")

    commands = pretend(monkeypatch, run)
    said: list[str] = []
    first = install_extra_servers(tmp_path, said.append)
    again = install_extra_servers(tmp_path, said.append)
    assert (first.notes, len(said)) == ((), 2)
    assert first.legacy_server == again.legacy_server == tmp_path / "python-legacy/bin/mcp-server-sqlite"
    assert first.node_programs == again.node_programs == tmp_path / "node/node_modules/.bin"
    assert sum("install" in command for command in commands) == 2


def test_what_cannot_be_installed_is_done_without_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def run(command: Sequence[str]) -> Ran:
        if command[-1] == "--version":
            return finished(command, output="v22.1.0")
        if command[0].endswith("npm"):
            raise subprocess.TimeoutExpired(command, 300)
        return finished(command, code=1, errors="trying\nERROR: no network\n")

    pretend(monkeypatch, run)
    installed = install_extra_servers(tmp_path, lambda _: None)
    assert (installed.legacy_server, installed.node_programs) == (None, None)
    assert "ERROR: no network" in installed.notes[0]
    assert "timed out" in installed.notes[1]


@pytest.mark.parametrize("version", ["v16.20.0", "", "garbage"])
def test_an_old_node_is_no_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str):
    pretend(monkeypatch, lambda command: finished(command, code=0 if command[-1] == "--version" else 1, output=version))
    installed = install_extra_servers(tmp_path, lambda _: None)
    assert "Node.js 18" in installed.notes[1]


def test_a_machine_without_node_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pretend(monkeypatch, lambda command: finished(command, code=1))
    monkeypatch.setattr(shutil, "which", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    notes = install_extra_servers(tmp_path, lambda _: None).notes
    assert "Node.js 18" in notes[1]
    assert "ended with 1" in notes[0]


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "mcp-ext-tools-search/demo"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/mcp-ext-tools-search/demo"


def test_the_servers_are_those_that_this_machine_can_run(tmp_path: Path):
    everything = Installation(tmp_path / "sqlite", tmp_path / "bin", (), 1.0)
    assert list(demo_servers(Workspace(tmp_path), everything)) == [
        *("git", "time", "excel", "sqlite"),
        *("everything", "files", "memory"),
    ]
    nothing = Installation(None, None, ("without Node",), 0.0)
    gitless = Workspace(tmp_path, no_git="git is not on this machine")
    assert list(demo_servers(gitless, nothing)) == ["time", "excel"]
    assert missing_servers(gitless, nothing) == ("without the git server: git is not on this machine", "without Node")


def test_a_machine_without_git_has_no_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(workspace, "git_program", lambda: None)
    made = make_workspace(tmp_path)
    assert (made.repository.exists(), made.database.exists()) == (False, True)
    assert made.no_git == "git is not on this machine"


def test_a_git_that_refuses_to_work_costs_its_server_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\necho 'fatal: no' >&2\nexit 128\n")
    broken.chmod(0o755)
    monkeypatch.setattr(workspace, "git_program", lambda: str(broken))
    (tmp_path / "work").mkdir()
    assert make_workspace(tmp_path / "work").no_git == "git does not work: fatal: no"


def test_a_cache_that_cannot_be_written_is_done_without_and_named(tmp_path: Path):
    (tmp_path / "file").touch()
    installed = install_extra_servers(tmp_path / "file" / "demo", lambda _: None)
    assert (installed.legacy_server, installed.node_programs) == (None, None)
    assert installed.notes == (
        f"without the extra servers: {tmp_path}/file/demo cannot be written (Not a directory); "
        "set XDG_CACHE_HOME to a folder of yours",
    )


def test_of_what_npm_says_the_reason_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    said = (
        "npm error code ENOTFOUND\nnpm error network request to http://registry/x failed, reason: no such host\n"
        "npm error network This is a problem related to network connectivity.\n"
        "npm error A complete log of this run can be found in: /x/debug-0.log\n"
    )

    def run(command: Sequence[str]) -> Ran:
        return finished(command, output="v22.1.0") if command[-1] == "--version" else finished(command, 1, errors=said)

    pretend(monkeypatch, run)
    notes = install_extra_servers(tmp_path, lambda _: None).notes
    assert notes[1].endswith("network request to http://registry/x failed, reason: no such host")


def test_packages_that_are_missing_are_named_with_the_command_that_brings_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert missing_packages() == []
    monkeypatch.setattr(workspace, "find_spec", lambda module: None if module == "excel_mcp" else module)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"needs excel-mcp-server. Install the extra [demo]: {sys.executable} -m pip install" in told
    assert "'mcp-ext-tools-search[demo]' (from a checkout: pip install '.[demo]')" in told


async def broken(_: Stage) -> Shown:
    raise StepError("the floor is lava")


async def astray(_: Stage) -> Shown:
    raise subprocess.CalledProcessError(128, "git")


async def fine(_: Stage) -> Shown:
    return Shown({"seen": True}, ["all is well " * 20])


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")  # of the tokenizer's package
async def test_a_machine_with_neither_git_nor_node_nor_a_home_shows_what_it_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.chdir("/")
    steps = {name: step for name, step in STEPS.items() if name != "judge"}
    opened: list[tuple[str, ...]] = []

    def open_with(servers: tuple[str, ...], notes: tuple[str, ...]) -> None:
        opened.extend((servers, notes))

    with anyio.fail_after(200):
        performed = await play(None, steps=steps, open_with=open_with, announce=print, show=print)
    assert [report.problem for report in performed.steps] == [None] * len(steps)
    assert opened == [("time", "excel"), ("without the git server: git is not on this machine",)]


@pytest.mark.anyio
async def test_a_step_that_fails_is_named_and_the_others_are_performed():
    titles: list[str] = []
    reports: list[StepReport] = []
    steps = {"broken": Step("Broken", broken), "astray": Step("Astray", astray), "fine": Step("Fine", fine)}
    with anyio.fail_after(60):
        performed = await play(None, steps=steps, announce=titles.append, show=reports.append)
    assert performed.failed == ("broken", "astray")
    assert [report.problem for report in reports] == [
        "the floor is lava",
        "CalledProcessError: Command 'git' returned non-zero exit status 128.",
        None,
    ]
    assert titles == ["Broken", "Astray", "Fine"]
    assert performed.to_json()["steps"][2]["seen"] is True


@pytest.mark.anyio
async def test_a_gateway_that_does_not_start_is_a_failure_with_its_last_words(tmp_path: Path):
    with anyio.fail_after(60), pytest.raises(StepError) as failed:
        async with programs.running_gateway(tmp_path / "nowhere.json"):
            raise NotImplementedError
    assert "nowhere.json" in str(failed.value)


@pytest.mark.anyio
async def test_a_suite_that_gives_no_verdict_is_a_failure():
    with anyio.fail_after(60), pytest.raises(StepError) as failed:
        await programs.conformance_report(["/nowhere/program"], lambda _: None)
    assert "no verdict (exit code 3)" in str(failed.value)
    assert "/nowhere/program" in str(failed.value)


@pytest.mark.anyio
async def test_a_suite_that_shows_no_sign_of_life_is_ended_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ended = tmp_path / "ended"
    silent = f"trap 'touch {ended}; exit 1' TERM; echo ready; while :; do read -t 1 _ <&3; done 3<>{tmp_path}/pipe"
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(programs, "_SUITE", ("bash", "-c", silent))
    monkeypatch.setattr(programs, "_SILENT_SECONDS", 2)
    with anyio.fail_after(60), pytest.raises(StepError, match="ran no check for 2 seconds"):
        await programs.conformance_report(["server"], lambda _: None)
    assert ended.exists()


@pytest.mark.anyio
async def test_a_server_that_does_not_conform_fails_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    async def judged(_: Sequence[str], __: Callable[[str], None]) -> dict[str, Any]:
        return {"verdict": {"exitStatus": 1, "text": "NOT CONFORMANT: 1 MUST check failed"}, "cells": []}

    monkeypatch.setattr("tools_search_client.demo.steps.conformance_report", judged)
    with pytest.raises(StepError, match="NOT CONFORMANT"):
        await judge(staged(Gateway(), tmp_path))


@pytest.mark.anyio
async def test_a_server_that_does_not_answer_fails_the_fallback(tmp_path: Path):
    stage = Stage(Workspace(tmp_path), tmp_path / "mcp.json", {}, "", None, None)  # pyright: ignore[reportArgumentType]
    stage.configuration.write_text(json.dumps({"mcpServers": {"gone": {"command": "/nowhere/program"}}}))
    with anyio.fail_after(30), pytest.raises(StepError, match="gone"):
        await fall_back(stage)


def performed(problem: str | None) -> Demo:
    step = StepReport("search", "Search", 0.1, Shown({}, ["x" * 100]), problem)
    return Demo(("git",), (), (step,), 1.0, 0.0)


@pytest.mark.parametrize(
    ("problem", "code", "told"), [(None, 0, "Every step succeeded"), ("broke", 1, "Failed: search")]
)
def test_on_a_terminal_each_step_is_shown_and_the_outcome_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: str | None, code: int, told: str
):
    async def play_it(
        _: object, *, announce: Callable[[str], None], show: Callable[[StepReport], None], **__: object
    ) -> Demo:
        announce(STEPS["search"].title)
        result = performed(problem)
        show(result.steps[0])
        return result

    monkeypatch.setattr(demo_module, "play", play_it)
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    output = capsys.readouterr().out
    assert (ended.value.code, told in output) == (code, True)
    assert max(map(len, output.splitlines())) <= 103
    assert (problem or "") in output


def test_without_a_gateway_the_demo_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    async def play_it(*_: object, **__: object) -> Demo:
        raise StepError("no gateway today")

    monkeypatch.setattr(demo_module, "play", play_it)
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    output = capsys.readouterr().out
    assert ended.value.code == 1
    assert "no gateway today" in output


async def call_workbook(stage: Stage) -> Shown:
    del stage.answers["create a new branch"]
    return await call(stage)


def staged(gateway: object, folder: Path) -> Stage:
    meter = WireMeter()
    searches = queries(Workspace(folder))
    stage = Stage(Workspace(folder), folder / "mcp.json", searches, "", cast("Federation", gateway), meter)
    stage.answers = {
        "create a new branch": FederatedSearch((), ()),
        "create a new Excel workbook": found("excel__create_workbook"),
    }
    return stage


def found(name: str) -> FederatedSearch:
    tool = Tool(name=name, input_schema={"type": "object"})
    return FederatedSearch((FoundTool(name, "", tool, HitMetadata(), "search"),), ())


class Gateway:
    """A gateway that says what it is told to say."""

    def __init__(self, said: str = "done", *, is_error: bool = False) -> None:
        self.result = CallToolResult(content=[TextContent(text=said)], is_error=is_error)

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        return self.result

    async def search(self, query: str, *, limit: int) -> FederatedSearch:
        report = ServerReport("", "list", "modern", 1.0)
        return FederatedSearch(found("x").tools, (report,))

    def forget(self) -> None:
        """There is nothing."""

    async def list(self) -> FederatedListing:
        return FederatedListing((), ())

    async def describe(self, *, deadline: float | None) -> tuple[ServerDescription, ...]:
        return (ServerDescription(ServerReport("", "search", "modern", 1.0)),)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("step", "gateway", "told"),
    [
        (call, Gateway(), "did not find git__git_create_branch first but nothing"),
        (call_workbook, Gateway("out of paper", is_error=True), "out of paper"),
        (call_workbook, Gateway(), "nothing has changed"),
        (search, Gateway(), "was not answered by tools/search"),
        (compare, Gateway(), "nothing to compare"),
        (negotiate, Gateway(), "no server/discover"),
    ],
)
async def test_a_step_believes_only_what_it_sees(
    step: Callable[[Stage], Awaitable[Shown]], gateway: Gateway, told: str, tmp_path: Path
):
    with pytest.raises(StepError, match=told):
        await step(staged(gateway, tmp_path))


@pytest.mark.anyio
async def test_a_gateway_that_does_not_advertise_fails_the_negotiation(tmp_path: Path):
    stage = staged(Gateway(), tmp_path)
    stage.meter.sent(JSONRPCRequest(jsonrpc="2.0", id=1, method="server/discover"))
    stage.meter.received(JSONRPCResponse(jsonrpc="2.0", id=1, result={"capabilities": {"experimental": {}}}))
    with pytest.raises(StepError, match="does not advertise"):
        await negotiate(stage)
