"""Command line of the context benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import anyio
import click

from benchmarks.context.catalog import read_catalog
from benchmarks.context.measure import Measurement, measure
from benchmarks.context.plot import draw
from benchmarks.context.requests import ENCODING, TokenCounter
from benchmarks.context.sizes import Size, measure_sizes
from benchmarks.context.tables import size_table, summary_table, target_table, turn_table
from benchmarks.context.targets import Target, targets
from benchmarks.context.ways import LISTED, OURS, PACKAGES, WAYS, Way
from benchmarks.plots import needs_matplotlib

__all__ = ["main"]

_DISTRIBUTIONS: Final = ("pydantic-ai-slim", "casual-mcp", "fastmcp", "bpe-openai")
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@dataclass(frozen=True)
class _Report:
    """What was measured with one data set."""

    dataset: str
    tools: int
    servers: int
    tasks: int
    ways: Sequence[Measurement]
    sizes: Sequence[Size]
    targets: Sequence[Target]


@click.command()
@click.option("--data", "directories", type=_DIRECTORY, multiple=True, required=True, help="Dataset; may be repeated.")
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="test", show_default=True)
@click.option("--way", "chosen", type=click.Choice(list(WAYS)), multiple=True, help="May be repeated; all.")
@click.option("--tasks", type=click.IntRange(min=1), help="The first so many of each dataset; all.")
@click.option("--results", type=click.IntRange(min=1), help="Tools that one search finds; each way's own default.")
@click.option("--samples", type=click.IntRange(min=1), default=20, show_default=True, help="Of smaller catalogs.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
@click.option("--plot", "plot_file", type=_FILE, callback=needs_matplotlib, help="Draw the first dataset here, as SVG.")
def main(
    directories: Sequence[Path],
    split: str,
    chosen: Sequence[str],
    tasks: int | None,
    results: int | None,
    samples: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Replay real requests through ways of offering tools to a model, and count what is sent and found.

    A deterministic policy stands in for the model (see the docstring of the package). The tables are Markdown.
    """
    ways = _ways(chosen)
    reports = [anyio.run(_measured, directory, split, ways, tasks, results, samples) for directory in directories]
    click.echo("\n\n".join(map(_page, reports)))
    if json_file:
        written = {
            "split": split,
            "encoding": ENCODING,
            "versions": _versions(),
            "datasets": list(map(asdict, reports)),
        }
        json_file.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    if plot_file:
        first = reports[0]
        draw(_title(first), first.ways, first.sizes, plot_file)


def _ways(chosen: Sequence[str]) -> Mapping[str, Way]:
    """Return the ways to measure, among them always the two that the others are judged by."""
    missing = [name for name in chosen if name in PACKAGES and not find_spec(PACKAGES[name])]
    if missing:
        raise click.UsageError(f"{', '.join(missing)}: not installed; pip install '.[benchmark]'")
    wanted = {LISTED, OURS, *chosen} if chosen else {name for name in WAYS if find_spec(PACKAGES.get(name, "json"))}
    return {name: way for name, way in WAYS.items() if name in wanted}


async def _measured(
    directory: Path, split: str, ways: Mapping[str, Way], number: int | None, results: int | None, samples: int
) -> _Report:
    catalog, tasks = read_catalog(directory, split)
    count = TokenCounter()
    measurements = [await measure(name, way, catalog, tasks[:number], count, results) for name, way in ways.items()]
    sizes = await measure_sizes(ways, catalog, count, samples=samples)
    own = next(one for one in measurements if one.way == OURS)
    return _Report(
        dataset=directory.name,
        tools=len(catalog.tools),
        servers=len(catalog.servers),
        tasks=len(tasks[:number]),
        ways=measurements,
        sizes=sizes,
        targets=targets(own, [size for size in sizes if size.way == OURS]),
    )


def _page(report: _Report) -> str:
    tables = (
        summary_table(report.ways),
        turn_table(report.ways),
        size_table(report.sizes),
        target_table(report.targets),
    )
    return "\n\n".join((f"## {_title(report)}", *tables))


def _title(report: _Report) -> str:
    return f"{report.dataset}: {report.tools} tools of {report.servers} servers, {report.tasks} requests"


def _versions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for distribution in _DISTRIBUTIONS:
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            found[distribution] = None
    return found


if __name__ == "__main__":
    main()
