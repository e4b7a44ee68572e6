"""The command `tools-search-conformance`: arguments in, exit status out."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio
import click

from tools_search_conformance.baseline import Baseline, BaselineError, read_baseline
from tools_search_conformance.catalogue import checks_page
from tools_search_conformance.checks import registered
from tools_search_conformance.choosing import refuse_nothing, selection_options, show_selection
from tools_search_conformance.clients.checks import client_checks
from tools_search_conformance.clients.judge import ClientOptions, judge_client
from tools_search_conformance.explain import explain_check, list_checks, run_version
from tools_search_conformance.invocation import Options, features_named, judge_servers
from tools_search_conformance.model import CELLS, FIXTURE_FEATURES, Cell, FixtureFeature, Result, Run
from tools_search_conformance.mutants import MutantsError, read_power
from tools_search_conformance.option_values import pairs, reaching_options, words
from tools_search_conformance.replay_command import replay
from tools_search_conformance.report.plain import plain
from tools_search_conformance.report.terminal import print_progress, print_run
from tools_search_conformance.report.verdict import EXIT_SIGNAL, exit_status
from tools_search_conformance.reporting import report_at, report_group
from tools_search_conformance.selection import Selection, UnknownCheckError, choose_checks
from tools_search_conformance.trace import sep_file, trace, trace_text
from tools_search_conformance.wire.eras import ERAS
from tools_search_conformance.wire.http import check_address
from tools_search_conformance.wire.process import TargetError

__all__ = ["main"]

EXIT_USAGE: Final = 2
EXIT_TARGET: Final = 3
EXIT_SUITE: Final = 4


# https://no-color.org
_COLOUR: Final = False if os.environ.get("NO_COLOR") else None


@click.group(context_settings={"help_option_names": ["-h", "--help"], "color": _COLOUR})
@click.version_option(run_version(), prog_name="tools-search-conformance")
def cli() -> None:
    r"""Judge an implementation of the `tools/search` extension by what it puts on the wire.

    \b
    Exit status:
      0  conformant, or every check that was chosen passed
      1  not conformant
      2  wrong usage
      3  the target could not be started or spoken to, or does not offer the extension
      4  the suite itself failed
      128 and more  a signal interrupted it: 130 is Ctrl-C
    """


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


@cli.command("server")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="Address of a server that is running already, over Streamable HTTP.")
@click.option(
    "--http-command",
    callback=words,
    help='Command of an HTTP server; its first line is {"url": "http://127.0.0.1:…"}.',
)
@click.option(
    "--era", type=click.Choice(["auto", *ERAS]), default="auto", help="Protocol revision; auto is every one spoken."
)
@click.option(
    "--profile",
    type=click.Choice(["fixture", "live"]),
    help="fixture: the server serves the catalogue named by TOOLS_SEARCH_CATALOG (default for servers started here); "
    "live: it serves its own tools, and none is called (default for --url).",
)
@click.option(
    "--fixture-features",
    callback=_features,
    metavar="LIST",
    help=f"What the fixture can do beyond serving a catalogue, with commas between: {', '.join(FIXTURE_FEATURES)}.",
)
@selection_options(registered)
@click.option(
    "--baseline",
    callback=_baseline,
    metavar="FILE",
    help="YAML list of checks that are known not to pass, each with a reason; one that passes after all fails the run.",
)
@click.option(
    "--effort", type=click.Choice(["quick", "default", "deep"]), default="default", help="How many generated cases."
)
@click.option("--seed", type=click.IntRange(min=0), help="Repeat a run's generated cases.")
@reaching_options
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-report"), show_default=True,
    help="Folder for the reports and the wire log.",
)  # fmt: skip
@click.option(
    "--sep", type=click.IntRange(min=1), metavar="N", help="Name checks in checks.json as `trace --sep N` does."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def server(
    argv: tuple[str, ...],
    url: str | None,
    http_command: tuple[str, ...],
    selection: Selection,
    listing: bool,
    seed: int | None,
    out: Path,
    as_json: bool,
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
        seed=secrets.randbelow(2**32) if seed is None else seed,
        out=out,
        **rest,
    )
    transports = {"stdio": bool(argv) or not named, "http": bool(url or http_command) or not named}
    cells = [cell for cell in _cells(rest["era"]) if transports[cell.transport]]
    refuse_nothing(selection, cells)
    if listing:
        show_selection(selection, cells, options.effective_profile, as_json=as_json)
        return
    _finish(_run(lambda progress: judge_servers(options, progress), quiet=as_json), as_json=as_json, out=out)


@cli.command("client")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--one-shot", is_flag=True, help="ARGV is no driver but a client after the contract of the official MCP suite."
)
@click.option(
    "--era", type=click.Choice(["auto", *ERAS]), default="auto", help="Protocol revision; auto is every one spoken."
)
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
@click.option(
    "--effort", type=click.Choice(["quick", "default", "deep"]), default="default", help="How many generated cases."
)
@click.option("--seed", type=click.IntRange(min=0), callback=_seed, help="Repeat a run's generated cases.")
@click.option(
    "--baseline",
    callback=_baseline,
    metavar="FILE",
    help="YAML list of checks that are known not to pass, each with a reason; one that passes after all fails the run.",
)
@click.option("--env", multiple=True, callback=pairs, metavar="NAME=VALUE", help="Environment variable of the driver.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Working directory of the driver.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-report"), show_default=True,
    help="Folder for the reports and the wire log.",
)  # fmt: skip
@click.option(
    "--sep", type=click.IntRange(min=1), metavar="N", help="Name checks in checks.json as `trace --sep N` does."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def client(argv: tuple[str, ...], selection: Selection, listing: bool, out: Path, as_json: bool, **rest: Any) -> None:
    """Judge a client: `client -- ARGV` starts its driver, which conformance/DRIVER.md describes."""
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
    _finish(_run(lambda progress: judge_client(options, progress), quiet=as_json), as_json=as_json, out=out)


def _cells(era: str) -> list[Cell]:
    return [cell for cell in CELLS if era in ("auto", cell.era)]


def _see_to_address(url: str, *, allow_remote: bool) -> None:
    try:
        check_address(url, allow_remote=allow_remote)
    except TargetError as error:
        raise click.UsageError(str(error)) from error


def _run(judge: Callable[[Callable[[Result], None]], Awaitable[Run]], *, quiet: bool) -> Run:
    def progress(result: Result) -> None:
        if not quiet:
            print_progress(result)

    try:
        return anyio.run(judge, progress)
    except TargetError as error:
        click.echo(f"tools-search-conformance: {plain(str(error))}", err=True)
        sys.exit(EXIT_TARGET)
    except KeyboardInterrupt:  # before the run began to listen to signals, or a second time
        click.echo("tools-search-conformance: interrupted", err=True)
        sys.exit(EXIT_SIGNAL + signal.SIGINT)


def _finish(run: Run, *, as_json: bool, out: Path) -> None:
    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"), nl=False)
    else:
        print_run(run, out)
    sys.exit(exit_status(run))


cli.add_command(replay)


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--markdown", is_flag=True, help="Print the page conformance/CHECKS.md, with the sentences of the draft.")
@click.option(
    "--mutants",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Show on that page which mutants the checks find; conformance/tests/mutants of the sources.",
)
def list_command(as_json: bool, markdown: bool, mutants: Path | None) -> None:
    """List the checks: id, level and title."""
    every = (*registered(), *client_checks())
    if markdown:
        try:
            click.echo(checks_page(every, read_power(mutants) if mutants else None), nl=False)
        except MutantsError as error:
            raise click.UsageError(str(error)) from error
        return
    entries = list_checks(every)
    if as_json:
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    for entry in entries:
        click.echo(f"{entry['level']:6}  {entry['id']}\n        {entry['title']}")


@cli.command("explain")
@click.argument("check")
def explain(check: str) -> None:
    """Explain a check: the sentences of the draft behind it, what is sent, what passes."""
    try:
        found = choose_checks([check], (*registered(), *client_checks()))
    except UnknownCheckError as error:
        raise click.UsageError(str(error)) from error
    for each in found:
        click.echo(explain_check(each))


@cli.command("trace")
@click.argument("report", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option(
    "--sep", type=click.IntRange(min=1), metavar="N", help="Print the rows as the official suite's sep-N.yaml."
)
def trace_command(report: Path | None, as_json: bool, sep: int | None) -> None:
    """Show for each sentence of the draft what decides it and, with a REPORT.json, what came of that."""
    if sep is not None:
        click.echo(sep_file(sep), nl=False)
        return
    rows = trace(report_at(report) if report else None)
    click.echo(json.dumps(rows, indent=2, ensure_ascii=False) if as_json else trace_text(rows))


cli.add_command(report_group)


def _keep_the_folder_clean() -> None:
    """Have Hypothesis keep its tables among the user's caches instead of where the command is typed."""
    with suppress(RuntimeError):  # a user without a home
        caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(caches, "tools-search-conformance")))


def _causes(error: Exception) -> list[Exception]:
    """Return what went wrong where several tasks ran; the group that carries it says nothing."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    several: ExceptionGroup[Exception] = error  # pyright: ignore[reportUnknownVariableType] - of exceptions, whichever
    return [cause for each in several.exceptions for cause in _causes(each)]


def main() -> None:
    """Run the command; whatever the suite itself gets wrong ends in exit status 4."""
    _keep_the_folder_clean()
    try:
        cli()
    except Exception as error:
        for cause in _causes(error):
            click.echo(f"tools-search-conformance: the suite failed: {type(cause).__name__}: {cause}", err=True)
        sys.exit(EXIT_SUITE)
