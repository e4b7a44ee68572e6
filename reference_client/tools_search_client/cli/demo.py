"""The command `demo`: search, call, fallback and conformance verdict, end to end over published servers."""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Callable, Sequence
from shutil import get_terminal_size
from time import perf_counter
from typing import Any, Final

import click
from tools_search_hosts.locations import cache_folder

from tools_search_client.cli import output
from tools_search_client.cli.running import run_until_signal
from tools_search_client.demo.installation import DOWNLOAD, ON_DISK, Installation, install_extra_servers
from tools_search_client.errors import LocalError
from tools_search_client.text import printable

_WIDTH: Final = 96

_EPILOG: Final = output.epilog(
    "demo",
    "demo --extra-servers",
    "demo --json",
    exit_codes="""\b
Exit codes:
  0  every step succeeded
  1  a step failed (the output names it)
  2  packages needed by the demo are missing""",
)


@click.command(epilog=_EPILOG, short_help="See it work, end to end, over real MCP servers.")
@click.option(
    "--extra-servers",
    is_flag=True,
    help="Also use four servers downloaded on first use, one in Python with the legacy protocol and three in Node: "
    f"{DOWNLOAD}, {ON_DISK} in ~/.cache (or $XDG_CACHE_HOME).",
)
@output.as_json_option
def demo(*, extra_servers: bool, as_json: bool) -> int:
    """See it work, end to end, over real MCP servers.

    The demo starts a gateway over published servers and one that serves the READMEs of the installed packages. It
    negotiates in both eras, searches in plain language, and calls tools that it found. Then it uses the same servers
    without the extension, measures both approaches, and runs the conformance suite on the gateway. The suite takes
    most of the time: half a minute to two minutes.

    The [demo] extra installs the servers. Nothing is downloaded without --extra-servers, nothing is sent to another
    machine, and all files go into a temporary folder that is removed at the end.
    """
    # Imported here so that other commands start without loading what only the demo needs.
    from tools_search_ranking.extras import install_command

    from tools_search_client.demo.stage import missing_packages

    missing = missing_packages()
    if missing:
        raise LocalError(f"the demo needs {', '.join(missing)}. {install_command('demo')}")
    logging.basicConfig(level=logging.CRITICAL, handlers=[logging.NullHandler()])

    def say(line: str = "", **style: Any) -> None:
        """Print a line, wrapped. Print nothing with `--json`, which prints a single object at the end."""
        if as_json:
            return
        width = min(get_terminal_size().columns, _WIDTH) if sys.stdout.isatty() else _WIDTH
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        filled = textwrap.fill(
            printable(line), width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
        )
        click.secho(filled, **style)

    say("tools/search, end to end: experimental and unofficial", bold=True)
    installation: Installation | None = None
    if extra_servers:
        folder = cache_folder("mcp-ext-tools-search") / "demo"
        output.print_note(
            f"  Extra servers are stored in {folder} ({DOWNLOAD} to download, {ON_DISK}); delete it to remove them."
        )
        with output.working("looking for the extra servers") as progress:
            installation = install_extra_servers(folder, progress)

    started = perf_counter()
    servers, notes, reports = run_until_signal(lambda: _play(installation, say))
    seconds, installing = perf_counter() - started, installation.seconds if installation else 0.0
    failed = [report["step"] for report in reports if not report["ok"]]
    if as_json:
        output.print_json(
            {
                "ok": not failed,
                "failed": failed,
                "seconds": round(seconds, 1),
                "installationSeconds": round(installing, 1),
                "servers": servers,
                "notes": notes,
                "steps": reports,
            }
        )
    took = f"{seconds:.0f} s" + (f", plus {installing:.0f} s to install" if installing >= 1 else "")
    say()
    if failed:
        say(f"Failed: {', '.join(failed)}  ({took})", fg="red", bold=True)
    else:
        say(f"Every step succeeded over {len(servers)} servers  ({took})", fg="green", bold=True)
    return output.EXIT_FAILED if failed else output.EXIT_OK


async def _play(
    installation: Installation | None, say: Callable[..., None]
) -> tuple[Sequence[str], Sequence[str], Sequence[dict[str, Any]]]:
    """Run every step and show it when it finishes; return the servers, the notes and the reports."""
    from tools_search_client.demo.programs import StepError
    from tools_search_client.demo.stage import open_stage
    from tools_search_client.demo.steps import STEPS, perform

    reports: list[dict[str, Any]] = []
    try:
        async with open_stage(installation, output.working) as stage:
            for line in (f"Servers: {', '.join(stage.servers)}", *stage.notes):
                say(f"  {line}")
            for number, (name, step) in enumerate(STEPS.items(), start=1):
                say()
                say(f"{number}. {step.title}", bold=True)
                with output.working(step.activity) as stage.progress:
                    report, lines = await perform(name, step, stage)
                reports.append(report)
                for line in lines:
                    say(f"   {line}")
                say(f"   ({report['seconds']:.1f} s)", dim=True)
                if not report["ok"]:
                    say("   FAILED", fg="red")
                    say(f"   {report['problem']}")
            return list(stage.servers), stage.notes, reports
    except (StepError, OSError) as error:
        say()
        say(f"FAILED: {error}")
        return (), (), [{"step": "gateway", "ok": False, "seconds": 0.0, "problem": str(error)}]
