"""Tables on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from .conftest import Run


def test_on_a_terminal_rows_are_aligned_and_explained(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    outcome = run("search", "add two numbers", "--config", config, "--limit", "2")
    output = click.unstyle(outcome.output)
    assert "asking the servers" in outcome.errors
    heading, first, detail = output.splitlines()[:3]
    assert heading.index("by") == first.index("list")
    assert detail == "    Add two numbers."
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("columns", ["1", "4", "12"])
def test_a_terminal_that_is_very_narrow_is_no_crash(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch, columns: str
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", columns)
    outcome = run("search", "add two numbers", "--config", config)
    assert outcome.code == 0
    assert max(map(len, click.unstyle(outcome.output).splitlines())) <= max(int(columns), 5)
