"""What the suite's own tests share: its targets, and ways to judge them."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.model import SERVER_PREFIX, Run
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.judge import judge_server

Judge = Callable[..., Awaitable[Run]]

LAUNCHER: Final = Path(__file__).parent / "target.py"


@pytest.fixture(scope="session")
def target() -> Callable[..., tuple[str, ...]]:
    """Return the command of a target in the folder `targets`."""

    def command(name: str, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, str(LAUNCHER), name, *arguments)

    return command


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., Options]:
    """Return options for a short run, checks given by their rules, in all cells or in some."""

    def build(*rules: str, cells: Sequence[str] = (), **rest: Any) -> Options:
        # As quick as what leaves no check out can be.
        defaults: dict[str, Any] = {"effort": "quick", "brief": False, "seed": 1, "timeout": 5}
        defaults |= {"out": tmp_path / "report"}
        selection = SERVER_CHECKS.select([SERVER_PREFIX + rule for rule in rules], cells=cells)
        return Options(selection=selection, **(defaults | rest))

    return build


@pytest.fixture
def judge(options: Callable[..., Options]) -> Judge:
    """Return what judges a server with such options, in a time that is enough for whole runs on a busy machine."""

    async def run(*rules: str, **given: Any) -> Run:
        with anyio.fail_after(600):
            return await judge_server(options(*rules, **given))

    return run


@pytest.fixture
def client_options(tmp_path: Path) -> Callable[..., Options]:
    """Return options for a run over a client, checks given by their rules, in all cells or in some."""

    def build(*rules: str, cells: Sequence[str] = (), **rest: Any) -> Options:
        # A driver of ours runs from the sources, wherever those are.
        env = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        defaults: dict[str, Any] = {"out": tmp_path / "report", "timeout": 10, "start_timeout": 60, "env": env}
        return Options(selection=CLIENT_CHECKS.select(rules, cells=cells), **(defaults | rest))

    return build


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-check", action="store_true", help="Judge a mutant for each check, not a twelfth of all.")
    parser.addoption("--every-mutant", action="store_true", help="Judge all mutants of the miniatures.")
    parser.addoption(
        "--all-cells",
        action="store_true",
        help="Judge every mutant and hostile server in four cells, not one, and every variant in full.",
    )
