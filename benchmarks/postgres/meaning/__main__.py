"""The command that measures ranking by meaning in PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final

import click
import numpy as np
import psycopg
from numpy.typing import NDArray
from tools_search_ranking.postgres import ToolEntry, embed_catalog, import_catalog, migrate
from tools_search_ranking.postgres.embedded import embedded_address
from tools_search_ranking.semantic import Embedder
from tools_search_ranking.semantic.minilm import minilm

from benchmarks.datasets import SMALL, read_dataset
from benchmarks.options import data_option, json_option, split_option, write_figures
from benchmarks.postgres.answers import compare
from benchmarks.postgres.corpus import synthetic
from benchmarks.postgres.scale import time_searches
from benchmarks.report.tables import postgres_meaning_tables

_NAME: Final = "meaning"
_GROUP_SIZE: Final = 1_000
_SEED: Final = 1
_NUMBERS: Final = 384
"""As many as the vectors of the small model have."""


@click.command()
@data_option(SMALL)
@split_option("test")
@click.option("--size", default=40_000, show_default=True, help="Number of synthetic tools.")
@click.option("--visible", default="1000,5000,20000", show_default=True, help="Numbers of tools that callers see.")
@click.option("--searches", default=100, show_default=True, help="For each row.")
@json_option
def main(
    directories: Sequence[Path], split: str, size: int, visible: str, searches: int, json_file: Path | None
) -> None:
    """Compare ranking by meaning in a database with that in memory, and measure how long it takes.

    Times are measured with random vectors, and without the model's time for a query.
    """
    datasets = [read_dataset(directory, split) for directory in directories]
    asked = [query.query for dataset in datasets for query in dataset.queries]
    queries = Random(_SEED).sample(asked, min(searches, len(asked)))  # noqa: S311 - the same in every run
    chance = np.random.default_rng(_SEED)
    known = dict[str, NDArray[np.float64]]()

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        return np.stack([known.setdefault(text, chance.standard_normal(_NUMBERS)) for text in texts])

    stand_in = Embedder("random", embed, knows=lambda _: True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        address = embedded_address(Path(folder) / "data")
        with psycopg.connect(address, autocommit=True) as connection:
            migrate(connection)
            answers = [asdict(compare(connection, dataset, minilm())) for dataset in datasets]
            parents = [tool for dataset in datasets for tool in dataset.tools]
            tools = enumerate(synthetic(parents, size, _SEED))
            import_catalog(connection, _NAME, (ToolEntry(tool, [f"g{place // _GROUP_SIZE}"]) for place, tool in tools))
            began = monotonic()
            embed_catalog(connection, _NAME, stand_in)
            seconds = monotonic() - began
            connection.execute("vacuum analyze")
            ((stored,),) = connection.execute(
                "select sum(pg_total_relation_size(inhrelid))::bigint from pg_inherits join tools_search.catalog "
                "on inhrelid = to_regclass('tools_search.vector_' || generation) where name = %s",
                [_NAME],
            ).fetchall()
        times: list[dict[str, Any]] = []
        for seen in map(int, visible.split(",")):
            groups = [f"g{group}" for group in range(-(-seen // _GROUP_SIZE))]
            for embedder in (None, stand_in):
                own = time_searches(address, _NAME, ("", queries), groups, seen / size, 1, searches, embedder)
                times.append({"seen": seen, "by": "words" if embedder is None else "words and meaning", **asdict(own)})
        figures = {"answers": answers, "times": times, "tools": size, "bytes": stored, "write_seconds": seconds}
        write_figures(figures, postgres_meaning_tables, json_file)


if __name__ == "__main__":
    main()
