"""The report as one page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.report.records import Record, read_record
from benchmarks.report.sections import section
from benchmarks.report.steps import STEPS

__all__ = ["RESULTS", "plot_of", "records", "render"]

RESULTS: Final = "results"
"""Folder of records and pictures, beside the page."""

_ONCE: Final = "measured-once.md"
"""What no command measures again; part of the page."""

_INTRODUCTION: Final = """\
# Results

Written by `python -m benchmarks`, which [README.md](README.md) describes; change nothing here by hand. The figures
that the tables are made of are in [{results}]({results}/), as is the text of the section on what was measured once.

Ranges in parentheses are those of 95 % of samples of as many requests (bootstrap). They tell how much the choice of
requests matters, and on a machine with nothing else to do how much chance does; what a busy machine adds is in none
of them. Milliseconds are good for comparison with others of the same table."""


def plot_of(name: str, folder: Path) -> Path | None:
    """Return where a measurement draws, if it does."""
    return folder / f"{name}.svg" if STEPS[name].draws else None


def records(out: Path) -> Mapping[str, Record]:
    """Return the records that are there, in the order of the page."""
    return {name: record for name in STEPS if (record := read_record(name, out / RESULTS))}


def render(out: Path) -> str:
    """Return the page of the records that are there."""
    kept = records(out)
    parts = [_INTRODUCTION.format(results=RESULTS)]
    for name, record in kept.items():
        parts += [f"## {STEPS[name].says}", _taken(record), section(record)]
        picture = plot_of(name, out / RESULTS)
        if picture is not None and picture.exists():  # it takes matplotlib
            parts.append(f"![{STEPS[name].says}]({RESULTS}/{name}.svg)")
    once = out / RESULTS / _ONCE
    if once.exists():
        parts.append(once.read_text(encoding="utf-8").strip())
    parts += ["## Versions", _versions(kept)]
    return "\n\n".join(parts) + "\n"


def _taken(record: Record) -> str:
    command = shlex.join(("python", "-m", f"benchmarks.{record.name}", *record.options))
    machine = record.machine
    at = f" at revision {record.revision}" if record.revision else ""
    return (
        f"`{command}`, {record.date}{at}, in {record.seconds:,} s on {machine['cores']} cores "
        f"({machine['processor']}), load {machine['load']:g} before and {record.load_after:g} after."
    )


def _versions(kept: Mapping[str, Record]) -> str:
    """Return the versions, and of which measurements they are where that is not all."""
    lines: dict[str, list[str]] = {}
    for name, record in kept.items():
        used = ", ".join(f"{package} {version}" for package, version in record.versions.items())
        lines.setdefault(f"Python {record.python}, {used}.", []).append(name)
    return "\n\n".join(line if len(lines) == 1 else f"{', '.join(names)}: {line}" for line, names in lines.items())
