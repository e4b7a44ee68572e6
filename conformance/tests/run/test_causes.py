"""Consequences are folded under their cause, and what explains most comes first; no status and no verdict changes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click.testing
import pytest
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.model import Cell, Evidence, Result, Run, Status
from tools_search_conformance.run.causes import ENDED, GONE, NOT_FINISHED, with_causes
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.record import NO_MESSAGE, OTHER_ID, Answer, Exchange

Command = Callable[..., tuple[str, ...]]
CELL, OTHER = Cell(transport="stdio", era=MODERN), Cell(transport="stdio", era=LEGACY)
FIRST, SECOND, THIRD, FOURTH = "limit-honored", "limit-invalid", "query-type", "cursor-type"


def result(
    rule: str, message: str, *, status: Status = "fail", cell: Cell = CELL, code: int = 0, **rest: Any
) -> Result:
    decisive = None
    if code:
        answer = Answer(message={"id": 1, "error": {"code": code, "message": "no"}})
        decisive = Exchange(number=1, cell=cell.name, check=rule, sent={}, answer=answer, milliseconds=1)
    evidence, check = Evidence(decisive=decisive), f"tools-search-server-{rule}"
    return Result(check=check, level="MUST", cell=cell, status=status, message=message, evidence=evidence, **rest)


def causes(*results: Result) -> list[str | None]:
    found = [each.consequence_of for each in with_causes(results)]
    return [cause and cause.removeprefix("tools-search-server-") for cause in found]


def test_three_checks_with_one_message_have_one_cause():
    assert causes(result(FIRST, "x"), result(SECOND, "x"), result(THIRD, "x")) == [None, FIRST, FIRST]
    assert causes(result(FIRST, "x"), result(SECOND, "x")) == [None, None]
    assert causes(result(FIRST, "x"), result(SECOND, "x"), result(THIRD, "x", cell=OTHER)) == [None] * 3


def test_the_same_error_to_different_requests_has_one_cause_which_is_a_failure_where_there_is_one():
    alike = [result(rule, rule, status="unverified", code=-32601) for rule in (FIRST, SECOND)]
    for status in ("fail", "warn"):
        assert causes(*alike, result(THIRD, "z", status=status, code=-32601)) == [THIRD, THIRD, None]
    assert causes(*alike, result(THIRD, "z", code=-32603)) == [None] * 3


def test_where_the_time_for_the_run_was_over_the_cause_is_the_check_that_was_under_way():
    later = [result(rule, NOT_FINISHED, status="unverified") for rule in (FIRST, SECOND, "any-sequence")]
    under_way = result(THIRD, NOT_FINISHED, status="unverified", milliseconds=300_000)
    assert causes(*later, under_way) == [THIRD, THIRD, THIRD, None]


def test_so_has_the_lack_of_any_response_for_one_reason():
    def lost(rule: str, fault: str) -> Result:
        decisive = Exchange(number=1, cell=CELL.name, check=rule, sent={}, answer=Answer(fault=fault), milliseconds=1)
        return replace(result(rule, rule), evidence=Evidence(decisive=decisive))

    closed = [lost(rule, "it closed the connection") for rule in (FIRST, SECOND, THIRD)]
    assert causes(*closed, lost(FOURTH, "silence")) == [None, FIRST, FIRST, None]
    assert causes(*closed[:2], lost(FOURTH, "silence")) == [None] * 3
    state = "any-sequence"  # the same request is answered at other times
    assert causes(*closed[:2], lost(state, "it closed the connection")) == [state, state, None]


def test_the_cause_of_an_error_that_a_busy_server_returns_is_the_check_that_is_about_load():
    alike = [result(rule, rule, code=-32000) for rule in (FIRST, SECOND, "busy-refusal")]
    assert causes(*alike) == ["busy-refusal", "busy-refusal", None]


def test_the_cause_of_a_header_mismatch_is_the_check_that_is_about_the_header():
    header = "http-name-not-required"
    alike = [result(rule, rule, code=-32020) for rule in (FIRST, SECOND, header)]
    assert causes(*alike) == [header, header, None]


def test_responses_with_other_ids_explain_what_got_one():
    ids = "id-echoed"
    lost = [result(rule, f"{rule} got no response{OTHER_ID} {place}") for place, rule in enumerate((FIRST, SECOND))]
    assert causes(*lost, result(THIRD, "x"), result(ids, "y")) == [ids, ids, None, None]
    assert causes(*lost, result(ids, "", status="pass")) == [None] * 3


@pytest.mark.anyio
async def test_a_server_that_ignores_limits_is_told_that_first(target: Command, judge: Callable[..., Awaitable[Run]]):
    argv = target("miniature", "--fault", "limit-three-more")
    run = await judge("limit-honored", "limit-integral-float", "limit-may-vary", argv=argv, era=MODERN)
    found = {each.check.removeprefix("tools-search-server-"): each.consequence_of for each in run.of("fail")}
    honored = "tools-search-server-limit-honored"
    assert found == {"limit-honored": None, "limit-integral-float": honored, "limit-may-vary": honored}


@pytest.mark.anyio
async def test_so_do_responses_that_a_cache_keeps_with_their_ids(target: Command, judge: Callable[..., Awaitable[Run]]):
    kept = target("miniature", "--http", "--fault", "answers-kept-with-their-ids")
    run = await judge("id-echoed", "limit-integral-float", http_argv=kept, era=MODERN)
    found = {each.check.removeprefix("tools-search-server-"): each.consequence_of for each in run.of("fail", "warn")}
    assert found == {"id-echoed": None, "limit-integral-float": "tools-search-server-id-echoed"}


@pytest.mark.anyio
async def test_definitions_that_differ_explain_that_they_do_so_after_a_change(
    target: Command, judge: Callable[..., Awaitable[Run]]
):
    argv, reload = target("miniature", "--fault", "unknown-members-left-out"), frozenset({"reload"})
    run = await judge("definition-identity", "change-seen", argv=argv, era=MODERN, fixture_features=reload)
    found = {each.check.removeprefix("tools-search-server-"): each.consequence_of for each in run.of("fail", "warn")}
    assert found == {"definition-identity": None, "change-seen": "tools-search-server-definition-identity"}


def test_output_that_is_no_message_explains_what_it_was_instead_of_a_response():
    output, json = "stdout-messages-only", "valid-json"
    lost = [result(rule, f"{rule} got no response, but a line {NO_MESSAGE} {rule}") for rule in (FIRST, SECOND)]
    found = [result(rule, f"there is a line {NO_MESSAGE} {rule}") for rule in (json, output)]
    assert causes(*lost, result(THIRD, "x"), *found) == [output, output, None, output, None]
    assert causes(*lost, result(THIRD, "x"), found[0]) == [json, json, None, None]
    assert causes(*lost, result(output, "", status="pass")) == [None] * 3


def test_the_error_of_a_busy_server_explains_others_of_its_code_where_nobody_tried_again():
    state, busy = (result(rule, "x", code=-32603) for rule in ("any-sequence", "busy-refusal"))
    assert causes(state, busy) == ["busy-refusal", None]
    assert causes(result(FIRST, "x", code=-32603), busy) == [None, None]
    assert causes(state, result("busy-refusal", "x", code=-32000)) == [None, None]


@pytest.mark.anyio
async def test_what_a_busy_server_refuses_without_saying_so_is_one_failure(
    target: Command, judge: Callable[..., Awaitable[Run]]
):
    argv = target("miniature", "--fault", "busy-now-and-then-without-data", "--tools-alone")
    run = await judge(argv=argv, era=MODERN)
    found = {each.check.removeprefix("tools-search-server-") for each in run.of("fail") if each.consequence_of is None}
    assert found == {"busy-refusal"}


def test_the_refusal_of_parameters_has_one_cause_only_where_it_is_that_of_many():
    assert causes(*(result(rule, rule, code=-32602) for rule in (FIRST, SECOND, THIRD, FOURTH))) == [None] * 4


def test_invalid_requests_with_one_wrong_error_have_one_cause_however_it_is_worded_and_served_ones_are_other_faults():
    def wrong(rule: str, number: int, end: str = "error -32602", **rest: Any) -> Result:
        found = result(rule, f"{rule} got an error instead of {end}", **rest)
        answer = Answer(message={"id": 1, "error": {"code": -32603, "message": f"line {number}"}})
        decisive = Exchange(number=1, cell=CELL.name, check=rule, sent={}, answer=answer, milliseconds=1)
        return replace(found, evidence=Evidence(decisive=decisive))

    alike = [wrong(rule, number) for number, rule in enumerate((SECOND, "query-missing", "query-long"))]
    data = wrong("error-data", 3, status="unverified")
    assert causes(*alike, data) == ["query-missing", None, "query-missing", "query-missing"]
    assert causes(*alike[1:]) == [None, None]
    others = [result(THIRD, "x got a result instead of error -32602"), wrong(FOURTH, 4, "a result")]
    assert causes(*alike, *others)[3:] == [None, None]
    assert causes(*alike, result("busy-refusal", "y", code=-32000))[3:] == [None]


@pytest.mark.anyio
async def test_so_they_have_in_a_server_that_validates_by_a_schema_and_what_it_overlooks_is_shown_as_well(
    target: Command, judge: Callable[..., Awaitable[Run]]
):
    argv = target("miniature", "--fault", "params-refused-as-internal-errors", "--tools-alone")
    rules = ("query-missing", "query-type", "query-long", "cursor-type", "limit-invalid", "cursor-forged", "error-data")
    run = await judge(*rules, argv=argv, era=MODERN)
    found = {each.check.removeprefix("tools-search-server-"): each for each in run.of("fail", "unverified")}
    assert {*found} == {*rules}
    lead = "tools-search-server-query-missing"
    alone = {"query-missing", "limit-invalid"}
    assert {rule: each.consequence_of for rule, each in found.items()} == {
        rule: None if rule in alone else lead for rule in rules
    }
    assert found["limit-invalid"].message.startswith("limit 2.5 got a result")


def test_a_target_that_ended_explains_that_it_is_gone():
    gone = result(THIRD, f"{GONE}: it is not started again", status="unverified")
    assert causes(result(FIRST, "x"), result(SECOND, f"{ENDED}: status 1"), gone) == [None, None, SECOND]


def test_of_checks_that_see_the_target_end_the_one_whose_own_request_ends_it_is_the_cause():
    how = "status 1; stderr: oops"
    own = result(SECOND, f"params without query got no response ({how}) instead of error -32602")
    others = [result(rule, f"{ENDED}: {how}") for rule in (FIRST, THIRD)]
    other = result(FOURTH, f"{ENDED}: status 2")
    assert causes(*others, other, own) == [SECOND, SECOND, None, None]
    assert causes(*others, other) == [None] * 3


def test_what_requests_change_in_the_server_explains_what_could_not_be_verified_and_nothing_that_failed():
    lost = [result(rule, rule, status="unverified") for rule in (FIRST, SECOND, THIRD)]
    failed = result(FOURTH, "x")
    for state in ("refusal-changes-nothing", "any-sequence"):
        assert causes(*lost, result(state, "y"), failed) == [state] * 3 + [None] * 2
        assert causes(*lost, result(state, "", status="pass"), failed) == [None] * 5
        assert causes(*lost[1:], result(state, "y"), failed) == [None] * 4


def test_processes_that_refuse_cursors_of_each_other_explain_that_cursors_are_refused_and_that_answers_change():
    lost = [result(rule, rule, status="unverified", code=-32602) for rule in (FIRST, SECOND)]
    rest = [result("any-sequence", "x"), result(THIRD, "y", code=-32602), result(FOURTH, "z", status="unverified")]
    processes = "cursor-at-every-request"
    assert causes(*lost, *rest, result(processes, "w")) == [processes] * 3 + [None] * 3
    assert processes not in causes(*lost, *rest, result(processes, "w", status="unverified"))


@pytest.mark.anyio
async def test_so_they_do_for_a_server_of_two_workers(target: Command, judge: Callable[..., Awaitable[Run]]):
    argv = target("miniature", "--http", "--fault", "cursors-of-two-workers")
    run = await judge("cursor-at-every-request", "any-sequence", "pages-complete", http_argv=argv)
    found = {
        each.check.removeprefix("tools-search-server-"): each.consequence_of for each in run.of("fail", "unverified")
    }
    processes = "tools-search-server-cursor-at-every-request"
    assert found == {"cursor-at-every-request": None, "any-sequence": processes, "pages-complete": processes}


def test_a_cause_that_a_check_names_holds_where_that_one_did_not_pass():
    named = result(SECOND, "y", status="unverified", consequence_of=f"tools-search-server-{FIRST}")
    assert causes(result(FIRST, "x"), named) == [None, FIRST]
    assert causes(result(FIRST, "", status="pass"), named) == [None, None]
    assert causes(result(FIRST, "x", cell=OTHER), named) == [None, None]


def test_a_check_that_could_not_be_verified_is_a_consequence_of_the_one_that_its_message_refers_to():
    see = f"a search returned no page; see {FIRST}"
    assert causes(result(FIRST, "x"), result(SECOND, see, status="unverified")) == [None, FIRST]
    assert causes(result(FIRST, "x"), result(SECOND, see)) == [None, None]
    assert causes(result(FIRST, "", status="pass"), result(SECOND, see, status="unverified")) == [None, None]


def test_what_passed_is_left_as_it_is():
    found = [result(rule, "", status="pass") for rule in (FIRST, SECOND, THIRD)]
    assert with_causes(found) == tuple(found)


@pytest.fixture(scope="module")
def refused(target: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the reports of a server that advertises the method and does not serve it."""
    out = tmp_path_factory.mktemp("refused")
    given = ["server", "--era=2026-07-28", "--effort=quick", "--out", str(out)]
    ended = click.testing.CliRunner().invoke(cli, [*given, "--", *target("nulls", "refuse_search")])
    (out / "printed.txt").write_text(ended.output)
    return out


def test_a_method_that_is_advertised_and_not_served_is_one_failure_in_every_report(refused: Path):
    document = json.loads((refused / "report.json").read_bytes())
    first = next(each for each in document["problems"] if not each["base"])
    follow = {each["check"] for each in first["consequences"]}
    assert len(follow) > len(document["problems"])
    printed = (refused / "printed.txt").read_text()
    assert f"This is probably why {len(follow)} other checks did not pass:" in printed
    assert f"next     Start with {first['check']}. " in printed
    page = (refused / "report.html").read_text(encoding="utf-8")
    assert f"This is probably why {len(follow)} other checks did not pass</summary>" in page
    summary = (refused / "summary.md").read_text(encoding="utf-8")
    assert "| ↳ unverified | " in summary
    shown = {result["check"] for result in document["results"] if result.get("consequenceOf") == first["check"]}
    assert shown >= follow
