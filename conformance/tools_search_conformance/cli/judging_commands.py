"""The commands that judge: `server` and `client`."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
import click

from tools_search_conformance.cli.options import (
    RUN_OPTIONS,
    SELECTION_OPTIONS,
    SERVER_OPTIONS,
    START_OPTIONS,
    Command,
    fixture_features,
    options_of,
    with_options,
    words,
    writable_folder,
)
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.model import CELLS, FIXTURE_FEATURES, Cell, Run
from tools_search_conformance.report.render import number_of
from tools_search_conformance.report.terminal import Progress, print_run
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.runner import no_progress
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.eras import ERAS
from tools_search_conformance.wire.http import check_address
from tools_search_conformance.wire.process import TargetError

_ERA: Final = click.option(
    "--era", type=click.Choice(["auto", *ERAS]), default="auto", help="Protocol revision; auto is every one spoken."
)

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


@click.command(cls=Command, epilog=_SERVER_EXAMPLES, short_help="Judge a server, on stdio, over HTTP, or both.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="Address of a server that is running already, over Streamable HTTP.")
@click.option(
    "--http-command",
    "http_argv",
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
    callback=fixture_features,
    metavar="LIST",
    help=f"What the fixture can do beyond serving a catalog, with commas between: {', '.join(FIXTURE_FEATURES)}.",
)
@with_options(SELECTION_OPTIONS, RUN_OPTIONS, START_OPTIONS, SERVER_OPTIONS)
def server(listing: bool, as_json: bool, progress: bool, **given: Any) -> None:
    """Judge a server: `server -- ARGV` on stdio, `--http-command` or `--url` over Streamable HTTP.

    A command on stdio and one over HTTP can be judged in one run.
    """
    options = options_of("server", given)
    http = bool(options.url or options.http_argv)
    named = bool(options.argv) or http
    if not (named or listing):
        raise click.UsageError("name a server: -- ARGV, --http-command or --url")
    if options.url and (options.argv or options.http_argv):
        raise click.UsageError("--url goes alone")
    if options.fixture_features and (options.url or options.profile == "live"):
        raise click.UsageError("--fixture-features is for fixtures that are started here; a live server has none")
    if options.url:
        try:
            check_address(options.url, allow_remote=options.allow_remote)
        except TargetError as error:
            raise click.UsageError(str(error)) from error
    offered = {"stdio": bool(options.argv) or not named, "http": http or not named}
    cells = [cell for cell in CELLS if cell.era in options.eras and offered[cell.transport]]
    _judge(options, cells, judge_server, listing=listing, as_json=as_json, progress=progress)


@click.command(cls=Command, epilog=_CLIENT_EXAMPLES, short_help="Judge a client, through a driver of yours.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--one-shot", is_flag=True, help="ARGV is no driver but a client after the contract of the official MCP suite."
)
@_ERA
@click.option(
    "--transport", type=click.Choice(["auto", "stdio", "http"]), default="auto", help="How the client is spoken to."
)
@with_options(SELECTION_OPTIONS, RUN_OPTIONS, START_OPTIONS)
def client(listing: bool, as_json: bool, progress: bool, **given: Any) -> None:
    """Judge a client: `client -- ARGV` starts its driver, a small program of yours.

    What a driver has to do: `tools-search-conformance docs driver`; one to fill in: `docs skeleton`.
    """
    options = options_of("client", given)
    if not (options.argv or listing):
        raise click.UsageError("name a driver: -- ARGV")
    cells = [cell for cell in CELLS if cell.era in options.eras and options.transport in ("auto", cell.transport)]
    _judge(options, cells, judge_client, listing=listing, as_json=as_json, progress=progress)


def _judge(
    options: Options,
    cells: Sequence[Cell],
    judge: Callable[[Options, Callable[..., None]], Awaitable[Run]],
    *,
    listing: bool,
    as_json: bool,
    progress: bool,
) -> None:
    """Judge the target in `cells`, and end the program with the verdict; or list what would be run.

    Raises:
        UsageError: Nothing is chosen in any of the cells, or the reports cannot be written.
        TargetError: There is nothing to judge.
    """
    chosen, offered = {cell for _, cell in options.selection.pairs}, {cell.name for cell in cells}
    if not chosen & offered:
        about = f"what is chosen is about {', '.join(sorted(chosen))}"
        raise click.UsageError(f"{about}, and this run about {', '.join(sorted(offered))}")
    if listing:
        _list(options, cells, as_json=as_json)
        return
    writable_folder(options.out)
    total = sum(len(options.selection.wanted(cell)) for cell in cells)
    show = no_progress if as_json and not progress else Progress(total, lines=progress)
    run = anyio.run(judge, options, show)
    if as_json:
        click.echo((options.out / "report.json").read_text(encoding="utf-8"), nl=False)
    else:
        print_run(run, options.out)
    sys.exit(exit_status(run))


def _list(options: Options, cells: Sequence[Cell], *, as_json: bool) -> None:
    wanted = {cell: options.selection.wanted(cell) for cell in cells}
    shown = {
        check: [cell.name for cell in cells if check in wanted[cell] and check.applies(cell, options.effective_profile)]
        for check in options.selection.checks
    }
    shown = {check: names for check, names in shown.items() if names}
    if as_json:
        listed = [{"id": check.id, "level": check.level, "cells": names} for check, names in shown.items()]
        click.echo(json.dumps(listed, indent=2))
        return
    for check, names in shown.items():
        click.echo(f"{check.level:6}  {check.id}\n        {', '.join(names)}")
    where = {name for names in shown.values() for name in names}
    click.echo(f"{number_of(len(shown), 'check')} in {number_of(len(where), 'cell')}")
