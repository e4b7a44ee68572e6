"""The report as one page: tables from the records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.report.steps import STEPS, Record, read_records

RESULTS: Final = "results"
"""Folder of the records, next to the page."""

_ONCE: Final = "measured-once.md"
"""The part of the page that no command measures again."""

_INTRODUCTION: Final = f"""\
# Results

Written by `python -m benchmarks`, which [README.md](README.md) describes; change nothing here by hand. The figures
of the tables are in [{RESULTS}]({RESULTS}/), as is the text of the section on what was measured once.

Ranges in parentheses are 95 % bootstrap intervals over the requests. They show how much the choice of
requests matters, and on a machine with nothing else to do how much chance does; what a busy machine adds is in none
of them. Milliseconds are good for comparison with others of the same table."""


def render(out: Path) -> str:
    """Return the page of the records that are in a folder."""
    records = read_records(out / RESULTS)
    parts = [_INTRODUCTION]
    for name, record in records.items():
        machine = record.machine
        at = f" at revision {record.revision}" if record.revision else ""
        taken = (
            f"`{record.command}`, {record.date}{at}, in {record.seconds:,} s on {machine.cores} cores "
            f"({machine.processor}), load {machine.load:g} before and {record.load_after:g} after."
        )
        parts += [f"## {STEPS[name].title}", taken, STEPS[name].tables(record.figures)]
    once = out / RESULTS / _ONCE
    if once.exists():
        parts.append(once.read_text(encoding="utf-8").strip())
    parts += ["## Versions", _versions(records)]
    return "\n\n".join(parts) + "\n"


def _versions(records: Mapping[str, Record]) -> str:
    """Return the versions, each with the names of its measurements if there are several versions."""
    lines: dict[str, list[str]] = {}
    for name, record in records.items():
        used = ", ".join(f"{package} {version}" for package, version in record.versions.items())
        lines.setdefault(f"Python {record.python}, {used}.", []).append(name)
    return "\n\n".join(line if len(lines) == 1 else f"{', '.join(names)}: {line}" for line, names in lines.items())
