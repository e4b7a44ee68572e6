"""Command line of the soak."""

from __future__ import annotations

import json
import logging
import secrets
import sys
from pathlib import Path

import anyio
import click

from benchmarks.soak.run import Settings, soak

__all__ = ["main"]


@click.command()
@click.option("--seconds", type=click.IntRange(5, 86_400), default=600, show_default=True, help="Time under load.")
@click.option("--upstreams", type=click.IntRange(2, 400), default=200, show_default=True, help="Servers.")
@click.option(
    "--tools", type=click.IntRange(10, 50_000), default=10_000, show_default=True, help="Tools of all of them."
)
@click.option("--callers", type=click.IntRange(4, 500), default=50, show_default=True, help="Callers at the same time.")
@click.option("--seed", type=int, help="Repeats what is done, in the order of each caller.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Keep the gateway's log here.")
def main(
    *,
    seconds: int,
    upstreams: int,
    tools: int,
    callers: int,
    seed: int | None,
    json_file: Path | None,
    log: Path | None,
) -> None:
    """Use a gateway for minutes while the servers behind it are killed and started again at random.

    Everything runs on loopback. Each answer is checked: it has to come from the right tool of the right server with the
    right arguments, what is found has to be listed, and an error is excused only while its server was down. In the end
    no process, descriptor, task or memory may be left over.

    Exit codes: 0 nothing was lost, wrong or left over, 1 something was, 2 the command line is wrong.
    """
    if tools < upstreams:
        raise click.UsageError("Each server has a tool at least: give --tools as many as --upstreams.")
    settings = Settings(seconds, upstreams, tools, callers, secrets.randbelow(2**32) if seed is None else seed, log)
    click.echo(f"soak: {settings}", err=True)
    logging.disable()  # of the clients: what they do not get is counted
    report = anyio.run(soak, settings, _tell)
    text = json.dumps(report.figures, indent=2)
    if json_file:
        json_file.write_text(text + "\n", encoding="utf-8")
    click.echo(text)
    for failure in report.failures:
        click.echo(f"FAILED: {failure}", err=True)
    sys.exit(1 if report.figures["failed"] else 0)


def _tell(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
