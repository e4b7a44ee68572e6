"""The report as one page: tables from the records."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.markdown import table
from benchmarks.report.steps import STEPS, Record, read_record

_Row: TypeAlias = Mapping[str, Any]


def section(record: Record) -> str:
    """Return the tables of a record, in Markdown."""
    return _TABLES.get(record.name, _as_printed)(record)


def _retrieval(record: Record) -> str:
    """Return nDCG@10 of each ranker, and the other figures of the first two."""
    reports: Sequence[_Row] = record.figures
    names = [one["dataset"] for one in reports[0]["datasets"]]
    ndcg = [
        (
            report["ranker"],
            *(_bounded(one["ndcg"], "mean", ".3f") for one in report["datasets"]),
            _bounded(report["mean"]["ndcg"], "mean", ".3f"),
        )
        for report in reports
    ]
    members = ("recall_at_1", "recall_at_5", "recall_at_10", "reciprocal_rank")
    others = [
        (report["ranker"], *(f"{report['mean'][member]:.3f}" for member in members), _silent(report))
        for report in reports
    ]
    return "\n\n".join(
        (
            f"nDCG@10 on `{reports[0]['split']}`:",
            table(("", *names, "mean"), ndcg),
            "Means over the sets, and what part of the requests of the small set that no tool serves is answered with "
            "nothing:",
            table(("", "Recall@1", "Recall@5", "Recall@10", "MRR", "silent"), others),
        )
    )


def _silent(report: _Row) -> str:
    return ", ".join(f"{one['silent']:.0%}" for one in report["datasets"] if one["unservable"])


def _nothing(record: Record) -> str:
    """Return the figures of some thresholds, in percent and in points."""
    beside: Mapping[str, _Row] = record.figures.get("beside", {})
    parts = ["Means over the sets, in percent and in points:", _thresholds(record.figures)]
    for ranker, figures in beside.items():
        parts += [f"The same with `{ranker}`:", _thresholds(figures)]
    return "\n\n".join(parts)


def _thresholds(figures: _Row) -> str:
    curves: Mapping[str, Sequence[_Row]] = figures["curves"]
    unseen = curves.get("weights fitted without the set")
    rows = [
        (
            f"{one['least_confidence']:g}",
            _percent(one["silent"]),
            _percent(one["recall_lost"]),
            f"{100 * shipped['ndcg_lost']:.1f}",
            f"{100 * shipped['wrongly_silent']:.1f}",
            *((f"{100 * other['silent']:.1f} / {100 * other['recall_lost']:.1f}",) if other else ("",)),
        )
        for one in figures["bounds"]
        for shipped in (_at(curves["weights as shipped"], one["least_confidence"]),)
        for other in (_at(unseen, one["least_confidence"]) if unseen else None,)
    ]
    headings = (
        "least confidence",
        "answered with nothing, rightly",
        "Recall@5 lost",
        "nDCG@10 lost",
        "answered with nothing, wrongly",
        "weights of the other sets: rightly / Recall@5 lost",
    )
    return table(headings, rows)


def _at(points: Sequence[_Row], threshold: float) -> _Row:
    return next(point for point in points if point["least_confidence"] == threshold)


def _stuffing(record: Record) -> str:
    attacks: Mapping[str, _Row] = record.figures["attacks"]
    rows = [
        (
            name,
            f"{one['requests']:,}",
            f"{round(one['median_gain']):+}",
            f"{round(one['median_gain_below_first']):+}",
            f"{one['first_five_honest']:.1%}",
            f"{one['first_five_stuffed']:.1%} ({one['first_five_stuffed_low']:.1%}-"
            f"{one['first_five_stuffed_high']:.1%})",
            f"{one['first_stuffed']:.1%}",
        )
        for name, one in attacks.items()
    ]
    headings = (
        "", "requests", "ranks gained", "not first before", "in the first five, honest", "stuffed", "first, stuffed",
    )  # fmt: skip
    return table(headings, rows)


def _speed(record: Record) -> str:
    """Return engines by sizes: the time of a query, its ratio to bm25s, and what building and changing take."""
    speeds: Sequence[_Row] = record.figures["speeds"]
    sizes = list(dict.fromkeys(speed["tools"] for speed in speeds))
    headings = ("engine", *(f"{size:,} tools" for size in sizes))
    cells: Sequence[tuple[str, Callable[[_Row], str]]] = (
        (
            "Milliseconds of a query, median and 95th percentile:",
            lambda one: f"{_bounded(one['p50'])}; {_bounded(one['p95'])}",
        ),
        ("Times bm25s (medians over the queries that both were asked):", lambda one: _bounded(one["ratio"])),
        (
            "Seconds to build, and milliseconds until one changed tool is found:",
            lambda one: f"{_short(one['build_seconds'])}; {_short(max(one['change_ms'], 0))}",
        ),
        ("Megabytes held, and at most while it is built:", lambda one: _memory(one["memory_mb"])),
    )
    return "\n\n".join(
        part for says, cell in cells for part in (says, table(headings, _by_engine(speeds, sizes, cell)))
    )


def _by_engine(speeds: Sequence[_Row], sizes: Sequence[int], cell: Callable[[_Row], str]) -> Sequence[Sequence[str]]:
    found = {(speed["engine"], speed["tools"]): speed for speed in speeds}
    engines = dict.fromkeys(speed["engine"] for speed in speeds)
    return [
        (engine, *(cell(found[engine, size]) if (engine, size) in found else "" for size in sizes))
        for engine in engines
    ]


def _memory(memory: _Row | None) -> str:
    return "" if memory is None else f"{memory['held']:.0f}; {memory['peak']:.0f}"


def _overhead(record: Record) -> str:
    rows = [
        (name, way, f"{one['ms']:.2f}", _bounded(one["bounds"]))
        for name, ways in record.figures["rows"].items()
        for way, one in ways.items()
    ]
    memory = f"Memory of the gateway for 1,000 tools: {record.figures['bytes_for_1000_tools'] / 1e6:.0f} MB."
    return "\n\n".join((table(("", "way", "median ms", "times the first"), rows), memory))


def _as_printed(record: Record) -> str:
    """Return what the measurement printed, which is Markdown, with its headings under that of the section."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in record.printed.strip().splitlines())


