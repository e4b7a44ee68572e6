"""Command line of the stuffing benchmark."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.retrieval.datasets import SMALL, read_dataset
from benchmarks.stuffing.attacks import ATTACKS
from benchmarks.stuffing.measure import Outcome, attacked, summary

__all__ = ["main"]

_MOST_RANKS: Final = 3
"""Ranks that a stuffed description may gain, in the median."""

_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option(
    "--data", "directories", type=_DIRECTORY, multiple=True, default=[SMALL], help="Dataset; may be repeated."
)
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True)
@click.option("--tools", type=click.IntRange(min=1), default=100, show_default=True, help="Tools stuffed per dataset.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
def main(directories: Sequence[Path], split: str, tools: int, json_file: Path | None) -> None:
    """Measure what a stuffed description gains; the exit code is 1 if it is more than 3 ranks in the median."""
    by_set = {path.name: list(attacked(read_dataset(path, split), tools)) for path in directories}
    outcomes = [one for own in by_set.values() for one in own]
    rows = {
        f"{'right tool' if fits else 'another tool'}, {attack}": summary(_of(outcomes, attack, fits=fits))
        for fits in (True, False)
        for attack in ATTACKS
    }
    width = max(map(len, rows))
    click.echo(f"{'':{width}}  median gain  below first  first five, honest > stuffed  first")
    for name, row in rows.items():
        click.echo(
            f"{name:{width}}  {row['median_gain']:11.1f}  {row['median_gain_below_first']:11.1f}  "
            f"{row['first_five_honest']:17.3f} > {row['first_five_stuffed']:.3f}  {row['first_stuffed']:5.3f}"
        )
    gains = {
        f"{name}, {attack}": summary(_of(own, attack, fits=True))["median_gain"]
        for name, own in by_set.items()
        for attack in ATTACKS
    }
    highest = max(gains, key=lambda name: gains[name])
    click.echo(f"greatest median gain of a right tool: {gains[highest]:g} ({highest})")
    if json_file:
        json_file.write_text(json.dumps({"split": split, "attacks": rows, "by_set": gains}, indent=1) + "\n", "utf-8")
    sys.exit(int(gains[highest] > _MOST_RANKS))


def _of(outcomes: Sequence[Outcome], attack: str, *, fits: bool) -> list[Outcome]:
    return [one for one in outcomes if one.attack == attack and one.fits == fits]


if __name__ == "__main__":
    main()
