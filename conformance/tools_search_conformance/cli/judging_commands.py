"""The commands that judge: `server`, `client`, and `replay`, which sends a failure's requests again before that."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import click

from tools_search_conformance.cli.options import (
    CHECKS,
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
from tools_search_conformance.model import CELLS, CLIENT_PREFIX, FIXTURE_FEATURES, Cell, Run
from tools_search_conformance.report.document import read_document
from tools_search_conformance.report.terminal import answer_line, json_line, print_run, show_progress, without_routine
from tools_search_conformance.report.verdict import EXIT_SUITE, exit_status
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import UnknownCheckError
from tools_search_conformance.run.runner import no_progress
from tools_search_conformance.target.judge import judge_server, targets_of
from tools_search_conformance.wire.codec import JsonObject, as_object, same
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.display import number_of, plain
from tools_search_conformance.wire.eras import ERAS
from tools_search_conformance.wire.http import check_address
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

_EXIT_FAILING: Final = 1
_EXIT_TARGET: Final = 3

_OPENING: Final = frozenset({"server/discover", "initialize"})

_ERA: Final = click.option(
    "--era",
    type=click.Choice(["auto", *ERAS]),
    default="auto",
    help="Protocol revision; auto tests every one supported.",
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
  tools-search-conformance docs driver                     how to write a driver"""

_REPLAY_EXAMPLES: Final = """\b
Examples:
  tools-search-conformance replay conformance-report/failures/01-….json
  tools-search-conformance replay conformance-report/failures/01-….json -- node my_server.js

\b
Exit status:
  0  the check passes now
  1  it still fails
  2  usage error
  3  the suite could not start or connect to the target
  4  the suite itself failed"""


