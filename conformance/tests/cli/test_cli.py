"""The command: what it takes, what it prints, and its exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import click.testing
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.cli import cli
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.process import TargetProcess

Command = Callable[..., tuple[str, ...]]
COMMAND = [sys.executable, "-m", "tools_search_conformance"]
METHODS = "tools/search, resources/search, resources/templates/search, prompts/search"
COVERED = f"(fixture profile; stdio; 2026-07-28 and 2025-11-25; {METHODS})"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., click.testing.Result]:
    def invoke(*arguments: str) -> click.testing.Result:
        out = ("--out", str(tmp_path / "report"), "--effort", "quick") if arguments[0] == "server" else ()
        return click.testing.CliRunner().invoke(cli.cli, [arguments[0], *out, *arguments[1:]])

    return invoke


Run = Callable[..., click.testing.Result]


def test_a_conformant_server_ends_in_0(run: Run, target: Command, tmp_path: Path):
    result = run("server", "--only", "limit-*", "--seed", "7", "--", *target("miniature"))
    assert result.exit_code == 0, result.output
    assert "seed 7" in result.output
    assert (tmp_path / "report" / "wire" / "stdio-2026-07-28.jsonl").stat().st_size > 0


def test_chosen_checks_that_pass_are_no_verdict_on_the_whole(run: Run, target: Command, tmp_path: Path):
    result = run("server", "--only", "limit-invalid", "--only", "limit-honored", "--", *target("miniature"))
    assert f"PASSED, BUT NOT EVERY CHECK WAS CHOSEN {COVERED}" in result.output
    assert "2 MUST checks shown, 0 not shown" in result.output
    assert json.loads((tmp_path / "report" / "report.json").read_text())["verdict"]["partial"] is True


def test_a_broken_rule_ends_in_1_with_its_sentence_and_exchange(run: Run, target: Command):
    result = run("server", "--only", "limit-invalid", "--", *target("miniature", "--fault", "limit-zero-served"))
    assert result.exit_code == 1
    for told in (
        "FAIL  tools-search-server-limit-invalid",
        "R-LIM-",
        "limit 0",
        '"limit": 0',
        "wire log",
        f"NOT CONFORMANT {COVERED}: 1 MUST check failed",
    ):
        assert told in result.output.replace("R-REF-", "R-LIM-")


def test_a_recommendation_that_is_not_followed_ends_in_0(run: Run, target: Command):
    result = run("server", "--only", "error-data", "--", *target("miniature", "--fault", "error-without-data"))
    assert result.exit_code == 0
    assert "WARN  tools-search-server-error-data" in result.output
    assert ": the error has no `data`" in result.output
    assert "1 recommendation not followed" in result.output


def test_features_that_a_fixture_cannot_have_are_wrong_usage(run: Run, target: Command):
    unknown = run("server", "--fixture-features", "reload,teleport", "--", *target("miniature"))
    assert unknown.exit_code == 2
    assert "'teleport' unknown; the features are reload, delay, callers, replicas" in unknown.output
    live = run("server", "--fixture-features", "reload", "--profile", "live", "--", *target("miniature"))
    assert live.exit_code == 2
    assert "--fixture-features needs a fixture that the suite starts" in live.output


def test_checks_of_a_feature_run_where_it_is_claimed(run: Run, target: Command, tmp_path: Path):
    chosen = ["--only", "change-seen", "--only", "cancelled-*", "--era", "2026-07-28"]
    claimed = run("server", *chosen, "--effort", "default", "--fixture-features", "reload", "--", *target("miniature"))
    assert claimed.exit_code == 0, claimed.output
    assert "2 checks not run: if your fixture supports more, pass --fixture-features delay" in claimed.output
    results = json.loads((tmp_path / "report" / "report.json").read_text())["results"]
    assert {(result["status"], result.get("skip")) for result in results} == {
        ("pass", None),
        ("skip", "fixture-feature"),
    }


def test_a_server_that_cannot_be_started_ends_in_3(run: Run):
    result = run("server", "--", "no-such-program")
    assert result.exit_code == 3
    assert "cannot start `no-such-program`" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("era", "fault", "told"),
    [
        ("2026-07-28", "not-discovered", "CONFORMANT"),
        ("2025-11-25", "legacy-unadvertised", "CONFORMANT"),
    ],
)
def test_what_is_served_but_not_advertised_is_judged(run: Run, target: Command, era: str, fault: str, told: str):
    result = run("server", "--era", era, "--", *target("miniature", "--fault", fault))
    assert result.exit_code == 1
    assert told in result.output


def test_a_server_that_offers_no_search_ends_in_3(run: Run, target: Command):
    result = run("server", "--", *target("plain_server"))
    assert result.exit_code == 3
    assert "does not advertise io.github.tools-search/tools-search" in result.output


def test_silence_in_one_era_is_judged_by_the_other(run: Run, target: Command):
    result = run("server", "--", *target("plain_server", "modern"))
    assert result.exit_code == 1
    assert "FAIL  tools-search-server-advertised-legacy-both" in result.output
    assert "stdio-2025-11-25   not run" in result.output


def test_an_era_that_is_promised_must_be_spoken(run: Run, target: Command):
    result = run("server", "--only", "advertised", "--", *target("plain_server", "modern", "promises"))
    assert result.exit_code == 3
    assert "stdio-2025-11-25   not run: server/discover promises 2025-11-25, but" in result.output
    assert "NO VERDICT (fixture profile; stdio; 2026-07-28): stdio-2025-11-25 could not be run" in result.output
    assert "To test 2026-07-28 alone, pass --era 2026-07-28. The verdict then says so." in result.output


def test_what_was_found_on_one_transport_is_kept_when_the_other_cannot_be_started(run: Run, target: Command):
    result = run("server", "--only", "advertised", "--http-command", "no-such-program", "--", *target("miniature"))
    assert result.exit_code == 3
    assert "http-2026-07-28    not run: cannot start `no-such-program`" in result.output
    assert "http-2026-07-28 could not be run; 1 MUST check shown" in result.output


def test_a_server_that_ignores_the_fixture_is_told_so(run: Run, target: Command):
    result = run("server", "--", *target("plain_server", "both"))
    assert result.exit_code == 3
    assert "--profile live" in result.output


@pytest.mark.parametrize(
    ("first_line", "told"),
    [
        ("print('Listening')", "the first line"),
        ('print(\'{"url": "http://10.0.0.1/"}\')', "--allow-remote"),
        ("1", "the first line"),
    ],
)
def test_an_http_command_says_where_it_listens(run: Run, first_line: str, told: str):
    command = f'{sys.executable} -c "{first_line.replace(chr(34), chr(92) + chr(34))}"'
    result = run("server", "--start-timeout", "5", "--http-command", command)
    assert result.exit_code == 3
    assert told in result.output


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["python", "server.py"], "No such command 'python'. To test a server, use `server -- ARGV`"),
        (["server", "--timeout", "nan", "--", "true"], "'nan' is not a number"),
    ],
)
def test_wrong_usage_is_answered_with_what_is_right(run: Run, arguments: list[str], advice: str):
    ended = run(*arguments)
    assert (ended.exit_code, advice in " ".join(ended.output.split())) == (2, True), ended.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["server"],
        ["server", "--url", "http://127.0.0.1:1/", "--", "x"],
        ["server", "--only", "no-such", "--", "x"],
        ["server", "--env", "X", "--", "x"],
        ["server", "--header", "X", "--url", "http://127.0.0.1:1/"],
        ["server", "--http-command", "'"],
        ["server", "--http-command", ""],
        ["server", "--era", "2024", "--", "x"],
        ["explain", "no-such"],
        ["frobnicate"],
    ],
)
def test_wrong_usage_ends_in_2(run: Run, arguments: list[str]):
    assert run(*arguments).exit_code == 2


def test_an_address_is_judged_live_with_its_headers_hidden(run: Run, target: Command, tmp_path: Path):
    catalog = Path(catalogs.__file__).with_name("core.json")
    environment = os.environ | {"TOOLS_SEARCH_CATALOG": str(catalog)}
    with subprocess.Popen(target("miniature", "--http"), stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        result = run("server", "--url", url, "--header", "X-Key: hush", "--only", "subset-of-list", "--json")
        process.terminate()
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["profile"] == "live"
    assert report["target"] == {"servers": [{"transport": "http", "url": url}]}
    log = (tmp_path / "report" / "wire" / "http-2025-11-25.jsonl").read_text()
    assert "[redacted]" in log
    assert "hush" not in log


def test_a_variable_named_alone_is_passed_on_and_the_report_names_all_that_were(
    run: Run, target: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLS_SEARCH_CATALOG", str(Path(catalogs.__file__).with_name("core.json")))
    live = ("--profile", "live", "--only", "subset-of-list", "--era", "2026-07-28")
    without = run("server", *live, "--", *target("miniature"))
    assert without.exit_code == 3
    result = run("server", *live, "--env", "TOOLS_SEARCH_CATALOG", "--", *target("miniature"))
    assert result.exit_code == 0, result.output
    shown = next(line for line in result.output.splitlines() if line.startswith("env "))
    assert "PATH" in shown
    assert "TOOLS_SEARCH_CATALOG" in shown


def test_a_variable_that_is_not_set_cannot_be_passed_on(run: Run):
    result = run("server", "--env", "NO_SUCH_VARIABLE", "--", "any")
    assert result.exit_code == 2
    assert "NO_SUCH_VARIABLE is not set in this environment" in result.output


def test_an_address_elsewhere_has_to_be_asked_for(run: Run):
    result = run("server", "--url", "http://example.com/mcp")
    assert result.exit_code == 2
    assert "--allow-remote" in result.output


def test_the_checks_are_listed(run: Run):
    listed = run("list").output
    assert "MUST    tools-search-server-advertised" in listed
    assert "SHOULD  tools-search-server-default-limit" in listed
    assert "ADVICE  tools-search-server-cursor-nonempty" in listed
    entries: list[dict[str, Any]] = json.loads(run("list", "--json").output)
    assert len(entries) >= 50
    assert all(entry["requirements"] for entry in entries)


@pytest.mark.parametrize("name", ["", *sorted(cli.cli.commands)])
def test_the_help_of_every_command_fits_a_terminal_of_80_columns_apart_from_what_is_copied(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    long = [line.split() for line in run(*name.split(), "--help").output.splitlines() if len(line) > 80]
    assert {words[0] for words in long} <= {"tools-search-conformance", "eval"}


def test_an_explanation_fits_a_narrow_terminal_apart_from_what_is_copied(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("explain", "call-authorized").output.splitlines()
    assert len(lines) > 20
    assert {line.split()[0] for line in lines if len(line) > 60} <= {"tools-search-conformance", lines[-1].split()[0]}


def test_a_check_is_explained_with_its_sentence(run: Run):
    explained = run("explain", "limit-honored").output
    assert '"A server MUST NOT return more than `limit` tools in a page."' in explained
    assert "spec/draft/tools-search.md#" in explained
    assert "sent " in explained


def test_advice_is_explained_with_the_sentence_of_the_guide(run: Run):
    explained = run("explain", "cursor-nonempty").output
    assert '"Do not issue an empty string as a cursor: some clients take it for the end."' in explained
    assert "spec/guides/servers.md#cursors (R-PAG-05)" in explained
    assert "level   ADVICE, which never counts\n" in explained


@pytest.mark.parametrize(
    ("check", "name"),
    [("limit-honored", "draft"), ("contents-match", "primitives"), ("federation-asks-all", "hosts-guide")],
)
def test_an_explanation_names_the_document_that_has_the_sentence_and_docs_prints_it(run: Run, check: str, name: str):
    sentence, _, place = run("explain", check).output.partition('"')[2].partition('"')
    assert place.rstrip().endswith(f"(tools-search-conformance docs {name})")
    assert place.count("tools-search-conformance docs ") == 1
    text = " ".join(run("docs", name).output.replace("**", "").split())
    assert " ".join(sentence.split()) in text


@pytest.mark.parametrize("in_a_task", [False, True])
def test_a_fault_of_the_suite_ends_in_4(
    in_a_task: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken() -> None:
        fault = RuntimeError("oops")
        raise ExceptionGroup("tasks", [ExceptionGroup("tasks", [fault])]) if in_a_task else fault

    monkeypatch.setattr(cli.cli, "main", lambda *_, **__: broken())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", "its own")  # which the command would set for all later tests
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert ended.value.code == 4
    assert "the suite failed: RuntimeError: oops" in capsys.readouterr().err


def test_what_is_missing_of_an_installation_is_named_with_how_to_get_it():
    without = "import sys; sys.modules['yaml'] = None; from tools_search_conformance.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "the module yaml is missing" in done.stderr
    assert f"{sys.executable} -m pip install 'mcp-ext-tools-search[conformance]'" in done.stderr


def test_colors_are_left_out_where_nobody_wants_them():
    program = "from tools_search_conformance.cli import cli; print(cli.cli.make_context('x', ['list']).color)"
    for wish, told in (("1", "False"), ("", "None")):
        env = os.environ | {"NO_COLOR": wish}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=30, check=True
        )
        assert done.stdout.strip() == told


def test_a_run_leaves_nothing_where_it_is_typed_but_its_reports(target: Command, tmp_path: Path):
    here, caches = tmp_path / "here", tmp_path / "caches"
    here.mkdir()
    argv = [*COMMAND, "server", "--only", "query-unusual-characters", "--cell", "stdio-2026", "--effort", "quick"]
    env = os.environ | {"XDG_CACHE_HOME": str(caches)}
    env.pop("HYPOTHESIS_STORAGE_DIRECTORY", None)
    done = subprocess.run([*argv, "--", *target("miniature")], cwd=here, env=env, timeout=60, check=False)
    assert done.returncode == 0
    assert [path.name for path in here.iterdir()] == ["conformance-report"]
    assert [path.name for path in caches.iterdir()] == ["tools-search-conformance"]


@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_tells_what_it_had_found_and_leaves_nothing(
    target: Command, tmp_path: Path, number: signal.Signals
):
    out, temporary = tmp_path / "report", tmp_path / "temporary"
    temporary.mkdir()
    argv = [*COMMAND, "server", "--json", "--timeout", "60", "--out", str(out), "--", *target("nulls", "mute_search")]
    log = out / "wire" / "stdio-2026-07-28.jsonl"
    with anyio.fail_after(60):
        process = await anyio.open_process(argv, env=os.environ | {"TMPDIR": str(temporary)})
        assert process.stdout is not None
        while not log.exists() or b"tools/list" not in log.read_bytes():  # noqa: ASYNC110 - another process sets no events
            await anyio.sleep(0.02)
        process.send_signal(number)
        written = b"".join([chunk async for chunk in process.stdout])
        assert await process.wait() == 128 + number
        await process.aclose()
    report = json.loads(written)
    assert report == json.loads((out / "report.json").read_text())
    assert report["verdict"]["word"] == "INTERRUPTED, NO VERDICT"
    assert list(temporary.iterdir()) == []


def test_options_choose_the_profile_that_fits(options: Callable[..., Options]):
    assert options(argv=("x",)).effective_profile == "fixture"
    assert options(url="http://127.0.0.1/").effective_profile == "live"
    assert options(url="http://127.0.0.1/", profile="fixture").effective_profile == "fixture"
    assert TargetProcess.__doc__
