"""Command line of the speed benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from benchmarks.options import data_option
from benchmarks.provenance import provenance, versions
from benchmarks.speed.engines import ENGINES, installed, needs_installed
from benchmarks.speed.measure import Speed, base_of, measure

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
@click.option("--json", "json_file", type=_FILE, help="Write the figures here, with bounds.")
def main(
    directories: Sequence[Path],
    sizes: str,
    engines: Sequence[str],
    queries: int,
    patience: float,
    builds: int,
    json_file: Path | None,
) -> None:
    """Measure how fast rankings are, on the same catalogs and queries, each engine alone in a process of its own.

    Ratios are to bm25s in the same run, with or without AVX-512 as it is faster, or to the first engine where bm25s is
    not measured: times of other runs, on other machines, say little.
    """
    chosen = engines or installed(ENGINES)
    before = provenance()
    measured: list[Speed] = []
    for size in map(int, sizes.split(",")):
        speeds = measure(directories, size, chosen, queries=queries, patience=patience, builds=builds, seed=_SEED)
        _print(speeds)
        measured += speeds
    if json_file:
        report = {
            **before,
            "versions": versions(_PACKAGES),
            "seed": _SEED,
            "speeds": [asdict(speed) for speed in measured],
        }
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _print(speeds: Sequence[Speed]) -> None:
    of = base_of({speed.engine: speed.p50_ms for speed in speeds})
    base = next(speed for speed in speeds if speed.engine == of)
    rows = [_HEADINGS, *(_row(speed, base) for speed in speeds)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        click.echo("  ".join((row[0].ljust(widths[0]), *cells)))
    click.echo()


def _row(speed: Speed, base: Speed) -> tuple[str, ...]:
    return (
        speed.engine,
        str(speed.tools),
        f"{speed.p50_ms:.3f}",
        f"{speed.p95_ms:.3f}",
        f"{speed.p50_ms / base.p50_ms:.2f}",
        f"{speed.build_seconds:.2f}",
        f"{speed.build_seconds / base.build_seconds:.2f}",
        f"{speed.change_ms:.2f}",
        *((f"{memory.held:.0f}", f"{memory.peak:.0f}") if (memory := speed.memory_mb) else ("", "")),
        str(speed.queries),
    )


if __name__ == "__main__":
    main()
