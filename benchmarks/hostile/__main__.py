"""Command line of the measurement with hostile servers."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.hostile.run import Settings, run
from benchmarks.hostile.server import HTTP_MODES, STDIO_MODES

__all__ = ["main"]

_MODES: Final = [*STDIO_MODES, *HTTP_MODES]


@click.command()
@click.option(
    "--seconds", type=click.IntRange(5, 86_400), default=60, show_default=True, help="Beside hostile servers."
)
@click.option("--callers", type=click.IntRange(1, 200), default=20, show_default=True, help="Callers at the same time.")
@click.option("--mode", "modes", type=click.Choice(_MODES), multiple=True, help="May be repeated. [default: all]")
@click.option("--seed", type=int, help="Repeats what is asked for, in the order of each caller.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Keep the gateway's log here.")
def main(
    *, seconds: int, callers: int, modes: Sequence[str], seed: int | None, json_file: Path | None, log: Path | None
) -> None:
    """Use twenty healthy servers through a gateway while hostile servers behind it do their worst.

    Every answer of a healthy server is checked and timed, first without hostile servers and then with them.

    Exit codes: 0 hostile servers cost nothing but themselves, 1 they did, 2 the command line is wrong.
    """
    settings = Settings(seconds, callers, modes or _MODES, secrets.randbelow(2**32) if seed is None else seed, log)
    report = anyio.run(run, settings, _say)
    figures = {"settings": {"seconds": seconds, "callers": callers, "seed": settings.seed}, **report.figures}
    text = json.dumps({**figures, "failures": report.failures}, indent=2)
    if json_file:
        json_file.write_text(text + "\n", encoding="utf-8")
    click.echo(text)
    sys.exit(1 if report.failures else 0)


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
