"""Command line of the benchmark of replicas."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import anyio
import click

from benchmarks.markdown import table
from benchmarks.replicas.measure import Throughput, throughput

__all__ = ["main"]


@click.command()
@click.option("--replicas", default="1,2", show_default=True, help="Numbers of processes.")
@click.option("--tools", type=click.IntRange(20), default=10_000, show_default=True, help="Tools that are searched.")
@click.option("--callers", type=click.IntRange(1), default=8, show_default=True, help="Connections that search.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=10, show_default=True)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
def main(replicas: str, tools: int, callers: int, seconds: float, json_file: Path | None) -> None:
    """Measure how many searches replicas answer. Callers work on the same machine, and take their part of it."""
    rows = [
        anyio.run(lambda count=count: throughput(count, tools=tools, callers=callers, seconds=seconds))
        for count in map(int, replicas.split(","))
    ]
    click.echo(f"{tools:,} tools, {callers} callers, {os.cpu_count()} processors:\n")
    headings = ("replicas", "searches a second", "p50 ms", "p95 ms", "ms of a processor for each")
    click.echo(table(headings, [_cells(row) for row in rows]))
    if json_file:
        report = {"tools": tools, "processors": os.cpu_count(), "rows": [asdict(row) for row in rows]}
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _cells(row: Throughput) -> tuple[str, ...]:
    times = (f"{row.p50_ms:.1f}", f"{row.p95_ms:.1f}", f"{row.processor_ms:.2f}")
    return (str(row.replicas), f"{row.searches_per_second:,.0f}", *times)


if __name__ == "__main__":
    main()