def _bounded(one: _Row, figure: str = "value", form: str = "") -> str:
    values = (one[figure], one["low"], one["high"])
    middle, low, high = (format(value, form) if form else _short(value) for value in values)
    return f"{middle} ({low}-{high})"


def _percent(one: _Row) -> str:
    return f"{100 * one['mean']:.1f} ({100 * one['low']:.1f}-{100 * one['high']:.1f})"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


_TABLES: Final[Mapping[str, Callable[[Record], str]]] = {
    "retrieval": _retrieval,
    "nothing": _nothing,
    "stuffing": _stuffing,
    "speed": _speed,
    "overhead": _overhead,
}


RESULTS: Final = "results"
"""Folder of the records, next to the page."""
_ONCE: Final = "measured-once.md"
"""What no command measures again; part of the page."""
_INTRODUCTION: Final = """\
# Results

Written by `python -m benchmarks`, which [README.md](README.md) describes; change nothing here by hand. The figures
that the tables are made of are in [{results}]({results}/), as is the text of the section on what was measured once.

Ranges in parentheses are those of 95 % of samples of as many requests (bootstrap). They tell how much the choice of
requests matters, and on a machine with nothing else to do how much chance does; what a busy machine adds is in none
of them. Milliseconds are good for comparison with others of the same table."""


def records(out: Path) -> Mapping[str, Record]:
    """Return the records that are there, in the order of the page."""
    return {name: record for name in STEPS if (record := read_record(name, out / RESULTS))}


def render(out: Path) -> str:
    """Return the page of the records that are there."""
    kept = records(out)
    parts = [_INTRODUCTION.format(results=RESULTS)]
    for name, record in kept.items():
        parts += [f"## {STEPS[name].says}", _taken(record), section(record)]
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
