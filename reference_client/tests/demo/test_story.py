"""The demo as a whole, over the servers of this environment, and its output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tools_search_client.__main__ import main
from tools_search_client.cli import demo as demo_module
from tools_search_client.demo.stage import Shown, Stage, StepError, StepReport
from tools_search_client.demo.story import STEPS, Demo, Step, play

DEMO = [sys.executable, "-m", "tools_search_client", "demo"]


async def broken(_: Stage) -> Shown:
    raise StepError("the floor is lava")


async def astray(_: Stage) -> Shown:
    raise subprocess.CalledProcessError(128, "git")


async def fine(_: Stage) -> Shown:
    return Shown({"seen": True}, ["all is well " * 20])


def performed(problem: str | None) -> Demo:
    step = StepReport("search", "Search", 0.1, Shown({}, ["x" * 100]), problem)
    return Demo(("git",), (), (step,), 1.0, 0.0)


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
