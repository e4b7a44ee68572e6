"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import errno
import os
import secrets
import shlex
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, TypeVar

import click

from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.model import LEVELS, FixtureFeature
from tools_search_conformance.report.document import ReportError, read_report
from tools_search_conformance.run.baseline import Baseline, BaselineError, read_baseline
from tools_search_conformance.run.options import features_named
from tools_search_conformance.run.registry import Criteria, Registry, UnknownCheckError

_Command = TypeVar("_Command", bound=Callable[..., Any])


class TargetMissingError(click.ClickException):
    """The target cannot be started or spoken to."""

    exit_code = 3


def name_value_pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return `NAME=VALUE` options, or headers, `NAME:VALUE`, as a mapping.

    Raises:
        BadParameter: One is neither.
    """
    separator = ":" if parameter.name == "headers" else "="
    read: dict[str, str] = {}
    for value in values:
        name, found, rest = value.partition(separator)
        if not found or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME{separator}VALUE")
        read[name.strip()] = rest.strip() if separator == ":" else rest
    return read


def words(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return a command as its words, none where there is no command; no shell ever sees it.

    Raises:
        BadParameter: It is empty, or cannot be split.
    """
    try:
        argv = tuple(shlex.split(value or ""))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} cannot be split into words: {error}") from error
    if value is not None and not argv:
        raise click.BadParameter("the command is empty")
    return argv


def fixture_features(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[FixtureFeature]:
    """Return the fixture features of a list with commas between.

    Raises:
        BadParameter: One does not exist.
    """
    try:
        return features_named(name.strip() for name in (value or "").split(",") if name.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _baseline(context: click.Context, _: click.Parameter, value: str | None) -> Baseline:
    if value is None:
        return Baseline()
    try:
        return read_baseline(Path(value), (CLIENT_CHECKS if context.info_name == "client" else SERVER_CHECKS).all)
    except BaselineError as error:
        raise click.BadParameter(str(error)) from error


def writable_folder(out: Path) -> None:
    """Make the folder for reports, before anything is run.

    Raises:
        UsageError: Nothing can be written there.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        message = f"the folder for the reports, {str(out)!r}, cannot be written: {reason}."
        raise click.UsageError(f"{message} Name another one, such as --out {Path(gettempdir(), out.name)}.")


_SELECTION: Final = (
    click.option(
        "--only", multiple=True, metavar="CHECK", help="Run only this check; a glob; repeatable, as all of these."
    ),
    click.option(
        "--requirement", multiple=True, metavar="ROW", help="Run only the checks of this row, such as R-PAG-*."
    ),
    click.option(
        "--section",
        multiple=True,
        metavar="ANCHOR",
        help="Run only the checks of this section of the draft or a guide.",
    ),
    click.option(
        "--level",
        multiple=True,
        type=click.Choice(LEVELS, case_sensitive=False),
        help="Run only checks that are as binding as this; ADVICE binds nobody.",
    ),
    click.option("--cell", multiple=True, metavar="CELL", help="Run only in this cell, such as stdio-2026*, or http."),
    click.option(
        "--failed-from",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="REPORT.json",
        help="Run only what did not pass in this run.",
    ),
    click.option("--list", "listing", is_flag=True, help="Print what would be run, and run nothing."),
)

_RUN: Final = (
    click.option("--strict", is_flag=True, help="Let recommendations of the draft count as well; advice never does."),
    click.option(
        "--baseline",
        callback=_baseline,
        metavar="FILE",
        help="YAML list of checks that are known not to pass, each with a reason; one that passes fails the run.",
    ),
    click.option(
        "--effort", type=click.Choice(["quick", "default", "deep"]), default="default", help="How many generated cases."
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=lambda: secrets.randbelow(2**32),
        help="Repeat a run's generated cases.",
    ),
    click.option(
        "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-report"),
        show_default=True, help="Folder for the reports and the wire log.",
    ),
    click.option(
        "--sep", type=click.IntRange(min=1), metavar="N", help="Name checks in checks.json as `trace --sep N` does."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON."),
    click.option(
        "--progress", is_flag=True, help="Write a line for each check to standard error, even if it is no terminal."
    ),
)  # fmt: skip

_START: Final = (
    click.option(
        "--timeout", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
        help="Seconds for one request, or one operation of a driver.",
    ),
    click.option(
        "--start-timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Seconds to start."
    ),
    click.option(
        "--env", multiple=True, callback=name_value_pairs, metavar="NAME=VALUE",
        help="Environment variable of the program that is started.",
    ),
    click.option(
        "--cwd", type=click.Path(exists=True, file_okay=False), help="Working directory of the program that is started."
    ),
)  # fmt: skip

_SERVER: Final = (
    click.option(
        "--header", "headers", multiple=True, callback=name_value_pairs, metavar="NAME:VALUE",
        help="HTTP header of each request.",
    ),
    click.option("--allow-remote", is_flag=True, help="Speak to another machine."),
)  # fmt: skip


def start_options(command: _Command) -> _Command:
    """Give a command the options by which a program is started and waited for."""
    return _with(command, _START)


def server_options(command: _Command) -> _Command:
    """Give a command the options by which a server is started and spoken to."""
    return _with(command, (*_START, *_SERVER))


def run_options(registry: Registry[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a run; the checks that they choose of a registry become its option `selection`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            try:
                criteria = Criteria(
                    checks=given.pop("only"),
                    requirements=given.pop("requirement"),
                    sections=given.pop("section"),
                    levels=given.pop("level"),
                    cells=given.pop("cell"),
                    reports=[read_report(path) for path in given.pop("failed_from")],
                )
                selection = registry.choose(criteria)
            except (UnknownCheckError, ReportError) as error:
                raise click.UsageError(str(error)) from error
            command(selection=selection, **given)

        return _with(run, (*_SELECTION, *_RUN))

    return decorate


def _with(command: _Command, options: Sequence[Callable[[_Command], _Command]]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command
