"""Command line of the context benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import click

from benchmarks.context.catalog import Catalog, definition, read_catalog
from benchmarks.context.measure import ENCODING, TokenCounter, first_tokens, measure
from benchmarks.context.model import MODEL_WAYS, measure_model
from benchmarks.context.ways import LISTED, OURS, PACKAGES, WAYS, Way
from benchmarks.options import json_option, servers_option, split_option, tasks_option, write_figures
from benchmarks.report.tables import context_tables, listing_tables, model_tables
from benchmarks.speed.corpus import read_corpus

_SIZES: Final = (10, 30, 100, 300)
_SEED: Final = 2026


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


async def measure_sizes(
    ways: Mapping[str, Way], catalog: Catalog, count: TokenCounter, *, samples: int
) -> Sequence[Size]:
    """Measure every way with the same samples; the whole catalog is a sample of itself."""
    whole = len(catalog.tools)
    sizes: list[Size] = []
    for size in (*(size for size in _SIZES if size < whole), whole):
        drawn = [catalog.sample(size, seed) for seed in range(samples if size < whole else 1)]
        listed = [await first_tokens(ways[LISTED], sample, count) for sample in drawn]
        for name, way in ways.items():
            tokens = [await first_tokens(way, sample, count) for sample in drawn]
            saved = [1 - own / all_of_them for own, all_of_them in zip(tokens, listed, strict=True)]
            sizes.append(Size(name, size, median(tokens), median(saved), min(saved)))
    return sizes


def listings(directories: Sequence[Path], sizes: Sequence[int]) -> list[dict[str, int]]:
    """Return the bytes and tokens of lists of tools, mixed of all data sets."""
    count = TokenCounter()
    figures: list[dict[str, int]] = []
    for size in sizes:
        tools = read_corpus(directories, size, queries=0, seed=_SEED).tools
        published = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        text = json.dumps(published, ensure_ascii=False, separators=(",", ":"))
        tokens = count.tokens(definition(tool.name, tool) for tool in tools)
        figures.append({"tools": size, "bytes": len(text.encode()), "tokens": tokens})
    return figures


@click.command()
@servers_option
@split_option("test")
@click.option("--way", "chosen", type=click.Choice(list(WAYS)), multiple=True, help="May be repeated; all.")
@tasks_option
@click.option("--results", type=click.IntRange(min=1), help="Tools that one search finds; each way's own default.")
@click.option("--samples", type=click.IntRange(min=1), default=20, show_default=True, help="Of smaller catalogs.")
@click.option(
    "--listing", "sizes", type=click.IntRange(min=1), multiple=True, help="Weigh only lists of so many tools."
)
@click.option("--model", help="Put the tasks to this model instead, behind an endpoint of chat completions.")
@click.option("--base-url", metavar="URL", help="Its address. Default: OPENAI_BASE_URL. The key is OPENAI_API_KEY.")
@click.option(
    "--servers", "server_counts", type=click.IntRange(min=1), multiple=True, help="With --model: only so many servers."
)
@json_option
def main(
    directories: Sequence[Path],
    split: str,
    chosen: Sequence[str],
    tasks: int | None,
    results: int | None,
    samples: int,
    sizes: Sequence[int],
    model: str | None,
    base_url: str | None,
    server_counts: Sequence[int],
    json_file: Path | None,
) -> None:
    """Replay real requests through ways of offering tools to a model, and count what is sent and found.

    A deterministic policy stands in for the model (benchmarks/README.md). The tables are Markdown.
    """
    if sizes:
        write_figures(listings(directories, sizes), listing_tables, json_file)
        return
    if model is not None:
        figures = anyio.run(_of_model, model, base_url, directories, split, chosen, tasks, server_counts)
        write_figures(figures, model_tables, json_file)
        return
    if missing := [name for name in chosen if name in PACKAGES and not find_spec(PACKAGES[name])]:
        raise click.UsageError(f"{', '.join(missing)}: not installed; pip install '.[benchmark]'")
    # Always among them are the two that the others are judged by.
    wanted = {LISTED, OURS, *chosen} if chosen else {name for name in WAYS if find_spec(PACKAGES.get(name, "json"))}
    ways = {name: way for name, way in WAYS.items() if name in wanted}

    async def measured(directory: Path) -> dict[str, Any]:
        catalog, read = read_catalog(directory, split)
        count = TokenCounter()
        return {
            "dataset": directory.name,
            "tools": len(catalog.tools),
            "servers": len(catalog.servers),
            "tasks": len(read[:tasks]),
            "ways": [
                asdict(await measure(name, way, catalog, read[:tasks], count, results)) for name, way in ways.items()
            ],
            "sizes": [asdict(size) for size in await measure_sizes(ways, catalog, count, samples=samples)],
        }

    datasets = [anyio.run(measured, directory) for directory in directories]
    write_figures({"split": split, "encoding": ENCODING, "datasets": datasets}, context_tables, json_file)


async def _of_model(
    model: str,
    base_url: str | None,
    directories: Sequence[Path],
    split: str,
    chosen: Sequence[str],
    tasks: int | None,
    server_counts: Sequence[int],
) -> dict[str, Any]:
    ways = [name for name in MODEL_WAYS if name in chosen] if chosen else [*MODEL_WAYS]
    if not ways:
        raise click.UsageError(f"with --model, the ways are {', '.join(MODEL_WAYS)}")
    datasets: list[dict[str, Any]] = []
    for directory in directories:
        whole, read = read_catalog(directory, split)
        for count in server_counts or [len(whole.servers)]:
            catalog = whole.of_servers(count, read)
            own = [task for task in read if task.needed <= catalog.tools.keys()][:tasks]
            outcomes = await measure_model(model, base_url, ways, catalog, own)
            numbers = {"tools": len(catalog.tools), "servers": len(catalog.servers), "tasks": len(own)}
            datasets.append({"dataset": directory.name, **numbers, "ways": [*map(asdict, outcomes)]})
    return {"split": split, "model": model, "datasets": datasets}


if __name__ == "__main__":
    main()
