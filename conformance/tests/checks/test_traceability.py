"""One id from the draft's sentence to the check: no check without a row, no row without its check."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from itertools import chain
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from tools_search_conformance import catalogs
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.model import Check
from tools_search_conformance.run.rows import FOR_EVERY_METHOD, level_of, rows_of
from tools_search_spec import advice, base_rules, requirements

EVERY = (*SERVER_CHECKS.all, *CLIENT_CHECKS.all)


def test_every_check_that_a_row_names_is_registered():
    named = {check for row in (*requirements(), *base_rules(), *advice()) for check in row.checks}
    assert named == {check.id for check in EVERY}


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.id)
def test_a_check_is_as_binding_as_the_most_binding_of_its_sentences(check: Check):
    levels = {level_of(row).removesuffix(" NOT") for row in rows_of(check.id)}
    assert next(level for level in ("MUST", "SHOULD", "ADVICE") if level in levels) == check.level


def test_each_check_of_a_must_that_is_run_for_other_methods_decides_that_they_keep_it_and_no_recommendation_does():
    musts = [row for row in requirements() if row.page == "tools-search.md" and row.level in ("MUST", "MUST NOT")]
    decided = {check for row in musts for check in row.checks}
    (shared,) = (row for row in requirements() if row.id == FOR_EVERY_METHOD)
    assert {*shared.checks} == decided & {check.id for check in EVERY if len(check.methods) > 1}


def test_a_rule_of_the_base_protocol_is_judged_in_the_eras_whose_revision_has_it():
    eras = {check.id: set(check.eras) for check in EVERY}
    assert {row.id: {*row.links} for row in base_rules()} == {
        row.id: {*chain.from_iterable(eras[check] for check in row.checks)} for row in base_rules()
    }


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.id)
def test_a_check_says_what_it_is_about(check: Check):
    assert all(text.strip() for text in (check.title, check.sends, check.passes))
    assert check.sends.endswith(".")
    assert check.passes.endswith(".")


@pytest.mark.parametrize("name", catalogs.NAMES)
def test_arguments_that_a_fixture_is_called_with_fit_its_schemas(name: str):
    tools = json.loads((files(catalogs) / f"{name}.json").read_bytes())["tools"]
    for tool in tools:
        for example in tool["inputSchema"]["examples"]:
            Draft202012Validator(tool["inputSchema"]).validate(example)  # pyright: ignore[reportUnknownMemberType] - untyped
            if "outputSchema" in tool:
                echo = {"name": tool["name"], "arguments": example}
                Draft202012Validator(tool["outputSchema"]).validate(echo)  # pyright: ignore[reportUnknownMemberType] - untyped


def test_the_core_catalog_has_what_the_checks_need():
    tools = json.loads((files(catalogs) / "core.json").read_bytes())["tools"]
    assert len(tools) == len({tool["name"] for tool in tools}) == 48
    assert sum("Lumenfield" in tool.get("description", "") for tool in tools) > 20
    assert any("outputSchema" in tool for tool in tools)
    assert any("_meta" in tool for tool in tools)
    assert any(not tool.get("description", "").isascii() for tool in tools)


def test_a_broken_rule_of_the_base_protocol_is_shown_with_its_place(
    target: Callable[..., tuple[str, ...]], tmp_path: Path
):
    command = ["server", "--only", "response-shape", "--era", "2025-11-25", "--out", str(tmp_path)]
    judged = CliRunner().invoke(cli, [*command, "--", *target("miniature", "--fault", "error-null-in-results")])
    (rule,) = [row for row in base_rules() if "tools-search-server-response-shape" in row.checks]
    for shown in (judged.output, CliRunner().invoke(cli, ["explain", "response-shape"]).output):
        assert rule.text.partition(" or an")[0] in shown
        assert f"{rule.links['2026-07-28']} ({rule.id})" in shown
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert written["checks"][0]["requirements"][0]["place"] == rule.links["2026-07-28"]
    assert rule.id in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def judged(target: Callable[..., tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    only = [f"--only={rule}" for rule in ("limit-invalid", "limit-honored", "cursor-nonempty")]
    options = [*only, "--era", "2026-07-28", "--effort", "quick", "--out", str(folder)]
    command = ["server", *options, "--", *target("miniature", "--fault", "limit-zero-served")]
    assert CliRunner().invoke(cli, command).exit_code == 1
    return folder / "report.json"


def test_each_sentence_is_traced_to_what_a_run_made_of_it(judged: Path):
    traced = CliRunner().invoke(cli, ["trace", str(judged), "--json"])
    rows = {row["id"]: row for row in json.loads(traced.output)}
    assert rows.keys() == {row.id for row in (*requirements(), *base_rules(), *advice())}
    assert (rows["R-REF-01"]["status"], rows["R-LIM-01"]["status"]) == ("fail", "pass")
    assert rows["R-NOM-01"]["status"] == "not run"
    assert rows["R-MOD-05"]["kind"] == "not-observable"
    told = {name: rows["R-PAG-05"][name] for name in ("level", "place", "status")}
    assert told == {"level": "ADVICE", "place": "spec/guides/servers.md#cursors", "status": "pass"}


def test_a_trace_counts_what_is_decided_and_what_is_not(judged: Path):
    lines = CliRunner().invoke(cli, ["trace"]).output.splitlines()
    sentences, rules, advised = len(requirements()), len(base_rules()), len(advice())
    assert len(lines) == sentences + rules + advised + 2
    counted = f"{sentences} sentences, {rules} rules of the base protocol and {advised} pieces of advice, "
    assert lines[-1].startswith(counted)
    assert "R-LIM-01   MUST NOT   server  limit-honored" in lines
    assert "R-PAG-05   ADVICE     server  cursor-nonempty" in lines
    traced = CliRunner().invoke(cli, ["trace", str(judged)]).output
    assert "R-LIM-01   MUST NOT   server  pass  limit-honored" in traced
    assert "R-PAG-05   ADVICE     server  pass  cursor-nonempty" in traced


def test_advice_is_traced_to_what_was_not_taken_in_any_cell(target: Callable[..., tuple[str, ...]], tmp_path: Path):
    command = ["server", "--only", "cursor-nonempty", "--out", str(tmp_path), "--"]
    assert CliRunner().invoke(cli, [*command, *target("miniature", "--fault", "cursor-empty")]).exit_code == 0
    traced = CliRunner().invoke(cli, ["trace", str(tmp_path / "report.json")]).output
    assert "R-PAG-05   ADVICE     server  advice  cursor-nonempty" in traced


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_what_is_no_report_is_not_traced(text: str, tmp_path: Path):
    (tmp_path / "report.json").write_text(text)
    assert CliRunner().invoke(cli, ["trace", str(tmp_path / "report.json")]).exit_code == 2


def test_the_sentences_of_the_draft_and_no_others_are_exported_for_the_official_suite():
    exported = yaml.safe_load(CliRunner().invoke(cli, ["trace", "--sep", "9999"]).output)
    assert exported["sep"] == 9999
    assert {row["text"] for row in exported["requirements"]} == {row.text for row in requirements()}
    assert all(("check" in row) is not ("excluded" in row) for row in exported["requirements"])
    assert all(re.fullmatch("sep-9999-[a-z-]+", row.get("check", "sep-9999-x")) for row in exported["requirements"])
