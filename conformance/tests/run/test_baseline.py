"""Baselines: what is known not to pass does not count, and no entry outlives its failure unseen."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli import cli
from tools_search_conformance.model import Cell, Result, Run, Status
from tools_search_conformance.report.ci import junit
from tools_search_conformance.report.document import report
from tools_search_conformance.report.verdict import exit_status, verdict_of
from tools_search_conformance.run.baseline import BaselineError, Entry, baseline_for, read_baseline, settle
from tools_search_conformance.wire.eras import LEGACY, MODERN

Command = Callable[..., tuple[str, ...]]
FIRST, SECOND = Cell(transport="stdio", era=MODERN), Cell(transport="http", era=LEGACY)
CHECK = "tools-search-server-limit-clamped"
TODAY = date(2026, 11, 21)


def run_of(*statuses: Status, **rest: Any) -> Run:
    results = tuple(
        Result(check=CHECK, level="MUST", cell=cell, status=status, message="so it went")
        for cell, status in zip((FIRST, SECOND), statuses, strict=False)
    )
    target = {"servers": [{"transport": "stdio", "argv": ["x"]}]}
    known: dict[str, Any] = {"target": target, "profile": "fixture", "effort": "quick", "seed": 1, "started": ""} | rest
    return Run(**known, seconds=1, checks=SERVER_CHECKS.all, cells=(FIRST, SECOND), unavailable=(), results=results)


def entry(**rest: Any) -> tuple[Entry, ...]:
    return (Entry(check=CHECK, reason="being mended", **rest),)


@pytest.mark.parametrize("status", ["fail", "unverified"])
def test_what_is_expected_does_not_count(status: Status):
    run = settle(run_of(status, status), entry(), TODAY)
    assert exit_status(run) == 0
    assert verdict_of(run)["word"] == "NO WORSE THAN THE BASELINE"
    assert verdict_of(run)["sentence"].endswith(
        "0 MUST checks shown, 0 not shown, 1 check did not pass, as the baseline expects"
    )
    assert [result["expected"] for result in report(run)["results"]] == ["being mended"] * 2
    assert 'failures="0"' in junit(run, report(run))


def test_an_entry_covers_its_cells_only():
    run = settle(run_of("fail", "fail"), entry(cells=("http-*",)), TODAY)
    assert exit_status(run) == 1
    assert [result.expected for result in run.results] == [None, "being mended"]


@pytest.mark.parametrize(
    ("statuses", "rest", "problem"),
    [
        (("pass", "fail"), {}, f"{CHECK} passes in stdio-2026-07-28: remove it"),
        (("fail", "fail"), {"expires": date(2026, 11, 20)}, f"{CHECK} expired on 2026-11-20"),
    ],
)
def test_an_entry_that_is_no_longer_true_fails_the_run(statuses: Any, rest: dict[str, Any], problem: str):
    run = settle(run_of(*statuses), entry(**rest), TODAY)
    assert run.stale == (problem,)
    assert exit_status(run) == 1


def test_a_stale_entry_alone_is_told_as_such():
    run = settle(run_of("pass", "pass"), entry(cells=("stdio-*",)), TODAY)
    assert verdict_of(run)["word"] == "STALE BASELINE"
    assert "): tools-search-server-limit-clamped passes in stdio-2026-07-28: remove it" in verdict_of(run)["sentence"]


def test_an_entry_holds_until_its_last_day():
    assert exit_status(settle(run_of("fail"), entry(expires=TODAY), TODAY)) == 0


def test_a_check_that_was_not_run_is_no_reason_to_complain():
    run = settle(run_of(), entry(), TODAY)
    assert (run.stale, exit_status(run)) == ((), 0)


def test_a_baseline_is_read(tmp_path: Path):
    file = tmp_path / "baseline.yaml"
    file.write_text(
        "- check: limit-clamped\n  reason: being mended\n  cells: [http-*]\n  expires: 2027-03-31\n  issue: '#12'\n"
    )
    (read,) = read_baseline(file, SERVER_CHECKS.all)
    assert read == Entry(check=CHECK, reason="being mended", cells=("http-*",), expires=date(2027, 3, 31))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot read"),
        ("check: limit-clamped", "not a list"),
        ("- limit-clamped", "entry 1 must have"),
        ("- {check: limit-clamped}", "entry 1 must have"),
        ("- {check: limit-clamped, reason: x, cell: y}", "entry 1 must have"),
        ("- {check: limit-clampd, reason: x}", "there is no check"),
        ("- {check: limit-clampd, reason: x}", "did you mean limit-clamped"),
        ("- {check: http-method-header, reason: x, cells: [stdio-*]}", "does not apply in stdio-*"),
        ("- {check: limit-clamped, reason: ' '}", "as text"),
        ("- {check: limit-clamped, reason: x, cells: [smoke-*]}", "there is no cell 'smoke-*'"),
        ("- {check: limit-clamped, reason: x, cells: []}", "there is no cell"),
        ("- {check: limit-clamped, reason: x, expires: soon}", "a date such as"),
    ],
)
def test_a_baseline_that_would_do_nothing_is_refused(text: str, told: str, tmp_path: Path):
    file = tmp_path / "baseline.yaml"
    file.write_text(text)
    with pytest.raises(BaselineError, match=told.replace("*", r"\*")):
        read_baseline(file, SERVER_CHECKS.all)
    used = click.testing.CliRunner().invoke(cli.cli, ["server", "--baseline", str(file), "--", "x"])
    assert used.exit_code == 2


def test_a_missing_baseline_is_refused(tmp_path: Path):
    with pytest.raises(BaselineError, match="cannot read"):
        read_baseline(tmp_path / "nowhere.yaml", SERVER_CHECKS.all)


def test_a_run_with_a_baseline_shows_what_it_expected(target: Command, tmp_path: Path):
    file = tmp_path / "baseline.yaml"
    file.write_text("- {check: limit-invalid, reason: being mended}\n- {check: limit-honored, reason: never true}\n")
    asked = ["--baseline", str(file), "--only", "limit-*", "--era", MODERN, "--effort", "quick"]
    asked += ["--out", str(tmp_path / "report")]
    command = ["server", *asked, "--", *target("miniature", "--fault", "limit-zero-served")]
    ended = click.testing.CliRunner().invoke(cli.cli, command)
    assert ended.exit_code == 1
    assert "expected  tools-search-server-limit-invalid  (stdio-2026-07-28)\n      being mended" in ended.output
    assert "STALE  tools-search-server-limit-honored passes in stdio-2026-07-28: remove it" in ended.output


@pytest.mark.parametrize("fault", [[], ["--fault", "cursor-empty"]])
def test_an_entry_about_advice_changes_nothing(target: Command, tmp_path: Path, fault: list[str]):
    file = tmp_path / "baseline.yaml"
    file.write_text("- {check: cursor-nonempty, reason: since the first edition, expires: 2026-01-01}\n")
    asked = ["--baseline", str(file), "--only", "cursor-nonempty", "--era", MODERN, "--out", str(tmp_path / "report")]
    ended = click.testing.CliRunner().invoke(cli.cli, ["server", *asked, "--", *target("miniature", *fault)])
    assert ended.exit_code == 0, ended.output
    document = json.loads((tmp_path / "report" / "report.json").read_bytes())
    (result,) = document["results"]
    assert result["status"] == ("advice" if fault else "pass")
    assert "expected" not in result
    assert document["staleBaseline"] == []
    assert yaml.safe_load(baseline_for(document)) == []


def test_a_report_is_made_into_a_baseline_by_which_it_would_have_passed(tmp_path: Path):
    run = run_of("fail", "fail", started="2026-11-21T10:00:00+00:00")
    (tmp_path / "report.json").write_text(json.dumps(report(run)))
    printed = click.testing.CliRunner().invoke(cli.cli, ["report", "baseline", str(tmp_path / "report.json")])
    assert printed.exit_code == 0, printed.output
    (tmp_path / "known.yaml").write_text(printed.output)
    (made,) = read_baseline(tmp_path / "known.yaml", SERVER_CHECKS.all)
    assert made == Entry(
        check=CHECK,
        reason="not investigated yet: so it went",
        cells=(FIRST.name, SECOND.name),
        expires=date(2027, 2, 19),
    )
    assert exit_status(settle(run, [made], TODAY)) == 0
    assert yaml.safe_load(baseline_for(report(run_of("pass", started="2026-11-21T10:00:00+00:00")))) == []
