"""The command `client`: what it prints, its exit statuses, and the reports."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import click.testing
import pytest
from jsonschema import Draft202012Validator
from tools_search_conformance.cli import cli
from tools_search_conformance.report.document import schema_of
from tools_search_conformance.run import judging

Command = Callable[..., tuple[str, ...]]
Run = Callable[..., click.testing.Result]
METHODS = "tools/search, resources/search, resources/templates/search, prompts/search"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(cli.cli, ["client", *arguments])

    return invoke


def test_a_client_that_keeps_the_rules_ends_in_0(run: Run, target: Command, tmp_path: Path):
    result = run("--only", "query-repeated", "--only", "declares-*", "--", *target("miniature_client"))
    assert result.exit_code == 0, result.output
    covered = f"(through its driver; stdio and HTTP; 2026-07-28 and 2025-11-25; {METHODS})"
    assert f"{covered}: 2 MUST checks shown" in result.output
    log = (tmp_path / "conformance-report" / "wire" / "http-2025-11-25.jsonl").read_text()
    assert '"method":"initialize"' in log
    assert "to the driver: " in log


@pytest.mark.rotating
def test_a_client_that_keeps_the_rules_bears_a_thousand_cases(run: Run, target: Command):
    asked = ["--effort", "deep", "--only", "empty-page-not-end", "--cell", "http-2026"]
    result = run(*asked, "--", *target("miniature_client"))
    assert result.exit_code == 0, result.output


def test_a_client_that_lists_in_the_background_does_not_list_because_of_malformed_hints(run: Run, target: Command):
    asked = ["--only", "cache-hints-malformed", "--cell", "2026", "--strict"]
    result = run(*asked, "--", *target("miniature_client", "--fault", "lists-once-it-has-searched"))
    assert result.exit_code == 0, result.output


@pytest.mark.rotating
def test_a_client_that_does_not_search_one_of_the_lists_is_judged_by_the_others(run: Run, target: Command):
    asked = ["--effort", "quick", "--level", "must", "--cell", "http-2026"]
    result = run(*asked, "--", *target("miniature_client", "--unsearched", "resourceTemplates"))
    assert result.exit_code == 0, result.output
    assert "0 not shown" in result.output


def test_a_client_that_takes_its_time_is_judged_like_any_other(
    run: Run, target: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(judging._CHECK_SECONDS, "quick", 4)  # pyright: ignore[reportPrivateUsage]
    asked = ["--effort", "quick", "--only", "settings-malformed", "--cell", "http-2026"]
    result = run(*asked, "--", *target("miniature_client", "--fault", "slow-to-search"))
    assert result.exit_code == 0, result.output


def test_a_broken_rule_ends_in_1_with_its_sentence_and_exchange(run: Run, target: Command):
    asked = ["--only", "query-repeated", "--era", "2025-11-25", "--transport", "stdio", "--seed", "7"]
    result = run(*asked, "--", *target("miniature_client", "--fault", "query-lowered-with-cursor"))
    assert result.exit_code == 1
    for line in (
        "FAIL  tools-search-client-query-repeated",
        '"A client MUST repeat the `query` unchanged with every `cursor`."',
        "(R-CUR-01)",
        "first, and '  export  the almanac & =? ' with the cursor 'page2'",
        '"cursor": "page2"',
        "wire log stdio-2025-11-25.jsonl, exchange",
        "rerun    the same command with --only query-repeated --cell stdio-2025-11-25 --seed 7\n",
        f"NOT CONFORMANT (through its driver; stdio; 2025-11-25; 2026-07-28 not chosen; {METHODS}): 1 MUST",
    ):
        assert line in result.output


def test_the_reports_of_a_client_are_those_of_a_server(run: Run, target: Command, tmp_path: Path):
    argv = target("miniature_client", "--fault", "settings-strict")
    result = run("--only", "settings-malformed", "--transport", "stdio", "--json", "--", *argv)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.output)
    Draft202012Validator(schema_of("report")).validate(report)  # pyright: ignore[reportUnknownMemberType] - untyped
    assert report["target"] == {"clients": [{"argv": list(argv), "sdk": "miniature", "version": "1"}]}
    assert {entry["status"] for entry in report["results"]} == {"warn"}
    assert [check["id"] for check in report["checks"]] == ["tools-search-client-settings-malformed"]
    out = tmp_path / "conformance-report"
    assert "miniature_client" in (out / "report.html").read_text()
    assert "tools-search-client-settings-malformed" in (out / "junit.xml").read_text()
    assert "tools-search-client-settings-malformed" in (out / "summary.md").read_text()
    assert json.loads((out / "checks.json").read_text())[0]["status"] == "WARNING"


def test_a_client_may_call_by_what_it_has_listed_since_it_searched(run: Run, target: Command):
    argv = target("miniature_client", "--fault", "lists-before-it-calls")
    result = run("--only", "http-param-headers", "--cell", "http-2026", "--json", "--", *argv)
    assert [(entry["status"], entry["skip"]) for entry in json.loads(result.output)["results"]] == [
        ("skip", "not-offered")
    ]


def test_a_client_need_not_connect_where_it_cannot_list(run: Run, target: Command):
    argv = target("miniature_client", "--fault", "lists-when-it-connects")
    result = run("--only", "never-probes", "--only", "cache-not-crossed", "--json", "--", *argv)
    assert [entry["status"] for entry in json.loads(result.output)["results"]] == ["pass"] * 8, result.output


def test_a_client_may_stop_at_a_refused_cursor_with_what_it_has(run: Run, target: Command):
    argv = target("miniature_client", "--fault", "refused-cursor-ends")
    only = ("--only", "refused-cursor-discards", "--only", "refused-cursor-once")
    result = run(*only, "--transport", "stdio", "--json", "--", *argv)
    assert {entry["status"] for entry in json.loads(result.output)["results"]} == {"pass"}, result.output


@pytest.mark.rotating
@pytest.mark.parametrize("way", ["stops-after-two-pages", "stops-after-five-pages"])
def test_a_client_may_stop_after_any_number_of_pages(run: Run, target: Command, way: str):
    argv = target("miniature_client", "--fault", way, "--without", "primitives")
    result = run("--effort", "quick", "--cell", "stdio-2026", "--json", "--", *argv)
    assert {entry["status"] for entry in json.loads(result.output)["results"]} == {"pass", "skip"}, result.output
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("way", "check", "status"),
    [
        ("lists-everywhere", "settings-unknown-members", "unverified"),
        ("lists-everywhere", "settings-malformed", "unverified"),
        ("stops-after-one-page", "empty-cursor-followed", "unverified"),
        ("asks-twice-for-each-page", "cursor-verbatim", "pass"),
        ("asks-twice-for-each-of-five-pages", "cursor-verbatim", "pass"),
        ("asks-twice-for-each-of-five-pages", "last-page-ends", "pass"),
        ("asks-twice-for-each-page", "last-page-ends", "pass"),
        ("asks-twice-for-each-first-page", "last-page-ends", "pass"),
        ("asks-twice-for-each-first-page", "refused-cursor-once", "pass"),
    ],
)
def test_a_client_is_blamed_for_no_rule_that_it_does_not_come_to(
    run: Run, target: Command, way: str, check: str, status: str
):
    argv = target("miniature_client", "--fault", way, "--without", "primitives")
    result = run("--only", check, "--cell", "stdio-2026", "--json", "--", *argv)
    assert [entry["status"] for entry in json.loads(result.output)["results"]] == [status], result.output


@pytest.mark.parametrize("level", ["must", "B-*"])
def test_a_client_that_never_searches_gets_no_verdict_but_what_to_do(
    run: Run, target: Command, tmp_path: Path, level: str
):
    asked = ["--level", level] if level == "must" else ["--requirement", level]
    asked += ["--effort", "quick", "--cell", "stdio-2026"]
    result = run(*asked, "--", *target("miniature_client", "--fault", "lists-everywhere", "--without", "primitives"))
    assert result.exit_code == 3, result.output
    for line in (
        "INCONCLUSIVE (through its driver; stdio; 2026-07-28; ",
        " checks could not be verified (",
        "the client did not send tools/search, although it was offered",
        "Have the client search whenever it is asked to find tools, even if it could list them instead",
    ):
        assert line in result.output
    assert 'failures="0"' in (tmp_path / "conformance-report" / "junit.xml").read_text()


def test_a_client_that_fails_to_search_is_told_what_its_driver_reported(run: Run, target: Command):
    argv = target("miniature_client", "--fault", "fails-without-limit", "--without", "primitives")
    result = run("--only", "settings-malformed", "--cell", "stdio-2026", "--", *argv)
    assert "although it was offered; the driver answered `search` with the error 'a null pointer'" in result.output


def test_a_client_that_answers_from_what_another_server_sent_is_told_so(run: Run, target: Command):
    argv = target("miniature_client", "--fault", "pages-kept-for-every-server", "--without", "primitives")
    result = run("--only", "cache-*", "--cell", "stdio-2026", "--", *argv)
    message = "the client did not send tools/search, although it was offered; the driver answered without any request"
    assert f"{message} to this server" in result.output, result.output


@pytest.mark.rotating
def test_a_client_whose_cursors_are_no_strings_is_no_fault_of_the_suite(run: Run, target: Command):
    argv = target("miniature_client", "--fault", "cursors-in-arrays", "--without", "primitives")
    result = run("--effort", "quick", "--cell", "stdio-2026", "--", *argv)
    assert result.exit_code == 1, result.output
    assert "ERROR" not in result.output


def test_a_client_that_leaves_even_a_single_rule_unverified_gets_no_verdict_but_a_bad_one_in_a_strict_run(
    run: Run, target: Command, tmp_path: Path
):
    argv = target("miniature_client", "--fault", "stops-after-one-page", "--without", "primitives")
    asked = ["--only", "query-repeated", "--only", "never-probes", "--cell", "stdio-2026"]
    result = run(*asked, "--", *argv)
    assert result.exit_code == 3, result.output
    assert "MUST checks could not be verified (1 of 2 in stdio-2026-07-28)" in result.output
    assert run(*asked, "--strict", "--", *argv).exit_code == 1
    assert 'failures="1"' in (tmp_path / "conformance-report" / "junit.xml").read_text()


def test_a_client_may_count_the_requests_of_each_of_its_connections_from_one(run: Run, target: Command):
    argv = target("miniature_client", "--without", "cancel", "--fault", "connects-for-each-search")
    result = run("--only", "*request-ids", "--json", "--", *argv)
    assert [entry["status"] for entry in json.loads(result.output)["results"]] == ["pass"] * 4, result.output


@pytest.mark.parametrize("way", ["low-scores-left-out-wherever-they-are", "stops-where-scores-are-low"])
def test_a_client_may_do_without_tools_with_low_scores_wherever_they_are(run: Run, target: Command, way: str):
    argv = target("miniature_client", "--fault", way)
    result = run("--only", "*scores-not-compared", "--cell", "stdio-2026", "--json", "--", *argv)
    assert {entry["status"] for entry in json.loads(result.output)["results"]} <= {"pass", "skip"}, result.output


@pytest.mark.anyio
async def test_an_interrupted_run_reports_its_findings_so_far(target: Command, tmp_path: Path):
    out = tmp_path / "report"
    log = out / "wire" / "stdio-2026-07-28.jsonl"
    argv = [sys.executable, "-m", "tools_search_conformance", "client", "--json", "--out", str(out), "--"]
    with anyio.fail_after(60):
        process = await anyio.open_process([*argv, *target("miniature_client")])
        assert process.stdout is not None
        while not log.exists() or b"tools/search" not in log.read_bytes():  # noqa: ASYNC110 - another process sets no events
            await anyio.sleep(0.02)
        process.send_signal(signal.SIGINT)
        written = b"".join([chunk async for chunk in process.stdout])
        assert await process.wait() == 128 + signal.SIGINT
        await process.aclose()
    assert json.loads(written)["verdict"]["word"] == "INTERRUPTED, NO VERDICT"


def test_a_driver_that_is_not_trusted_ends_in_3_with_one_sentence(run: Run, target: Command):
    result = run("--", *target("null_drivers", "yes"))
    assert result.exit_code == 3
    assert "the driver cannot be trusted" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["--only", "limit-invalid", "--", "x"], ["--era", "2024", "--", "x"], ["--env", "X", "--", "x"]]
)
def test_wrong_usage_ends_in_2(run: Run, arguments: list[str]):
    assert run(*arguments).exit_code == 2


def test_a_baseline_expects_known_failures(run: Run, target: Command, tmp_path: Path):
    baseline = tmp_path / "known.yaml"
    baseline.write_text("- {check: query-repeated, reason: being mended}\n")
    asked = ["--only", "query-repeated", "--era", "2025-11-25", "--baseline", str(baseline), "--"]
    assert run(*asked, *target("miniature_client", "--fault", "query-lowered-with-cursor")).exit_code == 0
    assert run(*asked, *target("miniature_client")).exit_code == 1


def test_a_baseline_for_clients_names_no_checks_of_servers(run: Run, tmp_path: Path):
    baseline = tmp_path / "known.yaml"
    baseline.write_text("- {check: limit-invalid, reason: being mended}\n")
    assert run("--baseline", str(baseline), "--", "x").exit_code == 2


def test_client_checks_are_listed_and_explained():
    invoke = click.testing.CliRunner().invoke
    assert "ADVICE  tools-search-client-cursor-loop" in invoke(cli.cli, ["list"]).output
    explained = invoke(cli.cli, ["explain", "never-probes"]).output
    sentence = '"A client MUST NOT send `tools/search` to a server that did not advertise this extension."'
    assert sentence in " ".join(explained.split())  # whatever the width of the terminal
    assert "tools-search-conformance client --only never-probes -- DRIVER" in explained
    both = invoke(cli.cli, ["explain", "http-method-header"]).output
    assert "tools-search-server-http-method-header" in both
    assert "tools-search-client-http-method-header" in both


def test_a_client_without_the_extension_leaves_nothing_to_judge(run: Run, target: Command):
    result = run("--era", "2026-07-28", "--transport", "stdio", "--", *target("miniature_client", "--fault", "silent"))
    assert result.exit_code == 3
    assert "neither declares io.github.tools-search/tools-search" in result.output
