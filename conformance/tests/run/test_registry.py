"""Choosing what is run: kinds of criteria all hold, patterns of one kind are alternatives, and none is in vain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli import cli
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.model import CELLS, Check
from tools_search_conformance.run.registry import Registry, Selection, UnknownCheckError

Command = Callable[..., tuple[str, ...]]


def chosen(**criteria: Any) -> Selection:
    return SERVER_CHECKS.select(**criteria)


def rules(selection: Selection) -> set[str]:
    return {check.rule for check in selection.checks}


def invoke(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli.cli, arguments)


def test_without_criteria_every_check_is_wanted_in_every_cell():
    selection = chosen()
    assert selection.checks == SERVER_CHECKS.all
    assert all(selection.wanted(cell) == list(SERVER_CHECKS.all) for cell in CELLS)
    assert not selection.partial


@pytest.mark.parametrize("anchor", ["#pagination", "pagination", "#pagi*"])
def test_a_section_is_named_with_or_without_its_mark(anchor: str):
    named = chosen(sections=[anchor])
    assert {"pages-complete", "pages-disjoint"} <= rules(named)
    assert named.partial


def test_a_section_of_a_guide_is_named_as_one_of_the_draft():
    assert rules(chosen(sections=["cursors"])) == {"cursor-nonempty", "last-page-nonempty"}


def test_kinds_all_hold_and_patterns_of_one_kind_are_alternatives():
    selection = chosen(requirements=["R-PAG-*", "R-REF-*"], levels=["ADVICE"], cells=["stdio-2026*"])
    assert rules(selection) == {"cursor-nonempty", "last-page-nonempty", "invalid-params-status"}
    assert {cell for _, cell in selection.pairs} == {"stdio-2026-07-28"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("http", {"http-2026-07-28", "http-2025-11-25"}),
        ("stdio-2025", {"stdio-2025-11-25"}),
        ("2026*", {"stdio-2026-07-28", "http-2026-07-28"}),
        ("*-2025-11-25", {"stdio-2025-11-25", "http-2025-11-25"}),
    ],
)
def test_a_cell_has_short_names(pattern: str, names: set[str]):
    selection = chosen(cells=[pattern])
    assert {cell for _, cell in selection.pairs} == names
    assert selection.checks == SERVER_CHECKS.all
    assert selection.partial


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"checks": ["limt-invalid"]}, "'limt-invalid' matches no check; did you mean limit-invalid"),
    ({"sections": ["pagnation"]}, "'#pagnation' matches no section; did you mean #pagination"),
    ({"requirements": ["R-PGA-01"]}, "'R-PGA-01' matches no requirement; did you mean R-PAG-01"),
    ({"requirements": ["R-ID-01"]}, "R-ID-01: It bound the authors"),
    ({"requirements": ["R-CUR-01"]}, "tools-search-client-query-repeated decides it"),
    ({"cells": ["pipe"]}, "'pipe' matches no cell; the cells are stdio-2026-07-28, "),
    ({"checks": ["limit-*", "qqqq"]}, "see `tools-search-conformance list`"),
    ({"checks": ["limit-honored"], "levels": ["SHOULD"]}, "no check matches all"),
    ({"reports": [{"results": []}]}, "nothing to rerun"),
]


@pytest.mark.parametrize(("criteria", "told"), REFUSED)
def test_what_matches_nothing_is_refused_with_what_is_near(criteria: dict[str, Any], told: str):
    with pytest.raises(UnknownCheckError) as refused:
        chosen(**criteria)
    assert told in str(refused.value)


def test_what_did_not_pass_is_chosen_where_it_did_not():
    statuses = {"stdio-2026-07-28": "fail", "stdio-2025-11-25": "pass", "http-2026-07-28": "skip"}
    results = [
        {"check": "tools-search-server-limit-invalid", "cell": cell, "status": status}
        for cell, status in statuses.items()
    ]
    results.append({"check": "tools-search-server-error-data", "cell": "http-2025-11-25", "status": "warn"})
    results.append({"check": "tools-search-server-cursor-nonempty", "cell": "http-2025-11-25", "status": "advice"})
    selection = chosen(reports=[{"results": results}])
    assert selection.pairs == {
        ("tools-search-server-limit-invalid", "stdio-2026-07-28"),
        ("tools-search-server-error-data", "http-2025-11-25"),
    }


def test_a_run_over_what_failed_before_runs_that_alone_and_is_partial(target: Command, tmp_path: Path):
    first, again = tmp_path / "first", tmp_path / "again"
    broken = ["--", *target("miniature", "--fault", "limit-zero-served")]
    asked = ["--section", "request", "--level", "must", "--cell", "stdio-2026*", "--effort", "quick"]
    assert invoke("server", *asked, "--out", str(first), *broken).exit_code == 1
    second = invoke("server", "--failed-from", str(first / "report.json"), "--json", "--out", str(again), *broken)
    report = json.loads(second.output)
    assert [(result["check"], result["cell"]) for result in report["results"]] == [
        ("tools-search-server-limit-invalid", "stdio-2026-07-28")
    ]
    assert report["verdict"]["partial"] is True


@pytest.mark.parametrize("party", ["server", "client"])
def test_a_list_tells_what_would_be_run_and_runs_nothing(party: str):
    listed = invoke(party, "--list", "--cell", "http", "--only", "http-method-header", "--", "no-such-program")
    if party == "server":  # it has no HTTP to choose from
        assert listed.exit_code == 2
        assert "this run covers stdio-2025-11-25, stdio-2026-07-28" in listed.output
        listed = invoke(party, "--list", "--cell", "http", "--only", "http-method-header")
    assert listed.exit_code == 0, listed.output
    assert listed.output.splitlines() == [
        f"MUST    tools-search-{party}-http-method-header",
        "        http-2026-07-28",
        "1 check in 1 cell",
    ]


@pytest.mark.parametrize("level", ["SHOULD", "ADVICE"])
def test_a_list_can_be_read_by_programs(level: str):
    entries = json.loads(invoke("client", "--list", "--json", "--level", level.lower(), "--transport", "http").output)
    assert {entry["level"] for entry in entries} == {level}
    assert {entry["id"] for entry in entries} == {check.id for check in CLIENT_CHECKS.all if check.level == level}
    assert {cell for entry in entries for cell in entry["cells"]} == {"http-2026-07-28", "http-2025-11-25"}


@pytest.mark.parametrize(
    ("strict", "status", "verdict"),
    [
        ([], 0, "PASSED, BUT NOT EVERY CHECK WAS CHOSEN"),
        (["--strict"], 1, "NOT CONFORMANT (--strict; "),
    ],
)
def test_a_recommendation_counts_only_in_a_strict_run(
    target: Command, tmp_path: Path, strict: list[str], status: int, verdict: str
):
    asked = ["--only", "error-data", "--cell", "stdio-2026", "--out", str(tmp_path), *strict]
    ended = invoke("server", *asked, "--", *target("miniature", "--fault", "error-without-data"))
    assert ended.exit_code == status
    assert verdict in ended.output
    assert f'failures="{status}"' in (tmp_path / "junit.xml").read_text()


@pytest.mark.parametrize("strict", [[], ["--strict"]])
def test_advice_that_is_not_taken_counts_in_no_run(target: Command, tmp_path: Path, strict: list[str]):
    asked = ["--level", "advice", "--only", "*-nonempty", "--cell", "stdio-2026", "--out", str(tmp_path), *strict]
    ended = invoke("server", *asked, "--", *target("miniature", "--fault", "cursor-empty"))
    assert ended.exit_code == 0, ended.output
    assert "ADVICE  tools-search-server-cursor-nonempty" in ended.output
    assert "PASSED, BUT NOT EVERY CHECK WAS CHOSEN" in ended.output
    assert "1 check passed, 1 piece of advice not taken" in ended.output
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert {entry["check"].rpartition("server-")[2]: entry["status"] for entry in report["results"]} == {
        "cursor-nonempty": "advice",
        "last-page-nonempty": "pass",
    }
    assert 'failures="0"' in (tmp_path / "junit.xml").read_text()


def a_registry() -> Registry[Any]:
    return Registry("tools-search-server-")


TEXTS: dict[str, Any] = {"title": "It holds.", "sends": "A search.", "passes": "A result."}


def test_a_check_is_named_as_its_function():
    async def pages_disjoint(bench: object) -> None:
        """Judge nothing."""

    async def callable_(bench: object) -> None:
        """Judge nothing."""

    registry = a_registry()
    declared = [registry.check(**TEXTS)(body) for body in (pages_disjoint, callable_)]
    assert [check.id for check in declared] == ["tools-search-server-pages-disjoint", "tools-search-server-callable"]
    assert registry.all == tuple(declared)


@pytest.mark.parametrize("name", ["PagesDisjoint", "_pages", "<lambda>"])
def test_a_function_whose_name_makes_no_id_is_refused(name: str):
    async def body(bench: object) -> None:
        """Judge nothing."""

    body.__name__ = name
    with pytest.raises(ValueError, match="is not a valid name of a check: name its function"):
        a_registry().check(**TEXTS)(body)


def test_ids_are_unique_and_prefixed():
    async def advertised(bench: object) -> None:
        """Judge nothing."""

    with pytest.raises(ValueError, match="two checks"):
        SERVER_CHECKS.check(**TEXTS)(advertised)
    with pytest.raises(ValueError, match="begins with"):
        Check(id="advertised", **TEXTS, run=advertised)


def test_checks_are_chosen_by_id_with_or_without_prefix_and_by_glob():
    assert [found.id for found in SERVER_CHECKS.select(["advertised"]).checks] == ["tools-search-server-advertised"]
    assert SERVER_CHECKS.select(["tools-search-server-advertised"]) == SERVER_CHECKS.select(["advertised"])
    assert rules(SERVER_CHECKS.select(["cursor-*", "advertised"])) > {"cursor-type", "advertised"}
    with pytest.raises(UnknownCheckError, match="no-such"):
        SERVER_CHECKS.select(["advertised", "no-such"])
