"""The command `tools-search-conformance`: arguments in, exit status out."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from tools_search_conformance.cli.judging_commands import client, replay, server
from tools_search_conformance.cli.reading_commands import docs, explain, list_command, report_group, trace_command
from tools_search_conformance.report.document import suite
from tools_search_conformance.report.verdict import EXIT_SIGNAL, EXIT_SUITE
from tools_search_conformance.wire.display import plain

_STREAM_ERRORS: Final = frozenset({errno.EBADF, errno.EIO, errno.ENOSPC, errno.EPIPE})
"""Errors of writing to standard output; an error of a file has the name of the file."""

# https://no-color.org
_COLOR: Final = False if os.environ.get("NO_COLOR") else None


_HELP: Final = """Test an implementation of the `tools/search` extension by the messages it sends.

\b
Examples:
  A server with its own tools, one with the suite's catalogs, a running one:
    tools-search-conformance server --profile live -- node my_server.js
    tools-search-conformance server -- tools-search-server
    tools-search-conformance server --url http://127.0.0.1:3000/mcp
  A client, through its driver:
    tools-search-conformance client -- node my_driver.js
  What one check tests, and the draft:
    tools-search-conformance explain limit-invalid
    tools-search-conformance docs draft

\b
Exit status:
  0  conformant, or every selected check passed
  1  not conformant
  2  usage error
  3  no verdict: the suite could not start or connect to the target, or one of
     its eras; or the target lists no tools, does not offer the extension, or
     showed too little
  4  the suite itself failed, or could not write its output
  128+N  signal N ended the run: 130 for Ctrl-C, 141 when nothing reads the
     output anymore

\b
Shell completion for bash (or zsh, fish):
  eval "$(_TOOLS_SEARCH_CONFORMANCE_COMPLETE=bash_source tools-search-conformance)"

With --json, standard output is always a JSON value. If there is no result, it is an object with an `error` member.
"""


class _Suite(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"{error.message} To test a server, use `server -- ARGV` or `server --url URL`.", ctx
            ) from None


@click.group(
    cls=_Suite,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "color": _COLOR, "max_content_width": 100},
)
@click.version_option(suite()["version"], prog_name="tools-search-conformance")
def cli() -> None:
    """Hold the commands together."""


for command in (server, client, replay, list_command, explain, trace_command, report_group, docs):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a fault of the suite itself ends in exit status 4."""
    with suppress(RuntimeError):  # a user without a home
        # Hypothesis keeps its tables among the user's caches instead of the working directory.
        caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(caches, "tools-search-conformance")))
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = _outcome(given)
        sys.stdout.flush()
    except OSError as error:  # standard output cannot be written
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - the rest of the buffer goes nowhere
        code = EXIT_SIGNAL + signal.SIGPIPE
        if not isinstance(error, BrokenPipeError):
            code = EXIT_SUITE
            click.echo(f"Error: cannot write to standard output: {error.strerror or error}", err=True)
    sys.exit(code)


def _outcome(given: list[str]) -> int:
    """Run the command and return the exit status."""
    output = sys.stdout
    own = given[: given.index("--")] if "--" in given else given

    def print_error(kind: str, message: str) -> None:
        if "--json" in own:
            click.echo(json.dumps({"error": {"type": kind, "message": message}}, indent=2))

    try:
        return cli.main(given, prog_name="tools-search-conformance", standalone_mode=False) or 0
    except click.ClickException as error:
        print_error(type(error).__name__, error.format_message())
        error.show()
        return error.exit_code
    except click.Abort:
        print_error("Interrupted", "interrupted")
        click.echo("Error: interrupted", err=True)
        return EXIT_SIGNAL + signal.SIGINT
    except SystemExit as ended:
        if sys.stdout is not output:  # Click replaces it when the reader has gone away, and would exit with 1
            return EXIT_SIGNAL + signal.SIGPIPE
        return ended.code if isinstance(ended.code, int) else EXIT_SUITE
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _STREAM_ERRORS:
            raise
        causes = list(_described(error))
        print_error(type(error).__name__, "; ".join(causes))
        for cause in causes:
            click.echo(f"Error: {cause}", err=True)
        return EXIT_SUITE


def _described(error: Exception) -> Iterator[str]:
    """Yield what went wrong in each of the tasks that ran together; their group says nothing."""
    if isinstance(error, ExceptionGroup):
        several: ExceptionGroup[Exception] = error  # pyright: ignore[reportUnknownVariableType] - exceptions
        for each in several.exceptions:
            yield from _described(each)
    elif isinstance(error, OSError) and error.filename is not None:
        yield f"cannot use {plain(str(error.filename))}: {error.strerror}"
    else:
        yield f"the suite failed: {type(error).__name__}: {error}"
