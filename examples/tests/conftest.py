"""The option by which the commands of all READMEs are typed, which takes minutes and a package index."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--printed-blocks", action="store_true", help="Run every block of every README, in environments of their own."
    )
