"""How the program ends: the errors of a command, their exit codes, and how they are printed."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from tools_search_hosts import ConfigurationError

_SIGNAL_EXIT: Final = 128
"""Added to the number of the signal that ended the program."""

_STREAM_ERRORS: Final = frozenset({errno.EBADF, errno.EIO, errno.ENOSPC, errno.EPIPE})
"""Errors that come from standard output when they name no file."""


class CannotServeError(click.ClickException):
    """The program cannot serve: exit code 1."""

    exit_code = 1


class _ConfigurationError(click.ClickException):
    exit_code = 2


class _InterruptedError(click.ClickException):
    exit_code = _SIGNAL_EXIT + signal.SIGINT


class Commands(click.Group):
    """A group whose commands end with exit code 2 if the configuration cannot be used."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` name. A file is easily mistaken for one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"{error.message} To serve a file, use --config or --catalog.", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was called."""
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise _ConfigurationError(str(error)) from None


def exit_with(command: click.Command, given: list[str]) -> NoReturn:
    """Run the command line and exit with its exit code."""
    try:
        code = _exit_code(command, given)
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        # Discard what is left in the buffer.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end of the process
        if isinstance(error, BrokenPipeError):
            sys.exit(_SIGNAL_EXIT + signal.SIGPIPE)
        click.echo(f"Error: cannot write to standard output: {error.strerror or error}", err=True)
        code = 1
    sys.exit(code)


def _exit_code(command: click.Command, given: list[str]) -> int:
    """Run the command line and return its exit code. With --json, errors are printed as JSON too.

    Raises:
        OSError: Standard output cannot be written.
    """
    output = sys.stdout
    # Not in standalone mode, in which Click would print errors and exit before they can be printed as JSON.
    try:
        return command.main(given, prog_name="tools-search-server", standalone_mode=False) or 0
    except click.ClickException as error:
        failure: click.ClickException = error
        kind = type(error).__name__.strip("_")
    except click.Abort:
        failure, kind = _InterruptedError("interrupted by SIGINT"), "Interrupted"
    except SystemExit:
        if sys.stdout is not output:  # Click replaces it when the reader has gone away
            return _SIGNAL_EXIT + signal.SIGPIPE
        raise
    except OSError as error:
        if error.filename is None and error.errno in _STREAM_ERRORS:
            raise
        kind = type(error).__name__
        failure = click.ClickException(f"{error.filename or 'the system'}: {error.strerror or error}")
    if "--json" in given:
        click.echo(json.dumps({"error": {"type": kind, "message": failure.format_message()}}, indent=2))
    failure.show()
    return failure.exit_code
