"""The base protocol: its broken rules stand apart in every report and decide nothing about the extension."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click.testing
import pytest
import yaml
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.report.document import schema_of
from tools_search_conformance.report.verdict import BASE_HEADING

Command = Callable[..., tuple[str, ...]]
BROKEN = "unknown-version-refused"
CHOSEN = (BROKEN, "limit-invalid", "limit-honored")


def judge(target: Command, out: Path, *asked: str, checks: tuple[str, ...] = CHOSEN) -> click.testing.Result:
    only = [f"--only={rule}" for rule in checks]
    command = target("miniature", "--fault", "any-version-served")
    given = ["server", "--era", "2026-07-28", "--effort", "quick", "--out", str(out), *only, *asked, "--", *command]
    return click.testing.CliRunner().invoke(cli, given)


@pytest.fixture(scope="module")
def out(target: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "report"
    judged = judge(target, folder)
    assert judged.exit_code == 0, judged.output
    (folder / "printed.txt").write_text(judged.output)
    return folder


def test_a_broken_rule_is_printed_in_its_own_section_with_its_sentence_and_does_not_count(out: Path):
    printed = (out / "printed.txt").read_text()
    before, after = printed.split(BASE_HEADING)
    assert "FAIL" not in before
    assert f"FAIL  tools-search-server-{BROKEN}" in after
    assert "(B-META-02)" in after
    assert "2 MUST checks shown, 0 not shown, 1 base-protocol check failed, which does not count" in printed
    assert "MUST 2 passed   SHOULD none   ADVICE none   BASE 1 failed" in printed


def test_a_recommendation_that_is_not_followed_is_no_check_that_failed(target: Command, tmp_path: Path):
    command = target("miniature", "--fault", "outlives-its-input")
    only = ["--only=stdin-closed-exits", "--only=limit-invalid", "--era", "2026-07-28"]
    result = click.testing.CliRunner().invoke(cli, ["server", "--out", str(tmp_path / "out"), *only, "--", *command])
    assert "shown, 0 not shown, 1 base-protocol recommendation not followed, which does not count" in result.output
    assert "check failed" not in result.output


def test_it_keeps_its_level_and_message_in_the_report(out: Path):
    document = json.loads((out / "report.json").read_bytes())
    assert document["reportVersion"] == schema_of("report")["properties"]["reportVersion"]["const"]
    (result,) = (result for result in document["results"] if result["base"])
    assert (result["level"], result["status"]) == ("MUST", "fail")
    assert result["message"]
    assert {check["id"] for check in document["checks"] if check["base"]} == {f"tools-search-server-{BROKEN}"}


def test_junit_is_not_red(out: Path):
    tree = ElementTree.parse(out / "junit.xml").getroot()  # noqa: S314 - our own
    assert tree.get("failures") == "0"
    (suite,) = (each for each in tree if str(each.get("name")).endswith("base protocol"))
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert "base protocol, does not count: fail: " in str(skipped.get("message"))


def test_the_page_the_summary_and_the_matrix_have_a_section_for_it(out: Path, tmp_path: Path):
    page = (out / "report.html").read_text(encoding="utf-8")
    assert 'id="problems"' not in page
    assert f'<article id="tools-search-server-{BROKEN}">' in page.split(f'<h2 id="base">{BASE_HEADING}')[1]
    before, after = (out / "summary.md").read_text(encoding="utf-8").split(BASE_HEADING)
    assert "| fail |" not in before
    assert f"| fail | tools-search-server-{BROKEN} |" in after
    merged = ["report", "merge", "--out", str(tmp_path), f"one={out / 'report.json'}"]
    assert click.testing.CliRunner().invoke(cli, merged).exit_code == 0
    before, after = (tmp_path / "matrix.md").read_text(encoding="utf-8").split(BASE_HEADING)
    assert (BROKEN in before, BROKEN in after, "**Verdict**" in before) == (False, True, True)
    assert BASE_HEADING in (tmp_path / "matrix.html").read_text(encoding="utf-8")


def test_the_badge_counts_the_extension_only_and_the_official_format_warns(out: Path):
    assert json.loads((out / "badge.json").read_bytes())["message"] == "2/2 MUST, fixture, stdio, 2026-07-28 only"
    entries: list[dict[str, Any]] = json.loads((out / "checks.json").read_bytes())
    (entry,) = (entry for entry in entries if entry["name"].endswith(BROKEN))
    assert (entry["status"], entry["details"]["baseProtocol"]) == ("WARNING", True)


def test_a_strict_run_does_not_count_it_either(target: Command, tmp_path: Path):
    judged = judge(target, tmp_path, "--strict")
    assert judged.exit_code == 0, judged.output


def test_a_run_of_nothing_else_is_decided_by_it(target: Command, tmp_path: Path):
    judged = judge(target, tmp_path, checks=(BROKEN,))
    assert judged.exit_code == 1
    assert (
        "BASE PROTOCOL NOT FOLLOWED (fixture profile; stdio; 2026-07-28; 2025-11-25 not chosen): 1 base-protocol"
        in judged.output
    )
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("failures") == "1"  # noqa: S314 - our own


def test_it_needs_no_entry_in_a_baseline_and_one_that_names_it_is_kept_true(target: Command, out: Path, tmp_path: Path):
    made = click.testing.CliRunner().invoke(cli, ["report", "baseline", str(out / "report.json")]).output
    assert yaml.safe_load(made) == []
    known = tmp_path / "known.yaml"
    known.write_text(f"- {{check: {BROKEN}, reason: the SDK looks at the first request only}}")
    judged = judge(target, tmp_path / "named", "--baseline", str(known))
    assert judged.exit_code == 0
    assert "the SDK looks at the first request only" in judged.output
    assert BASE_HEADING not in judged.output
    assert "NO WORSE THAN THE BASELINE" not in judged.output
    known.write_text("- {check: response-shape, reason: mended since}")
    rotten = judge(target, tmp_path / "rotten", "--baseline", str(known), checks=("response-shape",))
    assert rotten.exit_code == 1
    assert "STALE BASELINE" in rotten.output
