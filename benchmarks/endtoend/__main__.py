"""Command line of the end-to-end benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.endtoend.plot import draw
from benchmarks.endtoend.run import measure_size
from benchmarks.endtoend.tables import page
from benchmarks.options import data_option
from benchmarks.plots import needs_matplotlib
from benchmarks.provenance import provenance, versions
from benchmarks.speed.corpus import Corpus, read_corpus

__all__ = ["main"]

_SEED: Final = 2026
_QUERIES: Final = 1_000
_LONGEST: Final = 1_024
_PACKAGES: Final = ("mcp", "mcp-types", "pydantic", "anyio", "uvicorn", "starlette", "httpx2", "bpe-openai")
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@data_option
@click.option("--sizes", default="10,100,1000,10000", show_default=True, help="Numbers of tools.")
@click.option("--requests", type=click.IntRange(2), default=200, show_default=True, help="Of each kind.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
@click.option(
    "--plot", "plot_file", type=_FILE, callback=needs_matplotlib, help="Draw how the cost grows here, as SVG."
)
def main(
    directories: Sequence[Path], sizes: str, requests: int, json_file: Path | None, plot_file: Path | None
) -> None:
    """Measure what a search takes beside a request that does nothing, and beside the list, over stdio and HTTP.

    Servers run in processes of their own. Two clients ask each: one that writes JSON and does no more than to read the
    JSON that is answered, and that of the SDK, which checks what it reads. The tables are Markdown.
    """
    before = provenance()
    measured = [anyio.run(measure_size, _corpus(directories, size), requests) for size in map(int, sizes.split(","))]
    click.echo(page(measured))
    if json_file:
        taken = {**before, "load_after": provenance()["machine"]["load"], "versions": versions(_PACKAGES)}
        written = {**taken, "requests": requests, "seed": _SEED, "sizes": list(map(asdict, measured))}
        json_file.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    if plot_file:
        draw(measured, plot_file)


def _corpus(directories: Sequence[Path], size: int) -> Corpus:
    """Return tools, and requests of a length that every server accepts."""
    corpus = read_corpus(directories, size, queries=_QUERIES, seed=_SEED)
    return replace(corpus, queries=[query for query in corpus.queries if len(query) <= _LONGEST])


if __name__ == "__main__":
    main()
