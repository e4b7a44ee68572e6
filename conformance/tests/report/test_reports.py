"""Reports: valid by their schema, readable by the official tools, harmless on a terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click.testing
import pytest
from jsonschema import Draft202012Validator
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.model import CELLS, Cell, Evidence, Result, Run, Status, UnavailableCell
from tools_search_conformance.report.ci import badge_json, badge_svg, junit, official_checks
from tools_search_conformance.report.document import failure_files, report, schema_of
from tools_search_conformance.report.pages import page, summary
from tools_search_conformance.report.terminal import print_run
from tools_search_conformance.report.verdict import exit_status, verdict_of
from tools_search_conformance.run.causes import NOT_FINISHED, with_causes
from tools_search_conformance.run.runner import write_reports
from tools_search_conformance.wire.eras import DECLARED, LEGACY, MODERN, envelope
from tools_search_conformance.wire.record import Answer, Exchange

Command = Callable[..., tuple[str, ...]]

FIRST, SECOND = Cell(transport="stdio", era=MODERN), Cell(transport="http", era=LEGACY)
EVIL = '\x1b[2J</script>\u202e[red]\ud800"\n'


def result(
    status: Status, *, cell: Cell = FIRST, rule: str = "limit-honored", level: Any = "MUST", size: int = 1
) -> Result:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [EVIL] * size}}
    exchange = Exchange(
        number=3,
        cell=cell.name,
        check=rule,
        sent={"id": 1, "query": EVIL},
        answer=Answer(message=message, status=200),
        milliseconds=1,
    )
    decided = status not in {"pass", "skip"}
    return Result(
        check=f"tools-search-server-{rule}",
        level=level,
        cell=cell,
        status=status,
        message="" if status == "pass" else f"what happened {EVIL}",
        skip="era" if status == "skip" else None,
        evidence=Evidence(
            observations=1,
            exchanges=(3,),
            decisive=exchange if decided else None,
            case=f"with {EVIL}" if decided else None,
        ),
    )


def run_of(*results: Result, profile: Any = "fixture", **rest: Any) -> Run:
    return Run(
        target={"servers": [{"transport": "stdio", "argv": ["server", EVIL]}]},
        profile=profile,
        effort="quick",
        seed=1,
        started="2026-11-20T12:00:00+00:00",
        seconds=1.5,
        checks=SERVER_CHECKS.all,
        cells=(FIRST, SECOND),
        unavailable=(UnavailableCell(cell=Cell(transport="http", era=MODERN), reason=EVIL),),
        results=results,
        **rest,
    )


ADVICE = (
    result("advice", rule="cursor-nonempty", level="ADVICE"),
    result("advice", rule="last-page-nonempty", level="ADVICE"),
    result("advice", rule="last-page-nonempty", level="ADVICE", cell=SECOND),
    result("unverified", rule="surrogates-survived", level="ADVICE"),
)
RULES = ("cursor-nonempty", "last-page-nonempty", "surrogates-survived")
EVERY: tuple[Status, ...] = ("pass", "fail", "warn", "advice", "unverified", "skip", "error")


@pytest.mark.parametrize("status", EVERY)
def test_a_report_is_valid_by_its_schema(status: Status, tmp_path: Path):
    write_reports(run_of(result(status), result("pass", cell=SECOND)), tmp_path)
    written = json.loads((tmp_path / "report.json").read_text(encoding="ascii"))
    Draft202012Validator.check_schema(schema_of("report"))
    Draft202012Validator(schema_of("report")).validate(written)  # pyright: ignore[reportUnknownMemberType] - untyped
    assert written["results"][0]["requirements"][0].startswith("R-")
    assert written["cells"][0]["counts"] == {"MUST": {status: 1}, "SHOULD": {}, "ADVICE": {}, "BASE": {}}


def test_of_an_exchange_beyond_all_bounds_the_beginning_is_shown():
    shown = report(run_of(result("fail", size=10_000)))["results"][0]["exchange"]
    assert shown["number"] == 3
    assert "very large" in shown["abridged"]
    assert len(json.dumps(shown)) < 64 * 1024


@pytest.mark.parametrize(
    ("status", "level", "profile", "expected"),
    [
        ("pass", "MUST", "fixture", 0),
        ("fail", "MUST", "live", 1),
        ("warn", "SHOULD", "fixture", 0),
        ("unverified", "MUST", "fixture", 1),
        ("unverified", "MUST", "live", 3),
        ("unverified", "SHOULD", "live", 0),
        ("unverified", "SHOULD", "fixture", 0),
        ("advice", "ADVICE", "fixture", 0),
        ("unverified", "ADVICE", "fixture", 0),
        ("skip", "MUST", "fixture", 0),
        ("error", "MUST", "live", 4),
    ],
)
def test_the_exit_status_follows_from_the_results(status: Status, level: str, profile: str, expected: int):
    run = run_of(result(status, level=level), profile=profile)
    assert exit_status(run) == expected
    words = {
        0: "CONFORMANT AS FAR AS ITS OWN TOOLS SHOW" if profile == "live" else "CONFORMANT",
        1: "NOT CONFORMANT",
        3: "INCONCLUSIVE",
        4: "NO VERDICT",
    }
    assert verdict_of(run)["word"] == words[expected]


@pytest.mark.parametrize("profile", ["fixture", "live"])
@pytest.mark.parametrize("level", ["MUST", "SHOULD"])
def test_a_strict_run_counts_what_could_not_be_verified_in_every_profile(level: str, profile: str):
    run = replace(run_of(result("unverified", level=level), profile=profile), strict=True)
    assert exit_status(run) == 1


def test_a_verdict_is_inconclusive_where_more_than_a_twentieth_of_a_cell_is_open():
    enough = [result("pass")] * 19 + [result("unverified")]
    assert exit_status(run_of(*enough, profile="live")) == 0
    run = run_of(*enough[1:], profile="live")
    assert exit_status(run) == 3
    assert "(1 of 19 in stdio-2026-07-28)" in verdict_of(run)["sentence"]


def test_a_verdict_is_inconclusive_where_the_time_for_the_run_was_over_before_the_end():
    unfinished = replace(result("unverified"), message=NOT_FINISHED)
    run = run_of(*[result("pass")] * 100, unfinished, profile="fixture")
    assert (exit_status(run), verdict_of(run)["word"]) == (3, "INCONCLUSIVE")
    assert "MUST checks could not be verified (1 of 101 in" in verdict_of(run)["sentence"]
    of_target = replace(unfinished, message=f"the search got error -32000 ({NOT_FINISHED})")
    assert exit_status(run_of(*[result("pass")] * 100, of_target, profile="fixture")) == 1


def test_a_verdict_is_inconclusive_where_a_driver_can_do_too_little_for_two_thirds_of_a_cell():
    unreached = replace(result("skip"), skip="driver-feature")
    assert exit_status(run_of(result("pass"), *[unreached] * 2)) == 0
    assert exit_status(run_of(result("pass"), *[unreached] * 3)) == 3


@pytest.mark.parametrize(
    ("status", "level", "official"),
    [
        ("pass", "MUST", "SUCCESS"),
        ("fail", "MUST", "FAILURE"),
        ("warn", "SHOULD", "WARNING"),
        ("unverified", "MUST", "FAILURE"),
        ("unverified", "SHOULD", "WARNING"),
        ("advice", "ADVICE", "INFO"),
        ("unverified", "ADVICE", "INFO"),
        ("skip", "MUST", "SUCCESS"),
        ("error", "MUST", "FAILURE"),
    ],
)
def test_a_check_has_the_status_of_the_official_suite_for_its_worst_cell(status: Status, level: str, official: str):
    (entry,) = official_checks(run_of(result("pass", cell=SECOND, level=level), result(status, level=level)))
    assert entry["status"] == official
    assert {"id", "name", "description", "timestamp", "specReferences", "details"} <= entry.keys()
    assert entry["details"]["cells"] == {"stdio-2026-07-28": status, "http-2025-11-25": "pass"}
    assert entry["details"].get("untestable", False) is (status == "unverified")
    assert entry["details"].get("harnessError", False) is (status == "error")
    assert ("errorMessage" in entry) is (official in {"FAILURE", "WARNING"})


def test_a_check_that_applies_in_no_cell_is_skipped_for_the_official_suite():
    (entry,) = official_checks(run_of(result("skip", cell=SECOND), result("skip")))
    assert entry["status"] == "SKIPPED"


@pytest.mark.parametrize("status", EVERY)
def test_nothing_that_a_target_sent_reaches_the_terminal_as_it_is(
    status: Status, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    print_run(run_of(result(status), result(status, cell=SECOND), result("pass", rule="advertised")), tmp_path)
    shown = capsys.readouterr().out
    assert not {"\x1b", "\u202e", "\ud800"} & set(shown)
    assert "CONFORMANT" in shown or "NO VERDICT" in shown
    assert (status.upper() + "  tools-search-server-limit-honored" in shown) is (
        status in {"fail", "warn", "advice", "unverified", "error"}
    )


def test_a_terminal_gets_prose_in_whole_words_and_lines_to_copy_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    run = run_of(result("fail"), result("unverified", rule="callable"), result("pass", rule="advertised"))
    print_run(run, tmp_path)
    whole = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_run(run, tmp_path)
    shown = re.sub(r"\x1b\[\d*[mK]", "", capsys.readouterr().out)
    long = [line for line in shown.splitlines() if len(line) > 60]
    assert all(line.split()[0] in {"sent", "answer", "replay", "all"} or " " not in line.strip() for line in long)
    assert max(map(len, whole.splitlines())) > 60
    assert shown.split() == whole.split()


COVERED = "(fixture profile; stdio 2026-07-28; HTTP 2025-11-25; 2026-07-28 over HTTP not offered)"


@pytest.mark.parametrize(
    ("results", "word", "counts"),
    [
        ([result("pass"), result("fail", cell=SECOND)], "NOT CONFORMANT", "1 MUST check failed, 0 shown, 0 not shown"),
        (
            [result("fail"), result("unverified", rule="query-long"), result("pass", rule="callable")],
            "NOT CONFORMANT",
            "1 MUST check failed, 1 shown, 1 not shown (1 could not be verified)",
        ),
        (
            [result("warn", rule="error-data", level="SHOULD"), result("pass")],
            "CONFORMANT",
            "1 MUST check shown, 0 not shown, 1 recommendation not followed",
        ),
        (
            [result("error"), result("fail", rule="callable")],
            "NO VERDICT",
            "1 check hit a fault of the suite, 1 MUST check failed, 0 shown, 1 not shown (1 hit a fault of the suite)",
        ),
        (
            [*ADVICE, result("pass")],
            "CONFORMANT",
            "1 MUST check shown, 0 not shown, 2 pieces of advice not taken",
        ),
        (
            [ADVICE[0], result("fail")],
            "NOT CONFORMANT",
            "1 MUST check failed, 0 shown, 0 not shown, 1 piece of advice not taken",
        ),
        ([result("pass", level="ADVICE")], "CONFORMANT", "1 check passed"),
        ([result("pass"), result("skip", cell=SECOND)], "CONFORMANT", "1 MUST check shown, 0 not shown"),
        (
            [result("pass"), replace(result("skip", rule="callable"), skip="fixture-feature")],
            "CONFORMANT",
            "1 MUST check shown, 1 not shown (1 need --fixture-features)",
        ),
    ],
)
def test_the_verdict_counts_each_check_once_as_the_worst_it_came_to(results: list[Result], word: str, counts: str):
    assert verdict_of(run_of(*results))["sentence"] == f"{word} {COVERED}: {counts}"


def test_base_protocol_checks_of_which_none_could_be_verified_leave_no_verdict_on_them_either():
    chosen = SERVER_CHECKS.select(["tools-search-server-unknown-version-refused"]).checks
    run = replace(run_of(result("unverified", rule="unknown-version-refused"), profile="live"), checks=chosen)
    assert (verdict_of(run)["word"], exit_status(run)) == ("INCONCLUSIVE", 3)
    assert "too many base-protocol checks could not be verified" in verdict_of(run)["sentence"]
    assert "1 check: what happened" in verdict_of(run)["next"][0]


MODERN_ONLY = (FIRST, Cell(transport="http", era=MODERN))


@pytest.mark.parametrize(
    ("cells", "asked", "unavailable", "headline"),
    [
        (CELLS, CELLS, (), "CONFORMANT (fixture profile; stdio and HTTP; 2026-07-28 and 2025-11-25)"),
        (
            MODERN_ONLY,
            MODERN_ONLY,
            (),
            "CONFORMANT for 2026-07-28 only (fixture profile; stdio and HTTP; 2026-07-28; 2025-11-25 not chosen)",
        ),
        (
            (FIRST,),
            CELLS,
            (UnavailableCell(cell=Cell(transport="stdio", era=LEGACY), reason="error -32601"),),
            "CONFORMANT for 2026-07-28 only (fixture profile; stdio; 2026-07-28; 2025-11-25 not offered)",
        ),
    ],
)
def test_the_headline_names_the_eras_that_were_judged_and_those_that_were_left_out(
    cells: tuple[Cell, ...], asked: tuple[Cell, ...], unavailable: tuple[UnavailableCell, ...], headline: str
):
    run = replace(run_of(result("pass")), cells=cells, asked=asked, unavailable=unavailable)
    assert verdict_of(run)["headline"] == headline


def test_advice_counts_against_nobody_in_a_strict_run_either(tmp_path: Path):
    run = run_of(*ADVICE, result("pass"), strict=True)
    assert exit_status(run) == 0
    assert verdict_of(run)["headline"].startswith("CONFORMANT (--strict; fixture profile; ")
    assert verdict_of(run)["sentence"].endswith("1 MUST check shown, 0 not shown, 2 pieces of advice not taken")
    assert 'failures="0"' in junit(run, report(run))


def test_advice_is_shown_apart_and_after_what_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    print_run(run_of(*ADVICE, result("warn", rule="error-data", level="SHOULD"), result("fail")), tmp_path)
    shown = capsys.readouterr().out
    assert shown.index("FAIL  ") < shown.index("WARN  ") < shown.index("ADVICE  tools-search-server-cursor-nonempty")
    assert '"Do not issue an empty string as a cursor: some clients take it for the end."' in shown
    assert "spec/guides/servers.md#cursors (R-PAG-05)" in shown
    assert "UNVERIFIED" not in shown
    (counts,) = (line for line in shown.splitlines() if line.startswith(f"{FIRST.name} "))
    assert counts.split("   ")[-2:] == ["ADVICE 1 could not be verified, 2 not taken", "BASE none"]


def test_the_summary_and_the_page_have_advice_apart():
    document = report(run_of(*ADVICE, result("fail")))
    wrong, apart = summary(document).split("Advice from the guides that was not taken")
    assert "| fail | tools-search-server-limit-honored |" in wrong
    assert "nonempty" not in wrong
    assert apart.index("tools-search-server-cursor-nonempty") < apart.index("tools-search-server-last-page-nonempty")
    assert "surrogates-survived" not in apart
    assert "| stdio-2026-07-28 | 1 fail | none | 1 unverified, 2 advice |" in wrong
    shown = page(document)
    assert (shown.count('<tr class="advice settled">'), shown.count('<tr class="must ">')) == (3, 1)
    problems, advice = shown.split('id="problems"')[1].split('id="checks"')[0].split('id="advice"')
    assert problems.count("<article") == 1
    assert [advice.count(f'<article id="tools-search-server-{rule}"') for rule in RULES] == [1, 1, 0]


def test_a_fault_of_the_suite_is_never_taken_for_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = run_of(result("error", rule="cursor-nonempty", level="ADVICE"))
    assert exit_status(run) == 4
    print_run(run, tmp_path)
    assert "ERROR  tools-search-server-cursor-nonempty" in capsys.readouterr().out
    assert "| error | tools-search-server-cursor-nonempty |" in summary(report(run))
    assert 'id="problems"' in page(report(run))


def test_an_interrupted_run_has_no_verdict():
    run = run_of(result("pass"), interrupted=2)
    assert exit_status(run) == 130
    assert verdict_of(run)["word"] == "INTERRUPTED, NO VERDICT"
    assert verdict_of(run)["sentence"].endswith("): signal 2 ended the run; 1 MUST check shown, 0 not shown")
    assert verdict_of(run_of(interrupted=15))["sentence"].endswith("signal 15 ended the run; no check applies")


def test_one_reason_of_many_failures_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rules = ["limit-honored", "query-long", "callable", "no-duplicates"]
    gone = [replace(result("fail", rule=rule), message="the target is gone") for rule in rules]
    run = run_of(*with_causes([*gone, result("fail", rule="advertised")]))
    print_run(run, tmp_path)
    shown = capsys.readouterr().out
    assert shown.count("the target is gone") == 1
    assert shown.count("FAIL") == 2
    assert all(rule in shown for rule in rules)


def test_what_every_request_carries_is_left_out_of_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def sending(capabilities: dict[str, Any], rule: str) -> Result:
        shown = result("fail", rule=rule)
        assert shown.evidence.decisive is not None
        sent = {"id": 1, "params": {"query": "x", "_meta": envelope(capabilities)}}
        return replace(shown, evidence=replace(shown.evidence, decisive=replace(shown.evidence.decisive, sent=sent)))

    print_run(run_of(sending(dict(DECLARED), "query-long"), sending({}, "undeclared-client-refused")), tmp_path)
    shown = capsys.readouterr().out
    assert 'sent     {"id": 1, "params": {"query": "x"}}' in shown
    assert '"io.modelcontextprotocol/clientCapabilities": {}' in shown


def test_the_worst_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    print_run(
        run_of(result("warn", rule="error-data", level="SHOULD"), result("fail"), result("error", rule="advertised")),
        tmp_path,
    )
    shown = capsys.readouterr().out
    assert shown.index("ERROR") < shown.index("FAIL") < shown.index("WARN") < shown.index("NO VERDICT")


def test_the_files_of_failures_are_numbered_in_the_order_of_the_report():
    run = run_of(
        result("fail", rule="id-echoed"),
        result("warn", rule="error-data", level="SHOULD"),
        replace(result("fail", rule="cursor-type"), consequence_of="tools-search-server-limit-honored"),
        result("fail", rule="advertised-legacy-both", cell=SECOND),
        result("fail"),
        result("fail", cell=SECOND),
    )
    shown = re.findall(r"replay conformance-report/failures/(\S+)", summary(report(run)))
    assert [name[:2] for name in shown] == ["01", "02", "04", "05"]  # 03 is folded under the first
    assert set(shown) < {*failure_files(run)}


def test_every_report_is_written(tmp_path: Path):
    write_reports(run_of(result("fail")), tmp_path)
    written = {"report.json", "checks.json", "badge.json", "badge.svg", "junit.xml", "report.html", "summary.md"}
    written.add("failures")
    assert {path.name for path in tmp_path.iterdir()} == written


@pytest.mark.parametrize("status", EVERY)
def test_the_page_shows_what_a_target_sent_as_text_and_asks_for_nothing(status: Status):
    shown = page(report(run_of(result(status), result("pass", cell=SECOND))))
    read = Page(shown)
    assert read.balanced
    assert read.tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "base", "form"})
    assert all(str(address).startswith("#") for address in read.addresses)
    assert {str(address)[1:] for address in read.addresses} <= read.ids
    assert "default-src 'none'" in shown
    assert not {"\x1b", "\u202e", "\ud800"} & set(shown)
    assert "&lt;/script&gt;" in shown
    assert ('id="problems"' in shown) is (status in {"fail", "warn", "unverified", "error"})
    assert ('id="advice"' in shown) is (status == "advice")


class Page(HTMLParser):
    """Which elements a page has, whether they are closed, and what it would load."""

    EMPTY = frozenset({"meta", "br", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str | None] = []
        self.ids: set[str] = set()
        self.balanced = True
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.balanced &= not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for value in (value for name, value in attrs if name == "id"):
            self.balanced &= value not in self.ids
            self.ids.add(str(value))
        self.addresses += [value for name, value in attrs if name in {"src", "href", "action", "style"}]
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.balanced &= bool(self._open) and self._open.pop() == tag


@pytest.mark.rotating
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("status", ["fail", "pass"])
def test_a_browser_shows_the_whole_report_without_scrolling_sideways(
    status: Status, width: int, tmp_path: Path, measured: Callable[[Path, int, str], str]
):
    write_reports(run_of(result(status), ADVICE[0], result("pass", cell=SECOND)), tmp_path)
    dumped = measured(tmp_path / "report.html", width, OVERFLOWING)
    assert "<title>measured </title>" in dumped


OVERFLOWING = """
onload = () => {
  const report = frames[0].document
  for (const each of report.querySelectorAll('details')) each.open = true
  const boxes = [...report.querySelectorAll('*')].filter(each => each.clientWidth && each.tagName != 'PRE')
  const wide = boxes.filter(each => each.scrollWidth > each.clientWidth)
  document.title = 'measured ' + wide.map(each => each.tagName + '.' + each.className)
}
"""


def test_junit_counts_what_counts_against_the_target():
    run = run_of(
        result("fail"),
        result("unverified", rule="query-long"),
        result("unverified", rule="error-data", level="SHOULD"),
        result("warn", rule="default-limit", level="SHOULD"),
        result("skip", rule="callable"),
        *ADVICE[:2],
        ADVICE[-1],
        result("error", rule="no-duplicates"),
        result("pass", rule="query-type"),
        result("pass", cell=SECOND),
    )
    tree = ElementTree.fromstring(junit(run, report(run)))  # noqa: S314 - our own
    first, second, missing = tree.findall("testsuite")
    assert {name: first.get(name) for name in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "stdio-2026-07-28", "tests": "10", "failures": "2", "errors": "1", "skipped": "6",
    }  # fmt: skip
    assert (second.get("tests"), second.get("failures")) == ("1", "0")
    assert missing.get("name") == "http-2026-07-28"
    assert "what happened \\u001b" in junit(run, report(run))


def test_junit_fails_nothing_that_could_not_be_verified_of_a_live_server_or_behind_a_rate_limit():
    limited = run_of(result("unverified"))
    limited.target["servers"][0]["rateLimit"] = {"refused": 3, "secondsWaited": 0, "lasting": True}
    for run in (run_of(result("unverified"), profile="live"), limited):
        tree = ElementTree.fromstring(junit(run, report(run)))  # noqa: S314 - our own
        assert tree.get("failures") == "0"
        assert [suite.get("skipped") for suite in tree] == ["1", "0", "1"]


def test_the_summary_says_what_is_wrong_in_text_that_markdown_leaves_alone():
    text = summary(report(run_of(result("fail"), result("fail", cell=SECOND), result("pass", rule="callable"))))
    assert "| stdio-2026-07-28 | 1 pass, 1 fail | none | none |" in text
    (row,) = (line for line in text.splitlines() if line.startswith("| fail"))
    assert row.endswith("| stdio-2026-07-28, http-2025-11-25 |")
    assert "\\<" in row
    assert "<" not in row.replace("\\<", "")


BOTH = "stdio+http, both eras"


@pytest.mark.parametrize(
    ("run", "message", "color"),
    [
        (run_of(result("pass"), result("skip", rule="callable")), f"1/1 MUST, fixture, {BOTH}", "2e7d32"),
        (run_of(result("pass"), profile="live"), f"1/1 MUST, live, {BOTH}", "1565c0"),
        (run_of(result("pass"), result("fail", cell=SECOND)), f"0/1 MUST, fixture, {BOTH}", "c62828"),
        (
            run_of(result("pass"), result("unverified", rule="callable"), profile="live"),
            f"1/2 MUST, live, {BOTH}",
            "616161",
        ),
        (run_of(result("pass"), *ADVICE), f"1/1 MUST, fixture, {BOTH}", "2e7d32"),
        (run_of(result("pass"), partial=True), f"1/1 MUST, fixture, {BOTH}", "616161"),
        (
            run_of(result("pass"), replace(result("skip", rule="any-sequence"), skip="effort")),
            f"1/2 MUST, fixture, {BOTH}",
            "616161",
        ),
        (run_of(interrupted=2), f"0/0 MUST, fixture, {BOTH}", "616161"),
    ],
)
def test_the_badge_is_green_only_where_nothing_is_missing(run: Run, message: str, color: str):
    document = report(run)
    assert (badge_json(document)["message"], badge_json(document)["color"]) == (message, color)
    image = ElementTree.fromstring(badge_svg(document))  # noqa: S314 - our own
    assert image.get("aria-label") == f"tools/search: {message}"
    assert "".join(image[0].itertext()) == verdict_of(run)["sentence"]


def test_a_case_that_the_message_states_is_not_shown_once_more(target: Command, tmp_path: Path):
    server = target("miniature", "--fault", "limit-zero-served")
    given = ["--effort=quick", "--era=2026-07-28", "--only=limit-invalid", "--out", str(tmp_path)]
    shown = click.testing.CliRunner().invoke(cli, ["server", *given, "--", *server]).output
    assert "stdio-2026-07-28: limit 0 got a result" in shown
    assert "case     " not in shown
    assert "Smallest case" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_has_the_text_around_every_rule_of_the_draft_and_the_guides():
    document = report(run_of(*(result("pass", rule=check.rule) for check in SERVER_CHECKS.all)))
    places = {row["place"] for check in document["checks"] for row in check["requirements"]}
    shown = page(document)
    told = {place for place in places if f"Section <code>{place}</code>" in shown}
    assert told == {place for place in places if place.startswith("spec/")}
    assert {place.partition("#")[0] for place in told} == {
        "spec/draft/tools-search.md",
        "spec/draft/search-primitives.md",
        "spec/guides/servers.md",
    }
