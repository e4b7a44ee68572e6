"""The command that fits the query map of `tools_search_ranking.semantic.minilm` and writes it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from tools_search_ranking.semantic.minilm import QUERY_MAP

from benchmarks.meaning.examples import read_examples
from benchmarks.meaning.fitting import fit
from benchmarks.options import FILE


@click.command()
@click.option("--out", type=FILE, default=QUERY_MAP, help="File for the map. [default: that of the package]")
@click.option("--steps", type=click.IntRange(min=1), default=800, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(out: Path, steps: int, seed: int) -> None:
    """Fit the map of query vectors to the requests in `tools.jsonl`, and write it."""
    np.save(out, fit(read_examples(), steps, seed).astype(np.float16))


if __name__ == "__main__":
    main()
