"""A gateway whose file names the gateway itself would start itself without end; this refuses such a file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tools_search_hosts import ConfigurationError, ServerEntry, StdioTarget

__all__ = ["refuse_itself"]

_OPTION = "--config"


def refuse_itself(file: Path, entries: Sequence[ServerEntry]) -> None:
    """Look for servers that are gateways over `file`.

    Raises:
        ConfigurationError: There is one.
    """
    advice = "is a gateway over this same file: keep the other servers in a file of their own, and name that one"
    problems = [
        f"server {entry.name!r}: {advice}"
        for entry in entries
        if isinstance(entry.target, StdioTarget) and _reads(entry.target, file.resolve())
    ]
    if problems:
        raise ConfigurationError(str(file), problems)


def _reads(target: StdioTarget, file: Path) -> bool:
    named = [value for option, value in pairwise(target.args) if option == _OPTION]
    named += [argument.removeprefix(f"{_OPTION}=") for argument in target.args if argument.startswith(f"{_OPTION}=")]
    return any(Path(target.cwd or "", name).resolve() == file for name in named)
