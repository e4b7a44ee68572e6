"""The command `replay`: a failure's requests on a fresh connection, then its check with the same cases, in its cell."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import click

from tools_search_conformance.cli.options import CHECKS, SERVER_OPTIONS, START_OPTIONS, Command, with_options, words
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.model import CLIENT_PREFIX, SERVER_PREFIX, Run
from tools_search_conformance.report.document import read_document
from tools_search_conformance.report.terminal import answer_line, json_line, without_routine
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import UnknownCheckError
from tools_search_conformance.target.judge import judge_server, targets_of
from tools_search_conformance.wire.codec import JsonObject, as_object, same
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

_EXIT_FAILING: Final = 1
_EXIT_TARGET: Final = 3
_EXIT_SUITE: Final = 4

_OPENING: Final = frozenset({"server/discover", "initialize"})

_EPILOG: Final = """\b
Examples:
  tools-search-conformance replay conformance-report/failures/01-….json
  tools-search-conformance replay conformance-report/failures/01-….json -- node my_server.js

\b
Exit status:
  0  it passes now
  1  it still fails
  2  wrong usage
  3  the target could not be started or spoken to"""


@click.command(
    "replay", cls=Command, epilog=_EPILOG, short_help="Send the requests of a failure again and judge them again."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="Address of another server, over Streamable HTTP.")
@click.option("--http-command", "http_argv", callback=words, help="Command of another HTTP server.")
@with_options(START_OPTIONS, SERVER_OPTIONS)
def replay(file: Path, **given: Any) -> None:
    """Send the requests of a failure again and run its check again, with the same cases in the same cell.

    FILE is one in the folder `failures` of a report. The target is started as it was, or as `-- ARGV`,
    `--http-command` or `--url` say; headers and environment were not kept and have to be given again.
    """
    failure = read_document(file, "failure")
    of_client = failure["check"].startswith(CLIENT_PREFIX)
    with TemporaryDirectory(prefix="tools-search-") as folder:
        given |= {"out": Path(folder), "effort": failure["effort"], "seed": failure["seed"]}
        options = _client_options(failure, given) if of_client else _server_options(failure, given)
        click.echo(f"check    {failure['check']}  ({failure['cell']}, seed {failure['seed']})")
        click.echo(f"then     {failure['status']}: {plain(failure['message'])}")
        if "case" in failure:
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
    if (transport == "stdio") != bool(given["argv"]) or (given["url"] and given["http_argv"]):
        wanted = "-- ARGV" if transport == "stdio" else "one of --http-command and --url"
        raise click.UsageError(f"the failure is one over {transport}: name another target by {wanted}")
    # Advertising in one era is judged against the other era.
    era = "auto" if failure["check"].startswith(f"{SERVER_PREFIX}advertised") else failure["era"]
    return _options("server", failure, given | {"era": era, "profile": failure["profile"]})


def _client_options(failure: JsonObject, given: dict[str, Any]) -> Options:
    if given["url"] or given["http_argv"]:
        raise click.UsageError("the failure is one of a client: name another driver by -- ARGV")
    then: Mapping[str, Any] = failure["target"]
    own = {"era": failure["era"], "transport": failure["transport"], "one_shot": then.get("oneShot", False)}
    return _options("client", failure, given | own | {"argv": given["argv"] or tuple(then["argv"])})


def _options(party: str, failure: JsonObject, given: Mapping[str, Any]) -> Options:
    try:
        return Options(selection=CHECKS[party].select([failure["check"]]), **given)
    except UnknownCheckError as error:
        raise click.UsageError(f"this version of the suite has no check {failure['check']}") from error


async def _send_again(failure: JsonObject, options: Options) -> None:
    """Send the requests of a server's failure again, on one fresh connection, and print each answer then and now.

    Raises:
        TargetError: The target cannot be reached, or no longer speaks the era.
    """
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
            connection = Connection(await target.connect(recorder.note, fixture), failure["era"], recorder)
            try:
                await connection.open(options.start_timeout)
                await _send_all(failure, connection, options.timeout)
            finally:
                await connection.aclose()
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
        click.echo(f"         {'the same answer' if _same_answer(then, now) else 'another answer'}")


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
    if result is None:
        reasons = "; ".join(entry.reason for entry in run.unavailable)
        click.echo(f"NOT RUN: {plain(reasons) or 'the cell is not there'}")
        return _EXIT_TARGET
    outcomes = {"pass": "PASSES NOW", "error": "NO VERDICT", "advice": "STILL NOT TAKEN"}
    outcome = outcomes.get(result.status, "STILL FAILING")
    click.echo(f"{outcome}{result.message and ': '}{plain(result.message)}")
    return {"pass": 0, "error": _EXIT_SUITE}.get(result.status, _EXIT_FAILING)
