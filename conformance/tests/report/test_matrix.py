"""Many runs on one page: each check against each implementation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools_search_conformance.cli.cli import cli

Command = Callable[..., tuple[str, ...]]


@pytest.fixture(scope="module")
def reports(target: Command, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made: dict[str, Path] = {}
    for name, fault in (("sound", "none"), ("broken", "limit-zero-served"), ("unadvised", "cursor-empty")):
        folder = tmp_path_factory.mktemp("reports") / name
        only = [f"--only={rule}" for rule in ("limit-invalid", "advertised", "cursor-nonempty")]
        asked = ["--effort", "quick", *only, "--out", str(folder)]
        CliRunner().invoke(cli, ["server", *asked, "--", *target("miniature", "--fault", fault)])
        made[name] = folder / "report.json"
    return made


def test_each_implementation_has_its_column(reports: dict[str, Path], tmp_path: Path):
    sound, broken = reports["sound"], reports["broken"]
    done = CliRunner().invoke(cli, ["report", "merge", "--out", str(tmp_path), str(sound), f"theirs={broken}"])
    assert done.exit_code == 0, done.output
    table = (tmp_path / "matrix.md").read_text(encoding="utf-8").splitlines()
    assert table[0] == "| Check | sound | theirs |"
    assert "| tools-search-server-limit-invalid | ✓ | ✗ |" in table
    assert "| tools-search-server-advertised | ✓ | ✓ |" in table
    methods = "tools/search, resources/search, resources/templates/search, prompts/search"
    covered = f"(fixture profile; stdio; 2026-07-28 and 2025-11-25; {methods})"
    words = ("PASSED, BUT NOT EVERY CHECK WAS CHOSEN", "NOT CONFORMANT")
    assert table[-1] == f"| **Verdict** | {' | '.join(f'{word} {covered}' for word in words)} |"
    page = (tmp_path / "matrix.html").read_text(encoding="utf-8")
    assert "2 implementations of tools/search" in page
    assert "limit 0 got a result instead of error -32602" in page
    assert "<script" not in page


def test_a_phone_shows_what_each_check_is_called_and_only_the_differences_on_request(
    reports: dict[str, Path], tmp_path: Path, measured: Callable[[Path, int, str], str]
):
    merged = [f"{name}-{number}={report}" for name, report in reports.items() for number in (1, 2)]
    assert CliRunner().invoke(cli, ["report", "merge", "--out", str(tmp_path), *merged]).exit_code == 0
    dumped = measured(tmp_path / "matrix.html", 390, COUNTED)
    assert "<title>wide enough; 3 rows, 2 of them differ</title>" in dumped


COUNTED = """
onload = () => {
  const page = frames[0].document
  const rows = () => [...page.querySelectorAll('summary')].filter(each => each.clientWidth).length
  const names = [...page.querySelectorAll('summary')].map(each => each.clientWidth)
  const fits = Math.min(...names) > 100
  const all = rows()
  page.querySelector('.differences').click()
  document.title = `${fits ? 'wide enough' : 'too narrow'}; ${all} rows, ${rows()} of them differ`
}
"""


def test_advice_that_is_not_taken_has_a_mark_of_its_own_and_no_part_in_the_verdict(
    reports: dict[str, Path], tmp_path: Path
):
    merged = [str(reports["sound"]), str(reports["unadvised"])]
    assert CliRunner().invoke(cli, ["report", "merge", "--out", str(tmp_path), *merged]).exit_code == 0
    table = (tmp_path / "matrix.md").read_text(encoding="utf-8").splitlines()
    assert "| tools-search-server-cursor-nonempty | ✓ | ~ |" in table
    assert table[-1].count("PASSED, BUT NOT EVERY CHECK WAS CHOSEN") == 2
    assert "advice not taken" in (tmp_path / "matrix.html").read_text(encoding="utf-8")


def test_servers_and_clients_stand_apart(reports: dict[str, Path], target: Command, tmp_path: Path):
    client = tmp_path / "client"
    asked = ["--only", "never-probes", "--cell", "stdio-2026", "--out", str(client)]
    CliRunner().invoke(cli, ["client", *asked, "--", *target("miniature_client")])
    merged = [str(client / "report.json"), str(reports["sound"])]
    done = CliRunner().invoke(cli, ["report", "merge", "--out", str(tmp_path), *merged])
    assert done.exit_code == 0, done.output
    table = (tmp_path / "matrix.md").read_text(encoding="utf-8").splitlines()
    heads = [line for line in table if line.startswith(("## ", "| Check"))]
    assert heads == ["## Servers", "| Check | sound |", "## Clients", "| Check | client |"]
    page = (tmp_path / "matrix.html").read_text(encoding="utf-8")
    assert page.index("Servers: all checks") < page.index("limit-invalid") < page.index("Clients: all checks")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["{sound}", "{sound}"], "two reports are named"),
        (["nowhere.json"], "cannot read"),
        (["{other}"], "not a report from this suite"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_merged_is_refused(given: list[str], told: str, reports: dict[str, Path], tmp_path: Path):
    (tmp_path / "other.json").write_text(json.dumps({"results": []}))
    paths = [text.format(sound=reports["sound"], other=tmp_path / "other.json") for text in given]
    done = CliRunner().invoke(cli, ["report", "merge", "--out", str(tmp_path / "out"), *paths])
    assert done.exit_code == 2
    assert told in done.output
