"""The demo as a whole, over the servers of this environment, and its output."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tools_search_client.cli import output as output_module
from tools_search_client.demo import programs
from tools_search_client.demo import stage as stage_module
from tools_search_client.demo import steps as steps_module
from tools_search_client.demo.programs import StepError
from tools_search_client.demo.stage import Stage
from tools_search_client.demo.steps import STEPS, Shown, Step

from .conftest import Run

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")
"""A warning of the tokenizer's package."""


async def broken(_: Stage) -> Shown:
    raise StepError("the floor is lava")


async def astray(_: Stage) -> Shown:
    raise subprocess.CalledProcessError(128, "git")


async def fine(_: Stage) -> Shown:
    return Shown({"seen": True}, ["all is well " * 20])


def only(monkeypatch: pytest.MonkeyPatch, steps: Mapping[str, Step], *servers: str) -> None:
    """Let the demo have these steps, and of its servers those that are named."""
    monkeypatch.setattr(steps_module, "STEPS", steps)
    if servers:
        all_of_them = stage_module.demo_servers
        chosen: Callable[..., dict[str, Any]] = lambda *how: {  # noqa: E731
            name: server for name, server in all_of_them(*how).items() if name in servers
        }
        monkeypatch.setattr(stage_module, "demo_servers", chosen)


@pytest.mark.rotating
def test_the_demo_shows_every_link_over_published_servers(run: Run, monkeypatch: pytest.MonkeyPatch):
    # Every check of the suite is run on this server by the suite's own tests, and by the demo where it is a check.
    monkeypatch.setattr(programs, "_SUITE", (*programs._SUITE, "--only", "limit-*"))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(output_module, "_SHORT_SECONDS", 0.1)
    monkeypatch.setattr(output_module, "_NOTE_SECONDS", 0.1)
    done = run("demo", "--json")
    shown = done.json
    steps = {step["step"]: step for step in shown["steps"]}
    assert (done.code, shown["ok"], shown["failed"]) == (0, True, [])
    assert shown["servers"] == ["git", "time", "excel", "fetch", "packages"]
    assert set(steps["negotiate"]["legacy"]["serverAdvertises"]) == {"extensions", "experimental"}
    assert set(steps["negotiate"]["modern"]["serverAdvertises"]) == {"extensions"}
    first = ["git__git_create_branch", "time__get_current_time", "excel__create_workbook"]
    for step in ("search", "fallback"):
        assert [search["tools"][0]["name"] for search in steps[step]["searches"]] == first
    for era in ("modern", "legacy"):
        assert next(iter(steps["negotiate"][era]["serverAdvertises"].values()))["catalogSize"] == 61
    assert steps["call"]["listRequests"] == 0
    assert [call["seen"].split(":")[0] for call in steps["call"]["calls"]] == ["git branch --list", "budget.xlsx"]
    assert (steps["meaning"]["words"], steps["meaning"]["meaning"][0]) == ([], "time__get_current_time")
    assert steps["documents"]["resources"][0] == "gateway://packages/readme://wcwidth"
    assert steps["documents"]["prompts"][0] == "fetch__fetch"
    assert {server["mode"] for server in steps["fallback"]["servers"]} == {"list"}
    assert sum(server["tools"] for server in steps["fallback"]["servers"]) == 61
    assert steps["compare"]["listing"]["tools"] == 61
    assert steps["compare"]["savedPercent"]["tokens"] > 80
    assert steps["compare"]["listing"]["messages"] >= 2
    assert "(fixture profile; stdio; 2026-07-28 and 2025-11-25; " in steps["judge"]["verdict"]
    counted = re.findall(r"judging: (\d+)/(\d+) checks", done.errors)
    assert counted
    assert all(int(done) <= int(total) for done, total in counted)


@pytest.mark.thorough
def test_a_machine_with_neither_git_nor_node_nor_a_home_shows_what_it_can(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.chdir("/")
    only(monkeypatch, {name: step for name, step in STEPS.items() if name != "judge"})
    shown = run("demo", "--json").json
    assert [step.get("problem") for step in shown["steps"]] == [None] * 7
    assert shown["servers"] == ["time", "excel", "fetch", "packages"]
    assert shown["notes"] == ["no git server: git is not installed"]


def test_a_step_that_fails_is_named_and_the_others_are_performed(run: Run, monkeypatch: pytest.MonkeyPatch):
    only(
        monkeypatch,
        {"broken": Step("Broken", broken), "astray": Step("Astray", astray), "fine": Step("Fine", fine)},
        "time",
    )
    done = run("demo", "--json")
    assert (done.code, done.json["failed"]) == (1, ["broken", "astray"])
    assert [step.get("problem") for step in done.json["steps"]] == [
        "the floor is lava",
        "CalledProcessError: Command 'git' returned non-zero exit status 128.",
        None,
    ]
    assert done.json["steps"][2]["seen"] is True


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("steps", "code", "shown"),
    [
        ({"fine": Step("Fine", fine)}, 0, "Every step succeeded over 2 servers"),
        ({"fine": Step("Fine", fine), "broken": Step("Broken", broken)}, 1, "Failed: broken"),
    ],
    ids=["succeeds", "fails"],
)
def test_on_a_terminal_each_step_is_shown_and_the_outcome_is_the_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, steps: Mapping[str, Step], code: int, shown: str
):
    only(monkeypatch, steps, "git", "time")
    done = run("demo")
    assert (done.code, shown in done.output) == (code, True)
    assert max(map(len, done.output.splitlines())) <= 103
    assert "\n1. Fine\n   all is well all is well" in done.output
    assert ("FAILED\n   the floor is lava" in done.output) == (code == 1)


def test_without_a_gateway_the_demo_says_so_and_fails(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "SERVER", ("/bin/sh", "-c", "echo no gateway today >&2; exit 1"))
    done = run("demo")
    assert done.code == 1
    assert "FAILED: tools-search-server did not start: no gateway today" in done.output
    assert "Failed: gateway" in done.output
