"""The commands that judge: `server` and `client`."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import click

from tools_search_conformance.checks import registered
from tools_search_conformance.cli.choosing import refuse_nothing, selection_options, show_selection
from tools_search_conformance.cli.option_values import (
    TargetMissingError,
    pairs,
    reaching_options,
    words,
    writable_folder,
)
from tools_search_conformance.clients.checks import client_checks
from tools_search_conformance.clients.judge import ClientOptions, judge_client
from tools_search_conformance.model import CELLS, FIXTURE_FEATURES, Cell, FixtureFeature, Result, Run
from tools_search_conformance.report.plain import plain
from tools_search_conformance.report.terminal import Progress, print_run
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.baseline import Baseline, BaselineError, read_baseline
from tools_search_conformance.run.invocation import Options, features_named, judge_servers
from tools_search_conformance.run.runner import say_nothing
from tools_search_conformance.run.selection import Selection
from tools_search_conformance.wire.eras import ERAS
from tools_search_conformance.wire.http import check_address
from tools_search_conformance.wire.process import TargetError

__all__ = ["client", "server"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _baseline(context: click.Context, _: click.Parameter, value: str | None) -> Baseline:
    try:
        return (
            Baseline()
            if value is None
            else read_baseline(Path(value), client_checks() if context.info_name == "client" else registered())
        )
    except BaselineError as error:
        raise click.BadParameter(str(error)) from error


def _features(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[FixtureFeature]:
    try:
        return features_named(name.strip() for name in (value or "").split(",") if name.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _seed(_: click.Context, __: click.Parameter, value: int | None) -> int:
    return secrets.randbelow(2**32) if value is None else value


_RUN: Final = (
    click.option(
        "--baseline",
        callback=_baseline,
        metavar="FILE",
        help="YAML list of checks that are known not to pass, each with a reason; one that passes after all fails the "
        "run.",
    ),
    click.option(
        "--effort", type=click.Choice(["quick", "default", "deep"]), default="default", help="How many generated cases."
    ),
    click.option("--seed", type=click.IntRange(min=0), callback=_seed, help="Repeat a run's generated cases."),
    click.option(
        "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-report"),
        show_default=True, help="Folder for the reports and the wire log.",
    ),
    click.option(
        "--sep", type=click.IntRange(min=1), metavar="N", help="Name checks in checks.json as `trace --sep N` does."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON."),
    click.option(
        "--progress", is_flag=True, help="Write a line for each check to standard error, wherever that leads."
    ),
)  # fmt: skip

_ERA: Final = click.option(
    "--era", type=click.Choice(["auto", *ERAS]), default="auto", help="Protocol revision; auto is every one spoken."
)


def _run_options(command: _Command) -> _Command:
    """Give a command the options of every run."""
    for option in reversed(_RUN):
        command = option(command)
    return command


_SERVER_EXAMPLES: Final = """\b
Examples:
  tools-search-conformance server --profile live -- node my_server.js
  tools-search-conformance server --http-command 'my-server --http 127.0.0.1:0' -- my-server
  tools-search-conformance server --url http://127.0.0.1:3000/mcp --header 'Authorization:Bearer …'
  tools-search-conformance server --only 'cursor-*' --cell stdio-2026 -- my-server
  tools-search-conformance server --failed-from conformance-report/report.json -- my-server"""

_CLIENT_EXAMPLES: Final = """\b
Examples:
  tools-search-conformance client -- node my_driver.js
  tools-search-conformance client --only never-probes --transport stdio -- node my_driver.js
  tools-search-conformance client --one-shot -- node my_client.js
  tools-search-conformance docs driver                     what a driver has to do"""


@click.command(epilog=_SERVER_EXAMPLES, short_help="Judge a server, on stdio, over HTTP, or both.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="Address of a server that is running already, over Streamable HTTP.")
@click.option(
    "--http-command",
    callback=words,
    help='Command of an HTTP server; its first line is {"url": "http://127.0.0.1:…"}.',
)
@_ERA
@click.option(
    "--profile",
    type=click.Choice(["fixture", "live"]),
    help="fixture: the server serves the catalog named by TOOLS_SEARCH_CATALOG (default for servers started here); "
    "live: it serves its own tools, and none is called (default for --url).",
)
@click.option(
    "--fixture-features",
    callback=_features,
    metavar="LIST",
    help=f"What the fixture can do beyond serving a catalog, with commas between: {', '.join(FIXTURE_FEATURES)}.",
)
@selection_options(registered)
@_run_options
@reaching_options
def server(
    argv: tuple[str, ...],
    url: str | None,
    http_command: tuple[str, ...],
    selection: Selection,
    listing: bool,
    out: Path,
    as_json: bool,
    progress: bool,
    **rest: Any,
) -> None:
    """Judge a server: `server -- ARGV` on stdio, `--http-command` or `--url` over Streamable HTTP.

    A command on stdio and one over HTTP can be judged in one run.
    """
    named = bool(argv or url or http_command)
    if not (named or listing):
        raise click.UsageError("name a server: -- ARGV, --http-command or --url")
    if url and (argv or http_command):
        raise click.UsageError("--url goes alone")
    if rest["fixture_features"] and (url or rest["profile"] == "live"):
        raise click.UsageError("--fixture-features is for fixtures that are started here; a live server has none")
    if url:
        _see_to_address(url, allow_remote=rest["allow_remote"])
    options = Options(
        argv=argv,
        url=url,
        http_argv=http_command,
        checks=selection.checks,
        wants=selection.wants,
        partial=selection.partial,
        out=out,
        **rest,
    )
    transports = {"stdio": bool(argv) or not named, "http": bool(url or http_command) or not named}
    cells = [cell for cell in _cells(rest["era"]) if transports[cell.transport]]
    refuse_nothing(selection, cells)
    if listing:
        show_selection(selection, cells, options.effective_profile, as_json=as_json)
        return
    writable_folder(out)
    told = Progress(_number(selection, cells), lines=progress)
    _finish(_run(lambda show: judge_servers(options, show), told, as_json=as_json), as_json=as_json, out=out)


@click.command(epilog=_CLIENT_EXAMPLES, short_help="Judge a client, through a driver of yours.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--one-shot", is_flag=True, help="ARGV is no driver but a client after the contract of the official MCP suite."
)
@_ERA
@click.option(
    "--transport", type=click.Choice(["auto", "stdio", "http"]), default="auto", help="How the client is spoken to."
)
@selection_options(client_checks)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="Seconds for one operation."
)
@click.option(
    "--start-timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Seconds to start."
)
@click.option("--env", multiple=True, callback=pairs, metavar="NAME=VALUE", help="Environment variable of the driver.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Working directory of the driver.")
@_run_options
def client(
    argv: tuple[str, ...],
    selection: Selection,
    listing: bool,
    out: Path,
    as_json: bool,
    progress: bool,
    **rest: Any,
) -> None:
    """Judge a client: `client -- ARGV` starts its driver, a small program of yours.

    What a driver has to do: `tools-search-conformance docs driver`; one to fill in: `docs skeleton`.
    """
    if not (argv or listing):
        raise click.UsageError("name a driver: -- ARGV")
    cells = [cell for cell in _cells(rest["era"]) if rest["transport"] in ("auto", cell.transport)]
    refuse_nothing(selection, cells)
    if listing:
        show_selection(selection, cells, "fixture", as_json=as_json)
        return
    options = ClientOptions(
        argv=argv, checks=selection.checks, wants=selection.wants, partial=selection.partial, out=out, **rest
    )
    writable_folder(out)
    told = Progress(_number(selection, cells), lines=progress)
    _finish(_run(lambda show: judge_client(options, show), told, as_json=as_json), as_json=as_json, out=out)


def _cells(era: str) -> list[Cell]:
    return [cell for cell in CELLS if era in ("auto", cell.era)]


def _see_to_address(url: str, *, allow_remote: bool) -> None:
    try:
        check_address(url, allow_remote=allow_remote)
    except TargetError as error:
        raise click.UsageError(str(error)) from error


def _number(selection: Selection, cells: list[Cell]) -> int:
    return sum(selection.wants(check, cell) for check in selection.checks for cell in cells)


def _run(judge: Callable[[Callable[[Result], None]], Awaitable[Run]], progress: Progress, *, as_json: bool) -> Run:
    show = say_nothing if as_json and not progress.lines else progress
    try:
        return anyio.run(judge, show)
    except TargetError as error:
        raise TargetMissingError(plain(str(error))) from error


def _finish(run: Run, *, as_json: bool, out: Path) -> None:
    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"), nl=False)
    else:
        print_run(run, out)
    sys.exit(exit_status(run))
