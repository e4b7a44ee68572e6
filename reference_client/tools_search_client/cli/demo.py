"""The command `demo`: search, call, fallback and verdict, end to end over published servers."""

from __future__ import annotations

import logging
import sys
import textwrap
from shutil import get_terminal_size
from typing import Final

import click
from tools_search_ranking.extras import install_command

from tools_search_client.cli.output import (
    EXIT_FAILED,
    EXIT_OK,
    as_json_option,
    epilog,
    print_json,
    print_note,
    working,
)
from tools_search_client.cli.running import run_until_signal
from tools_search_client.demo.installation import DOWNLOAD, ON_DISK, Installation, cache_folder, install_extra_servers
from tools_search_client.demo.stage import StepError, StepReport
from tools_search_client.demo.story import STEPS, Demo, play
from tools_search_client.demo.workspace import missing_packages
from tools_search_client.errors import LocalError
from tools_search_client.text import printable

_WIDTH: Final = 96

_EPILOG: Final = epilog(
    "demo",
    "demo --extra-servers",
    "demo --json",
    exit_codes="""\b
Exit codes:
  0  every step succeeded
  1  a step failed (it is named)
  2  packages of the demo are missing""",
)


@click.command(epilog=_EPILOG, short_help="See it work, end to end, over real MCP servers.")
@click.option(
    "--extra-servers",
    is_flag=True,
    help="Also use four servers that are downloaded on first use, one in Python with the legacy protocol and three in "
    f"Node: {DOWNLOAD}, {ON_DISK} in ~/.cache (or $XDG_CACHE_HOME).",
)
@as_json_option
def demo(*, extra_servers: bool, as_json: bool) -> int:
    """See it work, end to end, over real MCP servers.

    A gateway is started over published servers. The demo negotiates with it in both eras, searches it in plain
    language, and calls tools that it found. Then it uses the same servers without the extension, measures both ways,
    and lets the conformance suite give its verdict, which takes most of the time: half a minute to two.

    The servers came with the extra [demo]. Nothing is downloaded without --extra-servers, nothing is sent to another
    machine, and all files go into a temporary folder that is removed at the end.
    """
    missing = missing_packages()
    if missing:
        raise LocalError(f"the demo needs {', '.join(missing)}. {install_command('demo')}")
    logging.basicConfig(level=logging.CRITICAL, handlers=[logging.NullHandler()])
    if not as_json:
        click.secho("tools/search, end to end: experimental and unofficial", bold=True)
    installation = _install() if extra_servers else None

    async def run() -> Demo:
        try:
            if as_json:  # one object at the end, and nothing before
                return await play(installation, announce=lambda _: None, show=lambda _: None, working=working)
            return await play(
                installation, open_with=_print_opening, announce=_print_title, show=_print_step, working=working
            )
        except (StepError, OSError) as error:
            return Demo((), (), (StepReport("gateway", "The gateway", 0.0, problem=str(error)),), 0.0, 0.0)

    performed = run_until_signal(run)
    if as_json:
        print_json(performed.to_json())
    else:
        _print_end(performed)
    return EXIT_FAILED if performed.failed else EXIT_OK


def _install() -> Installation:
    folder = cache_folder()
    print_note(f"  Extra servers are kept in {folder} ({DOWNLOAD} to download, {ON_DISK}); delete it to remove them.")
    with working("looking for the extra servers") as progress:
        return install_extra_servers(folder, progress)


def _print_opening(servers: tuple[str, ...], notes: tuple[str, ...]) -> None:
    _print_filled(f"  Servers: {', '.join(servers)}")
    for note in notes:
        _print_filled(f"  {note}")


def _print_title(title: str) -> None:
    number = [step.title for step in STEPS.values()].index(title) + 1
    click.echo()
    click.secho(f"{number}. {title}", bold=True)


def _print_step(report: StepReport) -> None:
    for line in report.shown.lines:
        _print_filled(f"   {line}")
    click.secho(f"   ({report.seconds:.1f} s)", dim=True)
    if report.problem is not None:
        click.secho("   FAILED", fg="red")
        _print_filled(f"   {report.problem}")


def _print_filled(line: str) -> None:
    """Print a line over as many as it takes, with a hanging indent."""
    width = min(get_terminal_size().columns, _WIDTH) if sys.stdout.isatty() else _WIDTH
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    click.echo(
        textwrap.fill(printable(line), width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    )


def _print_end(performed: Demo) -> None:
    click.echo()
    for step in performed.steps:
        if step.name == "gateway":
            _print_filled(f"FAILED: {step.problem}")
    installation = performed.installation_seconds
    took = f"{performed.seconds:.0f} s" + (f", and {installation:.0f} s of installation" if installation >= 1 else "")
    if performed.failed:
        click.secho(f"Failed: {', '.join(performed.failed)}  ({took})", fg="red", bold=True)
    else:
        click.secho(f"Every step succeeded over {len(performed.servers)} servers  ({took})", fg="green", bold=True)
