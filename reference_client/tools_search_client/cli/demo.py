"""The command `demo`."""

from __future__ import annotations

import logging
import sys
import textwrap
from functools import partial
from shutil import get_terminal_size
from typing import Final

import click
from tools_search_ranking.extras import install_command

from tools_search_client.cli.outcome import EXIT_FAILED, EXIT_OK, epilog, leave
from tools_search_client.cli.running import run_until_signal
from tools_search_client.cli.screen import print_json, print_note, working
from tools_search_client.demo.installation import DOWNLOAD, ON_DISK, Installation, cache_folder, install_extra_servers
from tools_search_client.demo.servers import missing_packages
from tools_search_client.demo.step import StepFailed, StepReport
from tools_search_client.demo.story import STEPS, Demo, play
from tools_search_client.errors import LocalError
from tools_search_client.text import printable

__all__ = ["demo"]

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


@click.command(epilog=_EPILOG, short_help="See the whole chain at work over real MCP servers.")
@click.option(
    "--extra-servers",
    is_flag=True,
    help="Also use four servers that are downloaded at the first run, one of Python and legacy, three of Node: "
    f"{DOWNLOAD}, which take {ON_DISK} below ~/.cache (or $XDG_CACHE_HOME).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def demo(*, extra_servers: bool, as_json: bool) -> None:
    """See the whole chain at work over real MCP servers.

    A gateway is started over published servers. It is negotiated with in both eras, searched in plain language, and
    found tools are called. Then the same servers are used without the extension, both ways are measured, and the
    conformance suite gives its verdict, which takes most of the time: half a minute to two.

    The servers came with the extra [demo]. Nothing is downloaded unless --extra-servers is given, nothing is sent to
    another machine, and what is written goes into a temporary folder that is gone afterwards.
    """
    missing = missing_packages()
    if missing:
        raise LocalError(f"the demo needs {', '.join(missing)}. {install_command('demo')}")
    logging.basicConfig(level=logging.CRITICAL, handlers=[logging.NullHandler()])
    if not as_json:
        click.secho("tools/search, end to end: experimental and unofficial", bold=True)
    installation = _installed() if extra_servers else None
    performed = run_until_signal(partial(_performed, installation, as_json))
    if as_json:
        print_json(performed.to_json())
    else:
        _print_end(performed)
    leave(EXIT_FAILED if performed.failed else EXIT_OK)


def _installed() -> Installation:
    folder = cache_folder()
    print_note(
        f"  Extra servers are kept in {folder} ({DOWNLOAD} to download, {ON_DISK}); delete it to be rid of them."
    )
    with working("looking for the extra servers") as progress:
        return install_extra_servers(folder, progress)


async def _performed(installation: Installation | None, as_json: bool) -> Demo:
    try:
        if as_json:
            return await play(installation, announce=_hold, show=_hold, working=working)
        return await play(
            installation, open_with=_print_opening, announce=_print_title, show=_print_step, working=working
        )
    except (StepFailed, OSError) as error:
        return Demo((), (), (StepReport("gateway", "The gateway", 0.0, problem=str(error)),), 0.0, 0.0)


def _hold(_: object) -> None:
    """Print nothing yet: all of it is one JSON object."""


def _print_opening(servers: tuple[str, ...], notes: tuple[str, ...]) -> None:
    _print_filled(f"  Servers: {', '.join(servers)}")
    for note in notes:
        _print_filled(f"  {note}")


def _print_title(title: str) -> None:
    number = [known for known, _ in STEPS.values()].index(title) + 1
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
    """Print a line over as many as it takes, those after the first one further in."""
    width = min(get_terminal_size().columns, _WIDTH) if sys.stdout.isatty() else _WIDTH
    inset = " " * (len(line) - len(line.lstrip()) + 2)
    filled = textwrap.fill(
        printable(line), width, subsequent_indent=inset, break_on_hyphens=False, break_long_words=False
    )
    click.echo(filled)


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