@click.command(cls=Command, epilog=_SERVER_EXAMPLES, short_help="Test a server over stdio, HTTP, or both.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="URL of a running Streamable HTTP server.")
@click.option(
    "--http-command",
    "http_argv",
    callback=words,
    help='Command that starts an HTTP server and prints {"url": "http://127.0.0.1:…"} as its first line.',
)
@_ERA
@click.option(
    "--profile",
    type=click.Choice(["fixture", "live"]),
    help="fixture: the server serves the catalog that TOOLS_SEARCH_CATALOG names (default if the suite starts it). "
    "live: the server serves its own tools, and the suite calls none of them (default for --url).",
)
@click.option(
    "--fixture-features",
    callback=fixture_features,
    metavar="LIST",
    help=f"Comma-separated features of the fixture beyond serving a catalog: {', '.join(FIXTURE_FEATURES)}.",
)
@with_options(SELECTION_OPTIONS, RUN_OPTIONS, START_OPTIONS, SERVER_OPTIONS)
def server(listing: bool, as_json: bool, progress: bool, **given: Any) -> None:
    """Test a server over stdio (`server -- ARGV`) or over Streamable HTTP (`--url` or `--http-command`).

    To test a server over both in one run, pass -- ARGV and --http-command.
    """
    options = options_of("server", given)
    http = bool(options.url or options.http_argv)
    named = bool(options.argv) or http
    if not (named or listing):
        raise click.UsageError("no server given: pass -- ARGV, --http-command or --url")
    if options.url and (options.argv or options.http_argv):
        raise click.UsageError("--url cannot be combined with -- ARGV or --http-command")
    if options.fixture_features and (options.url or options.profile == "live"):
        raise click.UsageError(
            "--fixture-features needs a fixture that the suite starts, without --url or --profile live"
        )
    if options.url:
        try:
            check_address(options.url, allow_remote=options.allow_remote)
        except TargetError as error:
            raise click.UsageError(str(error)) from error
    offered = {"stdio": bool(options.argv) or not named, "http": http or not named}
    cells = [cell for cell in CELLS if cell.era in options.eras and offered[cell.transport]]
    _judge(options, cells, judge_server, listing=listing, as_json=as_json, progress=progress)


@click.command(cls=Command, epilog=_CLIENT_EXAMPLES, short_help="Test a client, through a driver that you write.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--one-shot", is_flag=True, help="ARGV is not a driver but a client that follows the official MCP suite's contract."
)
@_ERA
@click.option("--transport", type=click.Choice(["auto", "stdio", "http"]), default="auto", help="Transport to test.")
@with_options(SELECTION_OPTIONS, RUN_OPTIONS, START_OPTIONS)
def client(listing: bool, as_json: bool, progress: bool, **given: Any) -> None:
    """Test a client: `client -- ARGV` starts its driver, a small program that you write.

    `tools-search-conformance docs driver` explains how to write one. `docs skeleton` prints one to fill in.
    """
    options = options_of("client", given)
    if not (options.argv or listing):
        raise click.UsageError("no driver given: pass -- ARGV")
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
    """Judge the target in `cells`, and end the program with the verdict; or list what would be run."""
    chosen, offered = {cell for _, cell in options.selection.pairs}, {cell.name for cell in cells}
    if not chosen & offered:
        selected = f"the selected checks run only in {', '.join(sorted(chosen))}"
        raise click.UsageError(f"{selected}, but this run covers {', '.join(sorted(offered))}")
    if listing:
        _list(options, cells, as_json=as_json)
        return
    writable_folder(options.out)
    total = sum(len(options.selection.wanted(cell)) for cell in cells)
    show = no_progress if as_json and not progress else show_progress(total, lines=progress)
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


@click.command(
    "replay",
    cls=Command,
    epilog=_REPLAY_EXAMPLES,
    short_help="Resend the requests of a failure and rerun its check.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="URL of another Streamable HTTP server.")
@click.option("--http-command", "http_argv", callback=words, help="Command that starts another HTTP server.")
@with_options(START_OPTIONS, SERVER_OPTIONS)
def replay(file: Path, **given: Any) -> None:
    """Resend the requests of a failure and rerun its check, with the same cases in the same cell.

    FILE comes from a report's `failures` folder. The same target is tested again, unless you pass `-- ARGV`,
    `--http-command` or `--url`. Reports do not store headers or environment variables, so pass those again.
    """
    failure = read_document(file, "failure")
    of_client = failure["check"].startswith(CLIENT_PREFIX)
    with TemporaryDirectory(prefix="tools-search-") as folder:
        given |= {"out": Path(folder), "effort": failure["effort"], "seed": failure["seed"]}
        options = _client_options(failure, given) if of_client else _server_options(failure, given)
        click.echo(f"check    {failure['check']}  ({failure['cell']}, seed {failure['seed']})")
        click.echo(f"then     {failure['status']}: {plain(failure['message'])}")
        if failure.get("case", "") not in failure["message"]:
            click.echo(f"case     {plain(failure['case'])}")
        if not of_client:
            anyio.run(_send_again, failure, options)
        run = anyio.run(judge_client if of_client else judge_server, options)
    sys.exit(_outcome(run, failure))


def _server_options(failure: JsonObject, given: dict[str, Any]) -> Options:
    transport: str = failure["transport"]
    then: Mapping[str, Any] = failure["target"]
    if not (given["argv"] or given["url"] or given["http_argv"]):
        given["url"] = then.get("url")
        given["argv" if transport == "stdio" else "http_argv"] = tuple(then.get("argv", ()))
        given["cwd"] = given["cwd"] or then.get("cwd")
    if (transport == "stdio") != bool(given["argv"]) or (given["url"] and given["http_argv"]):
        wanted = "-- ARGV" if transport == "stdio" else "either --http-command or --url"
        raise click.UsageError(f"this failure comes from {transport}: to test another target, pass {wanted}")
    features = frozenset(then.get("fixtureFeatures", ()))
    return _options_again("server", failure, given | {"profile": failure["profile"], "fixture_features": features})


def _client_options(failure: JsonObject, given: dict[str, Any]) -> Options:
    if given["url"] or given["http_argv"]:
        raise click.UsageError("this failure comes from a client: to test another driver, pass -- ARGV")
    then: Mapping[str, Any] = failure["target"]
    own = {"era": failure["era"], "transport": failure["transport"], "one_shot": then.get("oneShot", False)}
    if not given["argv"]:
        own |= {"argv": tuple(then["argv"]), "cwd": given["cwd"] or then.get("cwd")}
    return _options_again("client", failure, given | own)


def _options_again(party: str, failure: JsonObject, given: Mapping[str, Any]) -> Options:
    try:
        return Options(selection=CHECKS[party].select([failure["check"]], cells=[failure["cell"]]), **given)
    except UnknownCheckError as error:
        raise click.UsageError(f"this version of the suite has no check {failure['check']}") from error


async def _send_again(failure: JsonObject, options: Options) -> None:
    """Send the requests of a server's failure again, on one fresh connection, and print each answer then and now."""
    refused: TargetError | None = None
    async with anyio.create_task_group() as tasks:
        (target,) = targets_of(options, tasks, options.out)
        recorder = Recorder(failure["cell"])
        catalog: str | JsonObject = failure.get("catalog", "core")
        if not isinstance(catalog, str):
            target.place("replayed", catalog)
            catalog = "replayed"
        try:
            fixture = catalog if options.effective_profile == "fixture" else None
            transport = await target.connect(recorder.note, fixture)
            async with aclosing(Connection(transport, failure["era"], recorder)) as connection:
                await connection.open(options.start_timeout)
                await _send_all(failure, connection, options.timeout)
        except (TargetError, RefusedError) as error:
            refused = TargetError(str(error))  # raised outside the group, which would wrap it
        finally:
            with anyio.CancelScope(shield=True):
                await target.aclose()
        tasks.cancel_scope.cancel()
    if refused is not None:
        raise refused


async def _send_all(failure: JsonObject, connection: Connection, seconds: float) -> None:
    """Send the requests in their order; a cursor is replaced by the one that the same request brings now."""
    cursors: dict[str, Any] = {}
    for request in failure["requests"]:
        sent: JsonObject = request["sent"]
        params = as_object(sent.get("params")) or {}
        if sent.get("method") in _OPENING and connection.opening is not None:
            exchange = connection.opening
        else:
            if params.get("cursor") in cursors:
                sent = {**sent, "params": {**params, "cursor": cursors[params["cursor"]]}}
            exchange = await connection.resend(sent, request.get("headers", {}), seconds=seconds)
        then, now = request["answer"], exchange.to_json()["answer"]
        issued = _result(then).get("nextCursor")
        if isinstance(issued, str):
            cursors[issued] = _result(now).get("nextCursor", issued)
        click.echo(f"\nsent     {json_line(without_routine(exchange.sent))}")
        click.echo(f"then     {answer_line(then)}\nnow      {answer_line(now)}")
        click.echo(f"         {'same answer' if _same_answer(then, now) else 'different answer'}")


def _result(answer: JsonObject) -> JsonObject:
    return as_object((as_object(answer.get("message")) or {}).get("result")) or {}


def _same_answer(one: JsonObject, other: JsonObject) -> bool:
    """Return whether two answers are the same apart from their cursors."""

    def without_cursor(answer: JsonObject) -> JsonObject:
        message = as_object(answer.get("message")) or {}
        kept = {name: value for name, value in _result(answer).items() if name != "nextCursor"}
        return {**message, "result": kept} if as_object(message.get("result")) is not None else message

    if one.get("message") is not None and one.get("status") != other["status"]:
        return False
    return same(without_cursor(one), without_cursor(other))


def _outcome(run: Run, failure: JsonObject) -> int:
    click.echo()
    result = next((result for result in run.results if result.cell.name == failure["cell"]), None)
    if result is None or result.status == "skip":
        reasons = result.message if result else "; ".join(entry.reason for entry in run.unavailable)
        click.echo(f"NOT RUN: {plain(reasons) or 'the run did not reach this cell'}")
        return _EXIT_TARGET
    outcomes = {"pass": "PASSES NOW", "error": "NO VERDICT", "advice": "ADVICE STILL NOT TAKEN"}
    outcome = outcomes.get(result.status, "STILL FAILING")
    click.echo(f"{outcome}{result.message and ': '}{plain(result.message)}")
    return {"pass": 0, "error": EXIT_SUITE}.get(result.status, _EXIT_FAILING)
