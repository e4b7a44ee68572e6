"""The documents benchmark's command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.documents.measure import CONDITIONS, ENGINES, cost, measured
from benchmarks.documents.trees import read_tree
from benchmarks.options import DIRECTORY, json_option, split_option, write_figures
from benchmarks.report.tables import documents_tables


@click.command()
@click.argument("folders", nargs=-1, required=True, type=DIRECTORY)
@split_option("dev")
@click.option(
    "--queries", type=click.IntRange(min=1), default=200, show_default=True, help="Maximum queries of each kind."
)
@click.option("--engine", "engines", type=click.Choice([*ENGINES]), multiple=True, default=[*ENGINES])
@click.option("--builds", type=click.IntRange(min=1), default=3, show_default=True, help="The quickest counts.")
@json_option
def main(
    folders: Sequence[Path], split: str, queries: int, engines: Sequence[str], builds: int, json_file: Path | None
) -> None:
    """Measure how well documents are found by name and by content, and the cost of indexing contents.

    FOLDERS contain documentation in Markdown or reStructuredText; the queries are taken from it too.
    """
    trees = [read_tree(folder, split, queries) for folder in folders]
    figures = {
        "split": split,
        "quality": [
            measured(tree, condition, engine) for condition in CONDITIONS for tree in trees for engine in engines
        ],
        "costs": [cost(folder, engine, builds) for folder in folders for engine in engines],
    }
    write_figures(figures, documents_tables, json_file)


if __name__ == "__main__":
    main()
