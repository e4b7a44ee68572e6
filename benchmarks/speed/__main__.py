"""The speed benchmark's command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from benchmarks.datasets import SMALL
from benchmarks.options import data_option, json_option, write_figures
from benchmarks.report.tables import speed_tables
from benchmarks.speed.engines import ENGINES, installed, needs_installed
from benchmarks.speed.measure import measure

_SEED: Final = 2026


@click.command()
@data_option(SMALL)
@click.option("--sizes", default="100,1000,10000,100000", show_default=True, help="Numbers of tools.")
@click.option(
    "--engine",
    "engines",
    type=click.Choice(list(ENGINES)),
    multiple=True,
    callback=needs_installed,
    help="Engine to measure; can be repeated. [default: all that are installed]",
)
@click.option(
    "--queries",
    type=click.IntRange(min=2),
    default=250,
    show_default=True,
    help="Number of queries, 50 of them for warm-up.",
)
@click.option("--patience", default=30.0, show_default=True, help="Maximum seconds of searching per engine and size.")
@click.option("--builds", default=3, show_default=True, help="Builds per engine; the median counts.")
@json_option
def main(
    directories: Sequence[Path],
    sizes: str,
    engines: Sequence[str],
    queries: int,
    patience: float,
    builds: int,
    json_file: Path | None,
) -> None:
    """Measure how fast rankings are on the same catalogs and queries, each engine in its own process.

    Ratios are relative to bm25s in the same run (with or without AVX-512, whichever is faster), or to the first engine
    if bm25s is not measured. Times from other runs or machines are not comparable.
    """
    speeds = [
        speed
        for size in map(int, sizes.split(","))
        for speed in measure(
            directories,
            size,
            engines or installed(ENGINES),
            queries=queries,
            patience=patience,
            builds=builds,
            seed=_SEED,
        )
    ]
    write_figures({"seed": _SEED, "speeds": [asdict(speed) for speed in speeds]}, speed_tables, json_file)


if __name__ == "__main__":
    main()
