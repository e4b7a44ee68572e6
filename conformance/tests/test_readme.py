"""The README of the suite shows what the suite does."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click.testing
import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli import cli
from tools_search_conformance.cli.judging_commands import server
from tools_search_conformance.model import FIXTURE_FEATURES, Status

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
Command = Callable[..., tuple[str, ...]]


def test_the_failure_it_shows_is_printed_like_that(target: Command, tmp_path: Path):
    asked = ["--only", "limit-invalid", "--era", "2026-07-28", "--seed", "314760351", "--out", str(tmp_path)]
    command = ["server", *asked, "--", *target("miniature", "--fault", "limit-zero-served")]
    printed = click.testing.CliRunner().invoke(cli.cli, command).output
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    for line in shown[1].splitlines():
        # Numbers depend on what else was run, the place on who runs it.
        fixed = re.split(r"\d{3,}, \"(?:method|result)\"|, exchange|conformance-report", line)[0]
        assert fixed in printed


def test_every_option_it_names_is_one():
    known = {option for parameter in server.params for option in parameter.opts}
    known |= {"--all-cells", "--http"}  # of the mutants' tests, and of the reference server
    assert set(re.findall(r"--[a-z][a-z-]+", README)) <= known


def test_every_status_and_every_feature_of_fixtures_is_explained():
    before, _, after = README.partition("## Reading the verdict")
    features, statuses = (set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) for part in (before, after))
    assert features == set(FIXTURE_FEATURES)
    assert statuses == set(get_args(Status))


FOLDER = Path(__file__).parent.parent
CONTRIBUTING = (FOLDER / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "shown"),
    re.findall(r"<!-- from: (\S+) -->\n```\w+\n(.*?)```", CONTRIBUTING, re.DOTALL),
    ids=lambda value: value if "\n" not in value else "",
)
def test_what_contributors_are_shown_stands_where_they_are_told(path: str, shown: str):
    assert shown in (FOLDER.parent / path).read_text(encoding="utf-8")


def test_the_failure_that_contributors_are_shown_is_printed_like_that(tmp_path: Path):
    (command, _) = re.findall(r"<!-- run -->\n```sh\n(.*?)\n```", CONTRIBUTING, re.DOTALL)
    program, *arguments = command.replace(" conformance/tests/", f" {FOLDER}/tests/").split()
    assert program == "tools-search-conformance"
    at = arguments.index("--")
    arguments[at + 1] = sys.executable
    printed = click.testing.CliRunner().invoke(cli.cli, [*arguments[:at], "--out", str(tmp_path), *arguments[at:]])
    shown = re.search(r"```text\n(.*?)```", CONTRIBUTING, re.DOTALL)
    assert shown is not None
    assert shown[1] in printed.output


def test_every_check_that_is_named_for_its_failure_is_one():
    named = set(re.findall(r"^\| FAIL `([a-z-]+)`", README, re.MULTILINE))
    assert named
    assert named <= {check.rule for check in SERVER_CHECKS.all}


def test_every_option_of_choosing_is_explained():
    chosen = re.search(r"## Choosing what is run\n(.*?)\n## ", README, re.DOTALL)
    assert chosen is not None
    kinds = {"--only", "--requirement", "--section", "--level", "--cell", "--failed-from", "--list"}
    assert set(re.findall(r"--[a-z][a-z-]+", chosen[1])) == kinds
    for line in re.findall(r"`(--[a-z].*?)`", chosen[1]):
        if line != "--list" and "report.json" not in line:
            done = click.testing.CliRunner().invoke(cli.cli, ["server", "--list", *shlex.split(line)])
            assert done.exit_code == 0, done.output


def test_the_driver_to_fill_in_is_trusted_and_told_what_it_lacks(tmp_path: Path):
    driver = [sys.executable, str(FOLDER / "drivers" / "skeleton.py")]
    ended = click.testing.CliRunner().invoke(cli.cli, ["client", "--out", str(tmp_path), "--", *driver])
    assert ended.exit_code == 3
    assert "the driver does not support `connect`" in ended.output
