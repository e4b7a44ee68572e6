"""The context benchmark's command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import click

from benchmarks.context.catalog import Catalog, Task, definition, read_parts
from benchmarks.context.measure import ENCODING, TokenCounter, first_tokens, measure
from benchmarks.context.model import MODEL_WAYS, measure_model
from benchmarks.context.ways import LISTED, OURS, PACKAGES, WAYS, Way
from benchmarks.datasets import REAL
from benchmarks.options import data_option, json_option, split_option, tasks_option, write_figures
from benchmarks.report.tables import context_tables, listing_tables, model_tables
from benchmarks.speed.corpus import read_corpus

_SIZES: Final = (10, 30, 100, 300)
_SEED: Final = 2026


async def measure_sizes(
    ways: Mapping[str, Way], catalog: Catalog, count: TokenCounter, *, samples: int
) -> Sequence[dict[str, Any]]:
    """Return the definitions in the first request of every method, for catalogs of several sizes.

    A catalog is a sample of the servers, the same for every method; the full catalog is its own sample. Tokens, and the
    share saved compared with listing everything, are medians over the samples.
    """
    whole = len(catalog.tools)
    sizes: list[dict[str, Any]] = []
    for size in (*(size for size in _SIZES if size < whole), whole):
        drawn = [catalog.sample(size, seed) for seed in range(samples if size < whole else 1)]
        listed = [await first_tokens(ways[LISTED], sample, count) for sample in drawn]
        for name, way in ways.items():
            tokens = [await first_tokens(way, sample, count) for sample in drawn]
            saved = [1 - own / all_of_them for own, all_of_them in zip(tokens, listed, strict=True)]
            sizes.append({"way": name, "tools": size, "tokens": median(tokens), "saved": median(saved)})
    return sizes


def listings(directories: Sequence[Path], sizes: Sequence[int]) -> list[dict[str, int]]:
    """Return the bytes and tokens of tool lists, mixed from all datasets."""
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
@data_option(REAL)
@split_option("test")
@click.option(
    "--way",
    "chosen",
    type=click.Choice(list(WAYS)),
    multiple=True,
    help="Method to measure; can be repeated. [default: all]",
)
@tasks_option
@click.option("--results", type=click.IntRange(min=1), help="Tools per search. [default: each method's own]")
@click.option("--samples", type=click.IntRange(min=1), default=20, show_default=True, help="Of smaller catalogs.")
@click.option(
    "--listing", "sizes", type=click.IntRange(min=1), multiple=True, help="Only measure lists of this many tools."
)
@click.option("--model", help="Give the tasks to this model instead, through a chat completions endpoint.")
@click.option(
    "--base-url", metavar="URL", help="The endpoint's address. Default: OPENAI_BASE_URL. The key is OPENAI_API_KEY."
)
@click.option(
    "--servers",
    "server_counts",
    type=click.IntRange(min=1),
    multiple=True,
    help="With --model: use only this many servers.",
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
    """Replay real requests through different methods of offering tools to a model, and count what is sent and found.

    A deterministic policy simulates the model (benchmarks/README.md). The tables are Markdown.
    """
    if sizes:
        write_figures(listings(directories, sizes), listing_tables, json_file)
        return
    if model is not None:
        if not (asked := [name for name in MODEL_WAYS if name in (chosen or MODEL_WAYS)]):
            raise click.UsageError(f"with --model, the ways are {', '.join(MODEL_WAYS)}")
        datasets = [
            numbers | {"ways": anyio.run(measure_model, model, base_url, asked, catalog, own)}
            for numbers, catalog, own in read_parts(directories, split, tasks, server_counts)
        ]
        write_figures({"split": split, "model": model, "datasets": datasets}, model_tables, json_file)
        return
    if missing := [name for name in chosen if name in PACKAGES and not find_spec(PACKAGES[name])]:
        raise click.UsageError(f"{', '.join(missing)}: not installed; pip install '.[benchmark]'")
    # Always include the two that the others are compared with.
    wanted = {LISTED, OURS, *chosen} if chosen else {name for name in WAYS if find_spec(PACKAGES.get(name, "json"))}
    ways = {name: way for name, way in WAYS.items() if name in wanted}

    async def measured(numbers: dict[str, Any], catalog: Catalog, own: Sequence[Task]) -> dict[str, Any]:
        count = TokenCounter()
        by_way = [asdict(await measure(name, way, catalog, own, count, results)) for name, way in ways.items()]
        return numbers | {"ways": by_way, "sizes": await measure_sizes(ways, catalog, count, samples=samples)}

    datasets = [anyio.run(measured, *part) for part in read_parts(directories, split, tasks)]
    write_figures({"split": split, "encoding": ENCODING, "datasets": datasets}, context_tables, json_file)


if __name__ == "__main__":
    main()
