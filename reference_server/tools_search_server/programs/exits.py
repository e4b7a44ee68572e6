"""The errors of a command, their exit codes, and how they are printed."""

from __future__ import annotations

import json
import signal
from typing import Any

import click
from tools_search_hosts import ConfigurationError
from tools_search_hosts.exits import EXIT_SIGNAL


class CannotServeError(click.ClickException):
    """The program cannot serve: exit code 1."""

    exit_code = 1


class _ConfigurationError(click.ClickException):
    exit_code = 2


class _InterruptedError(click.ClickException):
    exit_code = EXIT_SIGNAL + signal.SIGINT


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


def report(error: Exception, *, as_json: bool) -> int:
    """Print the error of a command, also as JSON if asked to, and return the exit code."""
    match error:
        case click.ClickException():
            failure, kind = error, type(error).__name__.strip("_")
        case click.Abort():
            failure, kind = _InterruptedError("interrupted by SIGINT"), "Interrupted"
        case OSError():
            failure = click.ClickException(f"{error.filename or 'the system'}: {error.strerror or error}")
            kind = type(error).__name__
        case _:
            raise error
    if as_json:
        click.echo(json.dumps({"error": {"type": kind, "message": failure.format_message()}}, indent=2))
    failure.show()
    return failure.exit_code
