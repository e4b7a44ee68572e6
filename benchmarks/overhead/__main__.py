"""Command line of the overhead benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import click

from benchmarks.bootstrap import ratio_of_medians
from benchmarks.overhead.measure import calls, counted, memory, middle, search_work, searches, starts

__all__ = ["main"]

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--calls", "call_count", type=click.IntRange(1), default=500, show_default=True, help="Calls each way.")
@click.option("--searches", "search_count", type=click.IntRange(1), default=200, show_default=True)
@click.option("--starts", "start_count", type=click.IntRange(1), default=5, show_default=True)
@click.option("--tools", type=click.IntRange(20), default=10_000, show_default=True, help="Tools that are searched.")
@click.option("--servers", type=click.IntRange(1), default=4, show_default=True, help="Servers that have them.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(
    call_count: int, search_count: int, start_count: int, tools: int, servers: int, json_file: Path | None
) -> None:
    """Measure what a gateway adds: to calls, searches, the start and memory. Ratios are to the first of each row."""
    rows = {
        "call, stdio": anyio.run(lambda: calls(call_count, over_http=False)),
        "call, HTTP": anyio.run(lambda: calls(call_count, over_http=True)),
        f"search of {tools} tools, work": anyio.run(search_work, search_count, tools, servers),
        f"search of {tools} tools, stdio": anyio.run(searches, search_count, tools, servers),
        "start to first answer": anyio.run(starts, start_count),
    }
    report = {name: _figures(took) for name, took in rows.items()}
    bytes_each = anyio.run(memory, tools, servers)
    for name, figures in report.items():
        cells = [f"{way} {one['ms']:.2f} ms ({one['ratio']:.2f})" for way, one in figures.items()]
        click.echo(f"{name}: {', '.join(cells)}")
    click.echo(f"memory of the gateway for 1,000 tools: {bytes_each / 1e6:.1f} MB")
    if json_file:
        document = {"rows": report, "bytes_for_1000_tools": round(bytes_each)}
        json_file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _figures(took: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    medians = {way: middle(seconds) for way, seconds in took.items()}
    first = counted(next(iter(took.values())))
    ratios = {way: ratio_of_medians(counted(seconds), first) for way, seconds in took.items()}
    return {
        way: {"ms": round(one * 1000, 3), "ratio": round(ratios[way].value, 3), "bounds": asdict(ratios[way])}
        for way, one in medians.items()
    }


if __name__ == "__main__":
    main()
