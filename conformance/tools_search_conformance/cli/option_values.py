"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, TypeVar

import click

__all__ = ["TargetMissingError", "pairs", "reaching_options", "words", "writable_folder"]


class TargetMissingError(click.ClickException):
    """What is to be judged cannot be started or spoken to."""

    exit_code = 3


def pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return `NAME=VALUE` options, and headers, `NAME:VALUE`, as a mapping.

    Raises:
        BadParameter: one is neither.
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
        BadParameter: it is empty, or cannot be split.
    """
    try:
        argv = tuple(shlex.split(value or ""))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} cannot be split into words: {error}") from error
    if value is not None and not argv:
        raise click.BadParameter("the command is empty")
    return argv


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


_Command = TypeVar("_Command", bound=Callable[..., Any])

_REACHING: Final = (
    click.option(
        "--timeout", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="Seconds for one request."
    ),
    click.option(
        "--start-timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Seconds to start."
    ),
    click.option(
        "--header", "headers", multiple=True, callback=pairs, metavar="NAME:VALUE", help="HTTP header of each request."
    ),
    click.option(
        "--env", multiple=True, callback=pairs, metavar="NAME=VALUE", help="Environment variable of what is started."
    ),
    click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Working directory of what is started."),
    click.option("--allow-remote", is_flag=True, help="Speak to another machine."),
)


def reaching_options(command: _Command) -> _Command:
    """Give a command the options that say how a server is started and spoken to."""
    for option in reversed(_REACHING):
        command = option(command)
    return command
