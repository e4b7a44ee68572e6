"""The README of the suite shows what the suite does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click.testing
import pytest
from tools_search_conformance import cli
from tools_search_conformance.model import Status

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
    known = {option for parameter in cli.server.params for option in parameter.opts}
    known |= {"--all-cells", "--http"}  # of the mutants' tests, and of the reference server
    assert set(re.findall(r"--[a-z][a-z-]+", README)) <= known


def test_every_status_is_explained():
    assert set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)) == set(get_args(Status)) - {"info"}


@pytest.mark.parametrize("link", re.findall(r"(?:\]\(|\]: )([^)#\s]+)", README))
def test_every_link_leads_somewhere(link: str):
    assert (Path(__file__).parent.parent / link).exists()
