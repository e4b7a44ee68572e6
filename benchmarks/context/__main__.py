"""Command line of the context benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import click

from benchmarks.bootstrap import Estimate
from benchmarks.context.catalog import Catalog, read_catalog
from benchmarks.context.measure import ENCODING, Measurement, TokenCounter, first_tokens, measure
from benchmarks.context.ways import LISTED, OURS, PACKAGES, WAYS, Way
from benchmarks.markdown import table

_SIZES = (10, 30, 100, 300)


@dataclass(frozen=True)
class Size:
    """The first request of one way, for catalogs of one size: samples of the servers of a data set."""

    way: str
    tools: int
    tokens: float
    """Of definitions; the median of the samples."""

    saved: float
    """The share of the tokens of listing everything that is not sent; the median."""

    least_saved: float


def sizes_of(catalog: Catalog) -> Sequence[int]:
    """Return the sizes that can be had of a catalog, its own at the end."""
    whole = len(catalog.tools)
    return [*(size for size in _SIZES if size < whole), whole]


async def measure_sizes(
    ways: Mapping[str, Way], catalog: Catalog, count: TokenCounter, *, samples: int
) -> Sequence[Size]:
    """Measure every way with the same samples; the whole catalog is a sample of itself."""
    sizes: list[Size] = []
    for size in sizes_of(catalog):
        drawn = [catalog.sample(size, seed) for seed in range(samples if size < len(catalog.tools) else 1)]
        listed = [await first_tokens(ways[LISTED], sample, count) for sample in drawn]
        for name, way in ways.items():
            tokens = [await first_tokens(way, sample, count) for sample in drawn]
            saved = [1 - own / whole for own, whole in zip(tokens, listed, strict=True)]
            sizes.append(Size(name, size, median(tokens), median(saved), min(saved)))
    return sizes


def summary_table(measurements: Sequence[Measurement]) -> str:
    """Return one row for each way."""
    rows = [
        (
            one.way,
            f"{one.turns[0].definition_tokens:,.0f}",
            f"{one.requests:.2f}",
            f"{one.tokens:,.0f}",
            f"{one.new_tokens:,.0f}",
            *map(_percent, one.recall),
            _percent(one.complete[-1]),
            f"{one.search_p50_ms:.1f} / {one.search_p95_ms:.1f}",
        )
        for one in measurements
    ]
    return table(
        (
            "",
            "definition tokens, first request",
            "requests",
            "tokens, all requests",
            "of them new",
            "tools found, one search",
            "two searches",
            "every tool found",
            "processor ms a search, p50 / p95",
        ),
        rows,
    )


def turn_table(measurements: Sequence[Measurement]) -> str:
    """Return one row for each request of each way."""
    rows = [
        (
            one.way,
            str(place),
            str(turn.tasks),
            f"{turn.definitions:.1f}",
            f"{turn.definition_tokens:,.0f}",
            f"{turn.tokens:,.0f}",
            *((f"{turn.kept_bytes:,.0f}", f"{turn.kept_share:.0%}") if place > 1 else ("", "")),
        )
        for one in measurements
        for place, turn in enumerate(one.turns, start=1)
    ]
    return table(("", "request", "tasks", "definitions", "their tokens", "all tokens", "bytes kept", "share"), rows)


def size_table(sizes: Sequence[Size]) -> str:
    """Return one row for each way, and a column for each size."""
    columns = list(dict.fromkeys(size.tools for size in sizes))
    rows = [
        (way, *(f"{one.tokens:,.0f} ({one.saved:.0%})" for one in sizes if one.way == way))
        for way in dict.fromkeys(size.way for size in sizes)
    ]
    return table(("", *(f"{tools} tools" for tools in columns)), rows)


def _percent(estimate: Estimate) -> str:
    return f"{estimate.mean:.0%} ({estimate.low:.0%}-{estimate.high:.0%})"


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


@click.command()
@click.option("--data", "directories", type=_DIRECTORY, multiple=True, required=True, help="Dataset; may be repeated.")
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="test", show_default=True)
@click.option("--way", "chosen", type=click.Choice(list(WAYS)), multiple=True, help="May be repeated; all.")
@click.option("--tasks", type=click.IntRange(min=1), help="The first so many of each dataset; all.")
@click.option("--results", type=click.IntRange(min=1), help="Tools that one search finds; each way's own default.")
@click.option("--samples", type=click.IntRange(min=1), default=20, show_default=True, help="Of smaller catalogs.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(
    directories: Sequence[Path],
    split: str,
    chosen: Sequence[str],
    tasks: int | None,
    results: int | None,
    samples: int,
    json_file: Path | None,
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
    return _Report(
        dataset=directory.name,
        tools=len(catalog.tools),
        servers=len(catalog.servers),
        tasks=len(tasks[:number]),
        ways=measurements,
        sizes=sizes,
    )


def _page(report: _Report) -> str:
    tables = (
        summary_table(report.ways),
        turn_table(report.ways),
        size_table(report.sizes),
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
