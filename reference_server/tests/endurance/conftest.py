"""Options of the endurance tests, of which a plain `pytest` runs the short forms.

`pytest reference_server/tests/endurance --endurance-minutes 10` runs the long forms, each for so many minutes.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# What these tests share stands next to them: `gateways`, `fleet`, and a package for each test.
sys.path.insert(0, str(Path(__file__).parent))

_MINUTES = "--endurance-minutes"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_MINUTES, type=float, help="Run each endurance test for so many minutes, not a short form.")
    parser.addoption("--seed", type=int, help="Repeat the requests of an endurance test. [default: a random one]")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"endurance: takes minutes, and runs with {_MINUTES} alone")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("endurance") and item.config.getoption(_MINUTES, None) is None:
        pytest.skip(f"takes minutes: {_MINUTES}")


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    return 60 * float(request.config.getoption(_MINUTES) or 0)


@pytest.fixture
def seed(request: pytest.FixtureRequest, say: Callable[[str], None]) -> int:
    given = request.config.getoption("--seed", None)
    seed = secrets.randbelow(2**32) if given is None else given
    say(f"--seed {seed}")
    return seed


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a line of progress to the terminal, past what pytest captures."""
    terminal: Any = request.config.pluginmanager.getplugin("terminalreporter")

    def say(line: str) -> None:
        if terminal is not None:  # a worker of pytest-xdist has none
            terminal.ensure_newline()
            terminal.write_line(line)

    return say
