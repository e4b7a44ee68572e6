"""Command line of the speed benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.options import data_option
from benchmarks.plots import needs_matplotlib
from benchmarks.provenance import provenance, versions
from benchmarks.speed.corpus import read_corpus
from benchmarks.speed.engines import ENGINES, installed, needs_installed
from benchmarks.speed.measure import BASE, Speed, measure
from benchmarks.speed.memory import Memory, memory_of
from benchmarks.speed.plot import draw

__all__ = ["main"]

_SEED: Final = 2026
_PACKAGES: Final = ("rank-bm25", "bm25s", "PyStemmer", "fastmcp", "casual-mcp", "tantivy", "numpy")
_HEADINGS: Final[tuple[str, ...]] = (
    "engine",
    "tools",
    "p50 ms",
    "p95 ms",
    "ratio",
    "build s",
    "ratio",
    "change ms",
    "MB held",
    "MB peak",
    "queries",
)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@data_option
@click.option("--sizes", default="100,1000,10000,100000", show_default=True, help="Numbers of tools.")
@click.option(
    "--engine",
    "engines",
    type=click.Choice(list(ENGINES)),
    multiple=True,
    callback=needs_installed,
    help="May be repeated. [default: all that are installed]",
)
@click.option("--queries", type=click.IntRange(min=2), default=250, show_default=True, help="50 of them to warm up.")
@click.option("--patience", default=30.0, show_default=True, help="Seconds of searching for one engine and size.")
@click.option("--builds", default=3, show_default=True, help="Builds of each engine; the median counts.")
@click.option("--memory/--no-memory", default=True, show_default=True, help="Measure memory, in processes of its own.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here, with bounds.")
@click.option(
    "--plot", "plot_file", type=_FILE, callback=needs_matplotlib, help="Draw the time of a query by size here, as SVG."
)
def main(
    directories: Sequence[Path],
    sizes: str,
    engines: Sequence[str],
    queries: int,
    patience: float,
    builds: int,
    memory: bool,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Measure how quick rankings are, side by side on the same catalogues and queries.

    Ratios are to bm25s in the same run, or to the first engine without it: times of other runs, on other machines, say
    little.
    """
    chosen = engines or installed(ENGINES)
    before = provenance()
    measured: list[Speed] = []
    rows: list[dict[str, Any]] = []
    for size in map(int, sizes.split(",")):
        corpus = read_corpus(directories, size, queries=queries, seed=_SEED)
        speeds = measure(corpus, chosen, patience=patience, builds=builds)
        taken = {engine: memory_of(engine, directories, size, seed=_SEED) if memory else None for engine in chosen}
        _print(speeds, taken)
        measured += speeds
        rows += [
            {**asdict(speed), "memory_mb": own and asdict(own)} for speed in speeds for own in (taken[speed.engine],)
        ]
    if json_file:
        report = {**before, "versions": versions(_PACKAGES), "seed": _SEED, "speeds": rows}
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if plot_file:
        draw(measured, plot_file)


def _print(speeds: Sequence[Speed], memory: Mapping[str, Memory | None]) -> None:
    base = next((speed for speed in speeds if speed.engine == BASE), speeds[0])
    rows = [_HEADINGS, *(_row(speed, base, memory[speed.engine]) for speed in speeds)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        click.echo("  ".join((row[0].ljust(widths[0]), *cells)))
    click.echo()


def _row(speed: Speed, base: Speed, memory: Memory | None) -> tuple[str, ...]:
    return (
        speed.engine,
        str(speed.tools),
        f"{speed.p50_ms:.3f}",
        f"{speed.p95_ms:.3f}",
        f"{speed.p50_ms / base.p50_ms:.2f}",
        f"{speed.build_seconds:.2f}",
        f"{speed.build_seconds / base.build_seconds:.2f}",
        f"{speed.change_ms:.2f}",
        *(("", "") if memory is None else (f"{memory.held:.0f}", f"{memory.peak:.0f}")),
        str(speed.queries),
    )


if __name__ == "__main__":
    main()
