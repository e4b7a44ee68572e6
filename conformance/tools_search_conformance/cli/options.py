"""Options shared by several commands, how their values are parsed, and how usage errors are shown."""

from __future__ import annotations

import errno
import math
import os
import secrets
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, TypeVar, get_args

import click

from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.model import LEVELS, Effort, FixtureFeature
from tools_search_conformance.report.checks_page import MutantsError
from tools_search_conformance.report.document import ReportError, read_document
from tools_search_conformance.run.baseline import BaselineError, Entry, read_baseline
from tools_search_conformance.run.options import Options, features_named
from tools_search_conformance.run.registry import UnknownCheckError
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.http_client import authorities
from tools_search_conformance.wire.process import TargetError

_Command = TypeVar("_Command", bound=Callable[..., Any])

CHECKS: Final = {"server": SERVER_CHECKS, "client": CLIENT_CHECKS}
"""The checks of each party, by the name of its command."""


class TargetMissingError(click.ClickException):
    """The target cannot be started or reached."""

    exit_code = 3


class Command(click.Command):
    """A command that shows problems with its arguments, files and target like Click's usage errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises `TargetMissingError` for problems with the target, and `UsageError` for others."""
        try:
            return super().invoke(ctx)
        except (UnknownCheckError, ReportError, MutantsError) as error:
            raise click.UsageError(str(error), ctx) from error
        except TargetError as error:
            raise TargetMissingError(plain(str(error))) from error


def name_value_pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return `NAME=VALUE` options, or `NAME:VALUE` headers, as a mapping. Raises `BadParameter` for other forms.

    A variable given by its name alone has its value in this environment.
    """
    separator = ":" if parameter.name == "headers" else "="
    read: dict[str, str] = {}
    for value in values:
        name, found, rest = value.partition(separator)
        if not found and separator == "=" and name.strip():
            if name not in os.environ:
                raise click.BadParameter(f"{name} is not set in this environment; pass {name}=VALUE")
            found, rest = separator, os.environ[name]
        if not found or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME{separator}VALUE")
        read[name.strip()] = rest.strip() if separator == ":" else rest
    return read


def _authorities(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        if value:
            authorities(value)
    except OSError as error:
        raise click.BadParameter(str(error)) from error
    return value


def words(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Split a command into words without a shell; an absent one has none. Raises `BadParameter`."""
    try:
        argv = tuple(shlex.split(value or ""))
    except ValueError as error:
        raise click.BadParameter(f"cannot split {value!r} into words: {error}") from error
    if value is not None and not argv:
        raise click.BadParameter("the command is empty")
    return argv


def fixture_features(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[FixtureFeature]:
    """Return the fixture features in a comma-separated list. Raises `BadParameter` for unknown ones."""
    try:
        return features_named(name.strip() for name in (value or "").split(",") if name.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _baseline(context: click.Context, _: click.Parameter, value: str | None) -> tuple[Entry, ...]:
    try:
        return read_baseline(Path(value), CHECKS[str(context.info_name)].all) if value is not None else ()
    except BaselineError as error:
        raise click.BadParameter(str(error)) from error


def writable_folder(out: Path) -> None:
    """Create the folder for reports before anything is run. Raises `UsageError` if it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        message = f"cannot write to the report folder {str(out)!r}: {reason}."
        raise click.UsageError(f"{message} Choose another one, such as --out {Path(gettempdir(), out.name)}.")


class _SecondsRange(click.FloatRange):
    """A range without NaN, which Click takes to be in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = super().convert(value, param, ctx)
        return self.fail(f"{value!r} is not a number.", param, ctx) if math.isnan(seconds) else seconds


_repeatable = partial(click.option, multiple=True)
_flag = partial(click.option, is_flag=True)
_seconds = partial(click.option, type=_SecondsRange(min=0.1), show_default=True)
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

SELECTION_OPTIONS: Final = (
    _repeatable("--only", metavar="CHECK", help="Run only this check (or glob). Repeatable, like all these filters."),
    _repeatable("--requirement", metavar="ROW", help="Run only the checks of this requirement row, such as R-PAG-*."),
    _repeatable("--section", metavar="ANCHOR", help="Run only the checks of this section of the draft or a guide."),
    _repeatable(
        "--level", type=click.Choice(LEVELS, case_sensitive=False),
        help="Run only checks of this level. ADVICE is not binding.",
    ),
    _repeatable("--cell", metavar="CELL", help="Run only in this cell, such as stdio-2026* or http."),
    _repeatable(
        "--failed-from", type=_FILE, metavar="REPORT.json", help="Run only what did not pass in this report."
    ),
    _flag("--list", "listing", help="List what would run, without running it."),
)  # fmt: skip

RUN_OPTIONS: Final = (
    _flag("--strict", help="Count the draft's recommendations too. Advice never counts."),
    click.option(
        "--baseline", callback=_baseline, metavar="FILE",
        help="YAML list of checks known not to pass, each with a reason. A listed check that passes fails the run.",
    ),
    click.option(
        "--effort", type=click.Choice(get_args(Effort)), default="default", help="How many cases to generate."
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), default=lambda: secrets.randbelow(2**32),
        help="Generate the same cases as the run with this seed.",
    ),
    click.option(
        "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-report"),
        show_default=True, help="Folder for the reports and the wire log.",
    ),
    click.option(
        "--sep", type=click.IntRange(min=1), metavar="N", help="In checks.json, name checks as `trace --sep N` does."
    ),
    _flag("--json", "as_json", help="Print the report as JSON."),
    _flag("--progress", help="Write a line for each check to standard error, even if it is not a terminal."),
)  # fmt: skip

START_OPTIONS: Final = (
    _seconds("--timeout", default=10.0, help="Seconds to wait for one request or driver operation."),
    _seconds("--start-timeout", default=60.0, help="Seconds to wait for the target to start."),
    _repeatable(
        "--env",
        callback=name_value_pairs,
        metavar="NAME[=VALUE]",
        help="Environment variable for the started program. NAME alone passes on its current value.",
    ),
    click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        help="Working directory of the started program.",
    ),
)

SERVER_OPTIONS: Final = (
    _repeatable(
        "--header", "headers", callback=name_value_pairs, metavar="NAME:VALUE", help="HTTP header for each request."
    ),
    _flag("--allow-remote", help="Allow a server on another machine."),
    click.option(
        "--ca-file", type=click.Path(exists=True, dir_okay=False), callback=_authorities, metavar="FILE",
        help="PEM file of additional certificate authorities to trust, besides those in SSL_CERT_FILE.",
    ),
)  # fmt: skip


def with_options(*groups: Sequence[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds these groups of options to a command."""

    def decorate(command: _Command) -> _Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


def options_of(party: str, given: dict[str, Any]) -> Options:
    """Return the options of a run for a party. Raises `UnknownCheckError` or `ReportError`."""
    selection = CHECKS[party].select(
        given.pop("only"),
        requirements=given.pop("requirement"),
        sections=given.pop("section"),
        levels=given.pop("level"),
        cells=given.pop("cell"),
        reports=[read_document(path, "report") for path in given.pop("failed_from")],
    )
    return Options(selection=selection, **given)
