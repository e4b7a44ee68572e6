"""How a run goes about its cells: side by side where it can, and with one start of a server where it is to be brief."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.model import Result, Run
from tools_search_conformance.report.verdict import exit_status, verdict_of
from tools_search_conformance.run.causes import TIME_OVER
from tools_search_conformance.run.judging import RUN_SECONDS
from tools_search_conformance.run.options import Options
from tools_search_conformance.target import list_bench
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.eras import LEGACY, MODERN

pytestmark = pytest.mark.anyio

Build = Callable[..., Options]
Command = Callable[..., tuple[str, ...]]

COUNTED = "echo start >> {file}; exec {command}"
CRASHING_ONCE = "if mkdir {file}; then exec {crashing}; else exec {command}; fi"
MEETING = "touch {mine}; until [ -e {other} ]; do :; done; exec {command}"


def through_shell(script: str, command: tuple[str, ...], **files: Path) -> tuple[str, ...]:
    named = {name: shlex.quote(str(file)) for name, file in files.items()}
    return ("sh", "-c", script.format(command=shlex.join(command), **named))


async def judge(options: Options) -> Run:
    with anyio.fail_after(120):
        return await judge_server(options)


def left_out(run: Run) -> list[Result]:
    return [result for result in run.results if result.skip == "effort"]


@pytest.mark.rotating
async def test_a_quick_run_starts_a_server_once_a_cell_and_its_verdict_says_that_it_leaves_checks_out(
    options: Build, target: Command, tmp_path: Path
):
    argv = through_shell(COUNTED, target("miniature"), file=tmp_path / "starts")
    run = await judge(options(argv=argv, brief=None))
    assert (tmp_path / "starts").read_text().count("start") == len(run.cells) == 2
    assert {"search-unlisted", "stdin-closed-exits"} < {
        r.check.removeprefix("tools-search-server-") for r in left_out(run)
    }
    assert exit_status(run) == 0
    verdict = verdict_of(run)
    assert verdict["word"] == "PASSED, BUT --effort quick LEAVES CHECKS OUT"
    assert verdict["binding"]["whyNotShown"]["need more effort"] > 0


async def test_a_quick_run_over_http_starts_a_server_once_for_both_eras(
    options: Build, target: Command, tmp_path: Path
):
    argv = through_shell(COUNTED, target("miniature", "--http"), file=tmp_path / "starts")
    run = await judge(options("query-type", http_argv=argv, brief=None))
    assert [result.cell.era for result in run.results if result.status == "pass"] == [MODERN, LEGACY]
    assert (tmp_path / "starts").read_text().count("start") == 1


async def test_no_cell_is_begun_when_the_time_for_the_run_is_over_and_the_verdict_says_to_test_in_parts(
    options: Build, target: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(RUN_SECONDS, "quick", 0.0)
    run = await judge(options("limit-honored", http_argv=target("miniature", "--http")))
    assert [cell.era for cell in run.cells] == [MODERN]
    assert [(entry.cell.era, entry.reason, entry.expected) for entry in run.unavailable] == [(LEGACY, TIME_OVER, True)]
    assert [result.message for result in run.results] == [f"not finished when {TIME_OVER}"]
    assert exit_status(run) == 3
    parts = "Test it in parts, with --cell and --section or --only, or with --effort quick."
    assert verdict_of(run)["next"][0] == f"http-2025-11-25: {TIME_OVER}. {parts}"
    alone = await judge(options("limit-honored", http_argv=target("miniature", "--http"), era=MODERN))
    assert verdict_of(alone)["next"][-1] == parts


async def test_a_list_that_takes_long_to_read_is_not_read_again_after_searches(
    options: Build, target: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    listings = list[int]()
    for seconds in (60.0, 0.0):
        monkeypatch.setattr(list_bench, "_LONG_LISTING_SECONDS", seconds)
        argv = target("miniature", "--tools-alone")
        run = await judge(options("subset-of-list", argv=argv, era=MODERN, out=tmp_path / str(seconds)))
        assert [result.status for result in run.results] == ["pass"]
        log = (tmp_path / str(seconds) / "wire/stdio-2026-07-28.jsonl").read_bytes()
        exchanges = [json.loads(line) for line in log.splitlines()]
        asked = [each["sent"]["method"] for each in exchanges if each.get("check", "").endswith("subset-of-list")]
        listings.append(asked.count("tools/list"))
    assert listings[0] > listings[1]
    assert listings[1] == 0


async def test_a_server_that_ends_at_its_first_search_of_all_is_told_so_and_judged_on(
    options: Build, target: Command, tmp_path: Path
):
    script = CRASHING_ONCE.replace("{crashing}", shlex.join(target("nulls", "crash_on_search")))
    argv = through_shell(script, target("miniature"), file=tmp_path / "crashed")
    # Brief, so that no other process is started ahead, which might be the one that crashes.
    run = await judge(options("served-where-advertised", "query-blank", argv=argv, era="2026-07-28", brief=None))
    assert [(result.check.removeprefix("tools-search-server-"), result.status) for result in run.results] == [
        ("served-where-advertised", "fail"),
        ("query-blank", "pass"),
    ]
    assert "at the very first tools/search, the process ended with exit status 3" in run.results[0].message


async def test_a_quick_run_asks_over_http_what_takes_no_other_start(options: Build, target: Command):
    rules = ("search-unlisted", "no-match-empty", "max-limit-honored")
    run = await judge(options(*rules, http_argv=target("miniature", "--http"), era="2026-07-28", brief=None))
    assert [result.status for result in run.results if result.check.endswith(rules[0])] == ["pass"]
    assert [result.check.removeprefix("tools-search-server-") for result in left_out(run)] == ["max-limit-honored"]


async def test_fixtures_are_judged_over_both_transports_side_by_side_and_reported_one_after_the_other(
    options: Build, target: Command, tmp_path: Path
):
    # Each of the two programs serves once the other one has been started.
    stdio, http = tmp_path / "stdio", tmp_path / "http"
    both: dict[str, Any] = {
        "argv": through_shell(MEETING, target("miniature"), mine=stdio, other=http),
        "http_argv": through_shell(MEETING, target("miniature", "--http"), mine=http, other=stdio),
    }
    run = await judge(options("query-type", "cursor-type", **both))
    cells = ["stdio-2026-07-28", "stdio-2025-11-25", "http-2026-07-28", "http-2025-11-25"]
    assert [cell.name for cell in run.cells] == cells
    assert [result.cell.name for result in run.results] == [cell for cell in cells for _ in range(2)]
    assert exit_status(run) == 0


@pytest.mark.rotating
async def test_a_search_that_is_judged_in_full_over_stdio_is_tried_over_http_in_the_other_era(
    options: Build, target: Command
):
    argv = target("miniature", "--fault", "resources-untyped-over-http")
    run = await judge(options("definition-identity", argv=argv, http_argv=(*argv, "--http"), effort="default"))
    assert {result.cell.name: result.status for result in run.results} == {
        "stdio-2026-07-28": "pass",
        "stdio-2025-11-25": "pass",
        "http-2026-07-28": "pass",
        "http-2025-11-25": "fail",
    }


@pytest.mark.parametrize("over", ["argv", "http_argv"])
async def test_both_eras_of_a_fixture_are_judged_side_by_side(over: str, options: Build, target: Command):
    found: list[str] = []
    rules = ("query-type", "cancelled-not-answered", "cancelled-leaves-others")
    argv = target("miniature", *(["--http"] if over == "http_argv" else []))
    chosen = options(*rules, fixture_features=frozenset({"delay"}), **{over: argv})
    with anyio.fail_after(120):
        await judge_server(chosen, lambda result: found.append(result.cell.era))
    one_after_the_other = [era for era in (MODERN, LEGACY) for _ in rules]
    assert sorted(found) == sorted(one_after_the_other)
    assert found != one_after_the_other


async def test_servers_with_tools_of_their_own_are_never_running_at_once(
    options: Build, target: Command, tmp_path: Path
):
    # A second one finds the folder there, and ends.
    script = "mkdir {file} || exit 9; {command}; rmdir {file}"
    file = tmp_path / "running"
    catalog = Path(catalogs.__file__).with_name("core.json")
    argv = through_shell(script, target("miniature"), file=file)
    http = through_shell(script, target("miniature", "--http"), file=file)
    env = {"TOOLS_SEARCH_CATALOG": str(catalog)}
    run = await judge(options("query-type", argv=argv, http_argv=http, profile="live", env=env))
    assert [result.status for result in run.results] == ["pass"] * 4
