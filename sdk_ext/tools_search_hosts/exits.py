"""How the programs end: exit codes, and what happens when standard output cannot be written. Needs Click."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Final, NoReturn

import click

EXIT_SIGNAL: Final = 128
"""Added to the number of the signal that ended the program."""

_STREAM_ERRORS: Final = frozenset({errno.EBADF, errno.EIO, errno.ENOSPC})
"""Errors that come from standard output when they name no file. Click handles `EPIPE`."""


def run_and_exit(
    command: click.Command, given: Sequence[str], *, program: str, report: Callable[[Exception], int]
) -> NoReturn:
    """Run the command line and exit with its exit code.

    `report` prints an error of the command and returns the exit code. It raises an error that is not one of a command.
    """
    # `sys.stdout` is `None` if the program was started with standard output closed.
    output = sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if isinstance(output, TextIOWrapper):  # a locale without a character that is printed is no reason to fail
        output.reconfigure(errors="backslashreplace")
    try:
        code = _exit_code(command, given, program, report)
        output.flush()
    except OSError as error:
        # Nothing more can be written, neither now nor when the interpreter flushes its buffer on exit.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        code = EXIT_SIGNAL + signal.SIGPIPE
        if not isinstance(error, BrokenPipeError):
            click.echo(f"Error: cannot write to standard output: {error.strerror or error}", err=True)
            code = 1
    sys.exit(code)


def _exit_code(command: click.Command, given: Sequence[str], program: str, report: Callable[[Exception], int]) -> int:
    """Run the command line and return its exit code.

    Raises:
        OSError: Standard output cannot be written.
    """
    output = sys.stdout
    # In standalone mode, Click would print errors itself and exit.
    try:
        return command.main(given, prog_name=program, standalone_mode=False) or 0
    except SystemExit:
        if sys.stdout is output:
            raise
        return EXIT_SIGNAL + signal.SIGPIPE  # Click replaced it because the reader is gone
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _STREAM_ERRORS:
            raise
        return report(error)
