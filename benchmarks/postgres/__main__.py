"""The command that measures catalogs in PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

import click
import psycopg
from tools_search_ranking.postgres import migrate
from tools_search_ranking.postgres.embedded import embedded_address

from benchmarks.datasets import SMALL, read_dataset
from benchmarks.options import data_option, json_option, split_option, write_figures
from benchmarks.postgres.answers import compare
from benchmarks.postgres.scale import measure
from benchmarks.report.tables import postgres_tables

_QUERIES = 200


@click.command()
@data_option(SMALL)
@split_option("test")
@click.option(
    "--database", help="Database address; by default, a database is started for this. Catalogs in it are kept."
)
@click.option("--sizes", default="", help="Numbers of synthetic tools. [default: only compare answers]")
@click.option("--callers", default="1,8,32", show_default=True, help="Number of concurrent searches.")
@click.option("--searches", default=200, show_default=True, help="For each row.")
@json_option
def main(
    directories: Sequence[Path],
    split: str,
    database: str | None,
    sizes: str,
    callers: str,
    searches: int,
    json_file: Path | None,
) -> None:
    """Compare a database's answers with those of the in-memory ranking, and measure searches in it.

    Sizes count synthetic tools made from the datasets' tools. An existing catalog of a size is reused.
    """
    datasets = [read_dataset(directory, split) for directory in directories]
    asked = [query.query for dataset in datasets for query in dataset.queries]
    queries = Random(1).sample(asked, min(_QUERIES, len(asked)))  # noqa: S311 - the same in every run
    parents = [tool for dataset in datasets for tool in dataset.tools]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        address = database or embedded_address(Path(folder) / "data")
        with psycopg.connect(address, autocommit=True) as connection:
            migrate(connection)
            answers = [asdict(compare(connection, dataset)) for dataset in datasets]
        at_once = [int(number) for number in callers.split(",")]
        scales = [
            asdict(measure(address, parents, queries, int(size), at_once, searches))
            for size in sizes.split(",")
            if size
        ]
        write_figures({"answers": answers, "scales": scales}, postgres_tables, json_file)


if __name__ == "__main__":
    main()
