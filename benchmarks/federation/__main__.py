"""Command line of the federation benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from tools_search_ranking import FieldedRanker

from benchmarks.federation.measure import Measurement, measure
from benchmarks.federation.servers import Servers
from benchmarks.retrieval.__main__ import RANKERS
from benchmarks.retrieval.datasets import read_dataset

__all__ = ["main"]

_HEADINGS: Final = (
    "| order | nDCG@10 | R@1 | R@5 | R@10 | more nDCG than the client | ms |\n|---|--:|--:|--:|--:|--:|--:|"
)
_INFORMED: Final = "informed"
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option("--data", "directory", type=_DIRECTORY, required=True, help="Dataset whose tools have servers.")
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True)
@click.option(
    "--server-ranker",
    type=click.Choice([*sorted(RANKERS), _INFORMED]),
    default="fielded",
    show_default=True,
    help="How each server ranks its own tools; `informed` ones know which are right. The client's is `fielded`.",
)
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(directory: Path, split: str, server_ranker: str, json_file: Path | None) -> None:
    """Compare orders of what many servers find, each of which knows its own tools alone.

    Every server is asked for its ten best, and ten are kept. The one index of all tools is no federation: it is what
    could be reached if every definition were at hand.
    """
    servers = Servers(directory, own_ranker=RANKERS.get(server_ranker, FieldedRanker()), ranker=FieldedRanker())
    queries = read_dataset(directory, split).queries
    measurements = measure(servers, queries, informed=server_ranker == _INFORMED)
    click.echo(
        f"{directory.name}, {split}: {len(queries)} queries, {servers.number} servers that rank {server_ranker}\n"
    )
    click.echo("\n".join([_HEADINGS, *map(_row, measurements)]))
    if json_file:
        json_file.write_text(json.dumps(_report(measurements, split, server_ranker), indent=2) + "\n", encoding="utf-8")


def _row(one: Measurement) -> str:
    good = one.quality
    figures = (good.ndcg_at_10, good.recall_at_1, good.recall_at_5, good.recall_at_10)
    more = f"{one.more.mean:+.3f} ({one.more.low:+.3f} to {one.more.high:+.3f})"
    return f"| {one.order} | {' | '.join(f'{figure:.3f}' for figure in figures)} | {more} | {one.p50_ms:.1f} |"


def _report(measurements: Sequence[Measurement], split: str, server_ranker: str) -> dict[str, object]:
    rows = [
        {member: value for member, value in asdict(one).items() if member != "quality"} | asdict(one.quality)
        for one in measurements
    ]
    return {"split": split, "server_ranker": server_ranker, "orders": rows}


if __name__ == "__main__":
    main()
