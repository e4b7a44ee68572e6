"""The power of the checks, as data: every check has a mutant wherever it applies, and few mutants are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.model import CELLS, Check
from tools_search_conformance.report.checks_page import Mutant, MutantsError, Power, read_power, signatures, unproven
from tools_search_spec import retired

FOLDER: Final = Path(__file__).parent
PAGE: Final = FOLDER.parent.parent / "CHECKS.md"
COMMAND: Final = "tools-search-conformance list --markdown --mutants conformance/tests/mutants"
POWER: Final = read_power(FOLDER)
PARTIES: Final = pytest.mark.parametrize(
    ("checks", "mutants", "least"),
    [(SERVER_CHECKS.all, POWER.servers, 45), (CLIENT_CHECKS.all, POWER.clients, 25)],
    ids=["servers", "clients"],
)


@PARTIES
def test_every_check_has_a_mutant_wherever_it_applies(
    checks: tuple[Check, ...], mutants: tuple[Mutant, ...], least: int
):
    gaps = [place for place in unproven(checks, mutants) if POWER.excused(place) is None]
    missing = [f"{rule} {cell.name} {profile}" for rule, cell, profile in gaps]
    assert not missing, "no mutant, and no reason in exceptions.yaml:\n" + "\n".join(missing)


def test_no_exception_outlives_its_gap():
    gaps = [*unproven(SERVER_CHECKS.all, POWER.servers), *unproven(CLIENT_CHECKS.all, POWER.clients)]
    for name, why in POWER.exceptions.items():
        alone = Power(servers=(), clients=(), exceptions={name: why})
        assert any(alone.excused(place) for place in gaps), f"{name} has its mutants: take the exception away"
        assert why.endswith("."), f"{name} must say why in a sentence"


@PARTIES
def test_a_mutant_that_turns_two_or_three_checks_red_says_why_and_none_turns_more(
    checks: tuple[Check, ...], mutants: tuple[Mutant, ...], least: int
):
    rules = {check.rule for check in checks}
    for mutant in mutants:
        assert set(mutant.turns_red) <= rules, mutant.name
        assert 1 <= len(mutant.turns_red) <= 3, mutant.name
        assert bool(mutant.because) == (len(mutant.turns_red) > 1), mutant.name
        shown = [cell for cell in CELLS if any(mutant.turns_red_in(rule, cell) for rule in rules)]
        assert shown, f"{mutant.name} shows in no cell: {mutant.cells}"


@PARTIES
def test_enough_mutants_differ_in_what_they_turn_red(
    checks: tuple[Check, ...], mutants: tuple[Mutant, ...], least: int
):
    found = signatures(mutants)
    shared = "\n".join(f"{', '.join(rules)}: {', '.join(names)}" for rules, names in found.items() if len(names) > 1)
    print(f"{len(found)} signatures of {len(mutants)} mutants; more than one have\n{shared}")  # noqa: T201
    assert len(found) >= least


def test_the_page_of_all_checks_is_fresh():
    made = CliRunner().invoke(cli, ["list", "--markdown", "--mutants", str(FOLDER)])
    assert made.exit_code == 0, made.output
    assert PAGE.read_text(encoding="utf-8") == made.output, f"renew it: {COMMAND} > conformance/CHECKS.md"


def test_the_page_has_advice_in_a_part_of_its_own_and_where_each_retired_id_went():
    rules, _, rest = CliRunner().invoke(cli, ["list", "--markdown"]).output.partition("\n## Advice\n")
    servers, _, rest = rest.partition("### Guide for servers\n")[2].partition("### Guide for hosts\n")
    hosts, _, rest = rest.partition("\n## ")
    for part, checks in ((servers, SERVER_CHECKS.all), (hosts, CLIENT_CHECKS.all)):
        advised = [check.rule for check in checks if check.level == "ADVICE"]
        assert advised
        for rule in advised:
            assert f"\n#### {rule} (" in part
            assert f"\n### {rule} (" not in rules
        assert f"{len(advised)} [advice](#advice)" in rules
    assert "> Do not issue an empty string as a cursor" in servers
    assert "[R-PAG-05](../spec/guides/servers.md#cursors)" in servers
    table = rest.partition("Retired ids\n")[2]
    assert all(f"| {row} | {why} |" in table for row, why in retired().items())


@pytest.mark.parametrize("text", ["{", "a: {turns_red: 1}", "a: {cells: [http]}", "a: 1"])
def test_what_is_no_list_of_mutants_is_refused(text: str, tmp_path: Path):
    for name in ("mutants.yaml", "client_mutants.yaml", "exceptions.yaml"):
        (tmp_path / name).write_text(text)
    with pytest.raises(MutantsError, match=r"mutants\.yaml"):
        read_power(tmp_path)
    assert CliRunner().invoke(cli, ["list", "--markdown", "--mutants", str(tmp_path)]).exit_code == 2


def test_a_check_without_a_mutant_in_a_cell_is_found():
    (check,) = (check for check in SERVER_CHECKS.all if check.rule == "limit-honored")
    on_http = Mutant(name="x", turns_red=("limit-honored",), cells=("http",), live=False)
    gaps = [(cell.name, profile) for _, cell, profile in unproven([check], [on_http])]
    stdio = [("stdio-2026-07-28", "fixture"), ("stdio-2025-11-25", "fixture")]
    assert [gap for gap in gaps if gap[1] == "fixture"] == stdio
    assert len([gap for gap in gaps if gap[1] == "live"]) == len(CELLS)
    reasons = Power(servers=(), clients=(), exceptions={"limit-honored stdio-* *": "So it is."})
    assert [reasons.excused(("limit-honored", cell, "live")) for cell in CELLS] == ["So it is."] * 2 + [None] * 2
