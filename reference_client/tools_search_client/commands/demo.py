"""The command `demo`."""

from __future__ import annotations

import logging
import textwrap
from functools import partial
from typing import Final

import click

from tools_search_client.commands.outcome import EXIT_FAILED, EXIT_OK, epilog, leave
from tools_search_client.commands.running import run_until_signal
from tools_search_client.commands.screen import print_json, print_note, print_text
from tools_search_client.demo.installation import Installation, cache_folder, install_extra_servers
from tools_search_client.demo.servers import missing_packages, notes
from tools_search_client.demo.step import StepFailed, StepReport
from tools_search_client.demo.story import STEPS, Demo, play
from tools_search_client.errors import LocalMistake

__all__ = ["demo"]

_WIDTH: Final = 80

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
    "--extra-servers/--no-extra-servers",
    default=True,
    show_default=True,
    help="Also use servers that are installed at the first run (one legacy Python server, three of Node).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def demo(*, extra_servers: bool, as_json: bool) -> None:
    """See the whole chain at work over real MCP servers, offline, in under a minute.

    A gateway is started over published servers. It is negotiated with in both eras, searched in plain language, and
    found tools are called. Then the same servers are used without the extension, both ways are measured, and the
    conformance suite gives its verdict.
    """
    missing = missing_packages()
    if missing:
        install = "install the distribution with its extra [demo]; from a clone: pip install '.[demo]'"
        raise LocalMistake(f"the demo needs {', '.join(missing)}: {install}")
    logging.basicConfig(level=logging.CRITICAL, handlers=[logging.NullHandler()])
    installation = install_extra_servers(cache_folder(), print_note) if extra_servers else None
    if not as_json:
        _print_opening(installation)
    performed = run_until_signal(partial(_performed, installation, as_json))
    if as_json:
        print_json(performed.to_json())
    else:
        _print_end(performed)
    leave(EXIT_FAILED if performed.failed else EXIT_OK)


async def _performed(installation: Installation | None, as_json: bool) -> Demo:
    try:
        if as_json:
            return await play(installation, announce=_hold, show=_hold)
        return await play(installation, announce=_print_title, show=_print_step)
    except StepFailed as error:
        return Demo((), (), (StepReport("gateway", "The gateway", 0.0, problem=str(error)),), 0.0, 0.0)


def _hold(_: object) -> None:
    """Print nothing yet: all of it is one JSON object."""


def _print_opening(installation: Installation | None) -> None:
    click.secho("tools/search, end to end: experimental and unofficial", bold=True)
    for note in notes(installation):
        print_text(f"  {note}")


def _print_title(title: str) -> None:
    number = [known for known, _ in STEPS.values()].index(title) + 1
    click.echo()
    click.secho(f"{number}. {title}", bold=True)


def _print_step(report: StepReport) -> None:
    for line in report.shown.lines:
        print_text(_clipped(f"   {line}"))
    click.secho(f"   ({report.seconds:.1f} s)", dim=True)
    if report.problem is not None:
        click.secho("   FAILED", fg="red")
        print_text(textwrap.fill(report.problem, _WIDTH, initial_indent="   ", subsequent_indent="   "))


def _clipped(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _print_end(performed: Demo) -> None:
    click.echo()
    for step in performed.steps:
        if step.name == "gateway":
            print_text(f"FAILED {step.problem}")
    took = f"{performed.seconds:.0f} s, and {performed.installation_seconds:.0f} s of installation"
    if performed.failed:
        click.secho(f"Failed: {', '.join(performed.failed)}  ({took})", fg="red", bold=True)
    else:
        click.secho(f"Every step succeeded over {len(performed.servers)} servers  ({took})", fg="green", bold=True)
