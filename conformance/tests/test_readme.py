"""The README of the suite shows what the suite does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click.testing
import pytest
from tools_search_conformance import cli
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
        fixed = re.split(r"\d{3,}, \"(?:method|result)\"|, exchange", line)[0]  # numbers depend on what else was run
        assert fixed in printed


def test_every_option_it_names_is_one():
    known = {option for parameter in cli.server.params for option in parameter.opts}
    known |= {"--all-cells", "--http"}  # of the mutants' tests, and of the reference server
    assert set(re.findall(r"--[a-z][a-z-]+", README)) <= known


def test_every_status_and_every_feature_of_fixtures_is_explained():
    before, _, after = README.partition("## Reading the verdict")
    features, statuses = (set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) for part in (before, after))
    assert features == set(FIXTURE_FEATURES)
    assert statuses == set(get_args(Status)) - {"info"}


@pytest.mark.parametrize("link", re.findall(r"(?:\]\(|\]: )([^)#\s]+)", README))
def test_every_link_leads_somewhere(link: str):
    assert (Path(__file__).parent.parent / link).exists()
