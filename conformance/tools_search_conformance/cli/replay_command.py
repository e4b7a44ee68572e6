"""The command `replay`: a failure file in, then and now side by side, exit status out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import click

from tools_search_conformance.checks import select
from tools_search_conformance.cli.option_values import TargetMissingError, reaching_options, words
from tools_search_conformance.clients.checks import select_client_checks
from tools_search_conformance.clients.judge import ClientOptions
from tools_search_conformance.model import CHECK_PREFIX, Result, Run
from tools_search_conformance.report.plain import plain
from tools_search_conformance.report.terminal import without_routine
from tools_search_conformance.run.invocation import Options
from tools_search_conformance.run.registry import UnknownCheckError
from tools_search_conformance.run.replaying import (
    Failure,
    FailureFileError,
    Repeated,
    judge_again,
    read_failure,
    same_answer,
    send_again,
)
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Answer

__all__ = ["replay"]

_EXIT_FAILING: Final = 1
_EXIT_TARGET: Final = 3
_EXIT_SUITE: Final = 4
_WIDTH: Final = 600


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


@click.command("replay", epilog=_EPILOG, short_help="Send the requests of a failure again and judge them again.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="Address of another server, over Streamable HTTP.")
@click.option("--http-command", callback=words, help="Command of another HTTP server.")
@reaching_options
def replay(file: Path, argv: tuple[str, ...], **given: Any) -> None:
    """Send the requests of a failure again and run its check again, with the same cases in the same cell.

    FILE is one of those in the folder `failures` of a report. The target is started as it was, or as `-- ARGV`,
    `--http-command` or `--url` say; headers and environment were not kept and have to be given again.
    """
    failure = _failure(file)
    options = _client(failure, argv, given) if failure.of_client else _server(failure, argv, given)
    click.echo(f"check    {failure.check}  ({failure.cell.name}, seed {failure.told['seed']})")
    click.echo(f"then     {failure.told['status']}: {plain(failure.told['message'])}")
    if "case" in failure.told:
        click.echo(f"case     {plain(failure.told['case'])}")
    try:
        if isinstance(options, Options):
            for each in anyio.run(send_again, failure, options):
                _print_repeated(each)
        run, result = anyio.run(judge_again, options, failure)
    except TargetError as error:
        raise TargetMissingError(plain(str(error))) from error
    sys.exit(_told(run, result))


def _failure(file: Path) -> Failure:
    try:
        return read_failure(file)
    except FailureFileError as error:
        raise click.UsageError(plain(str(error))) from error


def _server(failure: Failure, argv: tuple[str, ...], given: Mapping[str, Any]) -> Options:
    then: Mapping[str, Any] = failure.told["target"]
    url, http_argv = given["url"], given["http_command"]
    if not (argv or url or http_argv):
        recorded = tuple(then.get("argv", ()))
        url = then.get("url")
        argv, http_argv = (recorded, ()) if failure.cell.transport == "stdio" else ((), recorded)
    if (failure.cell.transport == "stdio") != bool(argv) or (url and http_argv):
        wanted = "-- ARGV" if failure.cell.transport == "stdio" else "one of --http-command and --url"
        raise click.UsageError(f"the failure is one over {failure.cell.transport}: name another target by {wanted}")
    return Options(
        checks=_chosen(select, failure),
        out=Path(),  # nothing of it is kept
        argv=argv,
        url=url,
        http_argv=http_argv,
        # Whether it advertises the extension in one era is judged by its doing so in the other.
        era="auto" if failure.check.startswith(f"{CHECK_PREFIX}advertised") else failure.cell.era,
        profile=failure.told["profile"],
        effort=failure.told["effort"],
        seed=failure.told["seed"],
        timeout=given["timeout"],
        start_timeout=given["start_timeout"],
        headers=given["headers"],
        env=given["env"],
        cwd=given["cwd"],
        allow_remote=given["allow_remote"],
    )


def _client(failure: Failure, argv: tuple[str, ...], given: Mapping[str, Any]) -> ClientOptions:
    then: Mapping[str, Any] = failure.told["target"]
    if given["url"] or given["http_command"]:
        raise click.UsageError("the failure is one of a client: name another driver by -- ARGV")
    return ClientOptions(
        checks=_chosen(select_client_checks, failure),
        out=Path(),
        argv=argv or tuple(then["argv"]),
        one_shot=then.get("oneShot", False),
        era=failure.cell.era,
        transport=failure.cell.transport,
        seed=failure.told["seed"],
        timeout=given["timeout"],
        start_timeout=given["start_timeout"],
        env=given["env"],
        cwd=given["cwd"],
    )


def _chosen(choose: Any, failure: Failure) -> Any:
    try:
        return choose([failure.check])
    except UnknownCheckError as error:
        raise click.UsageError(f"this version of the suite has no check {failure.check}") from error


def _print_repeated(each: Repeated) -> None:
    click.echo()
    click.echo(f"sent     {_short(without_routine(each.sent))}")
    click.echo(f"then     {_shown(each.then)}")
    click.echo(f"now      {_shown(each.now)}")
    click.echo(f"         {'the same answer' if same_answer(each.then, each.now) else 'another answer'}")


def _shown(answer: Answer) -> str:
    status = f"HTTP {answer.status} " if answer.status is not None else ""
    shown = _short(answer.message) if answer.message is not None else f"no response: {plain(str(answer.fault))}"
    return status + shown


def _short(value: Any) -> str:
    return plain(json.dumps(value, ensure_ascii=False), most=_WIDTH)


def _told(run: Run, result: Result | None) -> int:
    click.echo()
    if result is None:
        reasons = "; ".join(entry.reason for entry in run.unavailable)
        click.echo(f"NOT RUN: {plain(reasons) or 'the cell is not there'}")
        return _EXIT_TARGET
    verdicts = {"pass": "PASSES NOW", "error": "NO VERDICT", "advice": "STILL NOT TAKEN"}
    told = verdicts.get(result.status, "STILL FAILING")
    click.echo(f"{told}{result.message and ': '}{plain(result.message)}")
    return {"pass": 0, "error": _EXIT_SUITE}.get(result.status, _EXIT_FAILING)
