"""Command line of the comparison."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import click

from benchmarks.isolation.measure import measure
from benchmarks.markdown import table

__all__ = ["main"]


@click.command()
@click.option("--cases", type=click.IntRange(1), default=10_000, show_default=True, help="Requests to compare.")
@click.option("--seed", type=int, help="Repeats worlds and requests. [default: a random one, which is printed]")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
def main(cases: int, seed: int | None, json_file: Path | None) -> None:
    """Compare, byte for byte, what a gateway with more than a caller sees answers it, and one without the rest.

    Exit codes: 0 there is no difference, 1 there is one, 2 the command line is wrong.
    """
    seed = secrets.randbelow(2**32) if seed is None else seed
    figures = measure(cases, seed, lambda line: click.echo(line, err=True))
    found = len(figures.differences)
    click.echo(
        f"{figures.cases.total():,} cases in {figures.worlds} worlds (seed {seed}), of which {figures.errors:,} are "
        f"errors, beside {figures.hidden_events:,} events that the caller does not see: {found or 'no'} differences.\n"
    )
    click.echo(table(("method", "cases"), [(f"`{name}`", f"{n:,}") for name, n in sorted(figures.cases.items())]))
    if json_file:
        report = {
            "seed": seed,
            "worlds": figures.worlds,
            "cases": dict(sorted(figures.cases.items())),
            "errors": figures.errors,
            "hidden_events": figures.hidden_events,
            "differences": figures.differences,
        }
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if figures.differences else 0)


if __name__ == "__main__":
    main()
