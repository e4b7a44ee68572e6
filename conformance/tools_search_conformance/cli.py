"""The command `tools-search-conformance`: arguments in, exit status out."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from tools_search_conformance.explain import run_version
from tools_search_conformance.judging_commands import client, server
from tools_search_conformance.replay_command import replay
from tools_search_conformance.reporting import report_group
from tools_search_conformance.telling_commands import explain, list_command, trace_command

__all__ = ["cli", "main"]

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


for command in (server, client, replay, list_command, explain, trace_command, report_group):
    cli.add_command(command)


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
