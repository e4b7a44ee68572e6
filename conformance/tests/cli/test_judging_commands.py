"""A failure is kept in a file, from which it is repeated: still failing, or fixed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from tools_search_conformance.cli.cli import cli
from tools_search_conformance.report.document import schema_of

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Path]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def failing(tmp_path: Path) -> Judge:
    """Return what judges a server by one check in one era and returns the file of its failure."""

    def judge(rule: str, *target: str, options: tuple[str, ...] = ("--effort", "quick")) -> Path:
        asked = ("--only", rule, "--era", "2026-07-28", "--seed", "1", "--out", str(tmp_path), *options)
        assert run("server", *asked, *target).exit_code in {0, 1}
        (file,) = (tmp_path / "failures").iterdir()
        return file

    return judge


def test_a_failure_is_repeated_and_found_mended(failing: Judge, target: Command):
    file = failing("pages-disjoint", "--", *target("miniature", "--fault", "first-comes-again"))
    failure = json.loads(file.read_bytes())
    Draft202012Validator(schema_of("failure")).validate(failure)  # pyright: ignore[reportUnknownMemberType] - untyped
    assert "cursor" in failure["requests"][-1]["sent"]["params"]

    still = run("replay", str(file))
    assert still.exit_code == 1, still.output
    assert "STILL FAILING" in still.output
    assert "different answer" not in still.output

    mended = run("replay", str(file), "--", *target("miniature"))
    assert mended.exit_code == 0, mended.output
    assert "different answer" in mended.output
    assert "PASSES NOW" in mended.output


@pytest.mark.rotating
def test_a_failure_on_a_generated_catalog_brings_the_catalog(failing: Judge, target: Command):
    broken = target("miniature", "--fault", "names-folded")
    file = failing("exact-name-first", "--", *broken, options=("--effort", "default"))
    failure = json.loads(file.read_bytes())
    (spelled,) = {tool["name"].lower() for tool in failure["catalog"]["tools"]}
    assert spelled in {"casematters.name", "long" + "-long.name" * 12}
    assert "on a generated catalog of 2 tools" in failure["case"]
    assert "different answer" in run("replay", str(file), "--", *target("miniature")).output


def test_what_fails_only_sometimes_is_told_so(failing: Judge, target: Command):
    file = failing("query-unusual-characters", "--", *target("miniature", "--fault", "first-zero-is-internal"))
    assert "(not every time)" in json.loads(file.read_bytes())["message"]
    again = run("replay", str(file))
    assert (again.exit_code, "(not every time)" in again.output) == (1, True)


def test_advice_over_http_is_repeated_without_secrets(failing: Judge, target: Command):
    command = " ".join(target("miniature", "--http", "--fault", "params-status-200"))
    options = ("--http-command", command, "--header", "X-Key: hush", "--env", "KEY=hush", "--effort", "quick")
    file = failing("invalid-params-status", options=options)
    assert b"hush" not in file.read_bytes()
    still = run("replay", str(file))
    assert (still.exit_code, "STILL NOT TAKEN" in still.output) == (1, True)
    assert run("replay", str(file), "--http-command", " ".join(target("miniature", "--http"))).exit_code == 0
    assert run("replay", str(file), "--", *target("miniature")).exit_code == 2


def test_a_failure_that_takes_a_feature_of_the_fixture_is_repeated_with_it(failing: Judge, target: Command):
    argv = target("miniature", "--fault", "altered-tool-as-it-was")
    file = failing("change-seen", "--", *argv, options=("--fixture-features", "reload", "--cwd", "."))
    failure = json.loads(file.read_bytes())
    Draft202012Validator(schema_of("failure")).validate(failure)  # pyright: ignore[reportUnknownMemberType] - untyped
    assert failure["target"]["cwd"] == str(Path.cwd())
    still = run("replay", str(file))
    assert (still.exit_code, "STILL FAILING: " in still.output, "needs a" in still.output) == (1, True, False)
    assert run("replay", str(file), "--", *target("miniature")).exit_code == 0


def test_a_failure_that_takes_clients_of_both_eras_is_repeated_with_both(tmp_path: Path, target: Command):
    command = " ".join(target("miniature", "--http", "--fault", "gate-opened-by-legacy-clients"))
    asked = ("--only", "declaration-per-request", "--cell", "http-2026", "--out", str(tmp_path))
    assert run("server", *asked, "--http-command", command).exit_code == 1
    (file,) = (tmp_path / "failures").iterdir()
    assert run("replay", str(file)).exit_code == 1


def test_a_client_is_judged_again(tmp_path: Path, target: Command):
    asked = ("--only", "never-probes", "--transport", "http", "--era", "2025-11-25", "--out", str(tmp_path))
    assert run("client", *asked, "--", *target("miniature_client", "--fault", "probes")).exit_code == 1
    (file,) = (tmp_path / "failures").iterdir()
    assert run("replay", str(file)).exit_code == 1
    assert run("replay", str(file), "--", *target("miniature_client")).exit_code == 0


def test_a_target_that_is_gone_ends_in_3(failing: Judge, target: Command):
    file = failing("limit-invalid", "--", *target("miniature", "--fault", "limit-zero-served"))
    assert run("replay", str(file), "--", "no-such-program").exit_code == 3


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_what_is_no_failure_is_not_repeated(text: str, tmp_path: Path):
    (tmp_path / "failure.json").write_text(text)
    assert run("replay", str(tmp_path / "failure.json")).exit_code == 2


def test_the_report_shows_how_to_repeat_each_failure(failing: Judge, target: Command, tmp_path: Path):
    file = failing("limit-invalid", "--", *target("miniature", "--fault", "limit-zero-served"))
    command = f"tools-search-conformance replay {file}"
    document: dict[str, Any] = json.loads((tmp_path / "report.json").read_bytes())
    assert [result["replay"] for result in document["results"]] == [command]
    for name in ("report.html", "summary.md", "junit.xml"):
        assert command in (tmp_path / name).read_text(encoding="utf-8")
