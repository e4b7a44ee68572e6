"""`tools-search-client`: find tools over MCP servers, with the extension or without, and call them."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from tools_search_client.cli.call import call
from tools_search_client.cli.chat import chat
from tools_search_client.cli.demo import demo
from tools_search_client.cli.outcome import EXIT_FAILED, EXIT_OK, EXIT_SIGNAL, EXIT_USAGE
from tools_search_client.cli.running import Interrupted
from tools_search_client.cli.screen import print_json
from tools_search_client.cli.show import search, servers, tools
from tools_search_client.cli.stats import stats
from tools_search_client.cli.wire_json import error_json
from tools_search_client.errors import LocalError, ServerError, ToolsSearchClientError
from tools_search_client.text import one_line, printable
from tools_search_client.version import VERSION

__all__ = ["run"]

_HELP: Final = """Find the right tool among many MCP servers, and call it.

\b
Start here:
  tools-search-client demo                                   see everything at work
  tools-search-client servers --config mcp.json              what do my servers offer?
  tools-search-client search "commit my changes" --config mcp.json
  tools-search-client call git__git_log '{"repo_path": "."}' --config mcp.json
  tools-search-client stats --config mcp.json                what do they cost a model?
  tools-search-client chat --config mcp.json -m MODEL        a model finds and calls them

mcp.json is the file that your host already has (`mcpServers`). A single server is reached with --url or started
with --command. Every command knows --json and --help. Shell completion, for bash (or zsh, fish):

\b
  eval "$(_TOOLS_SEARCH_CLIENT_COMPLETE=bash_source tools-search-client)"
"""

_OF_A_STREAM: Final = frozenset({errno.EBADF, errno.EIO, errno.ENOSPC, errno.EPIPE})
"""What writing to standard output ends in; errors of a file say which file it is."""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="tools-search-client")
def commands() -> None:
    """Hold the commands together."""


for command in (servers, tools, search, call, chat, stats, demo):
    commands.add_command(command)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; exits with the code that the outcome deserves."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not sys.stdout:  # started with a closed standard output
        _write_nowhere()
    try:
        code = _outcome(given)
        sys.stdout.flush()
    except OSError as error:
        code = _unwritten(error)
    sys.exit(code)


def _unwritten(error: OSError) -> int:
    _write_nowhere()  # what is left in the buffer cannot be written when the interpreter ends, either
    if isinstance(error, BrokenPipeError):
        return EXIT_SIGNAL + signal.SIGPIPE
    click.echo(f"Error: the answer cannot be written to standard output: {error.strerror or error}", err=True)
    return EXIT_FAILED


def _write_nowhere() -> None:
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the program ends


def _outcome(given: list[str]) -> int:
    """Perform what was asked and return the exit code; errors are told on standard error, and in JSON if that is asked.

    Raises:
        OSError: Standard output cannot be written.
    """
    output = sys.stdout
    try:
        return commands.main(given, prog_name="tools-search-client", standalone_mode=False) or EXIT_OK
    except click.ClickException as error:
        _tell_program(given, error, error.format_message())
        error.show()
        return error.exit_code
    except (ToolsSearchClientError, Interrupted, click.Abort) as error:
        message = str(error) or "aborted"
        _tell_program(given, error, message)
        # Only our own messages have several lines: one of a server might look like another message of ours.
        shown = one_line(message) if isinstance(error, ServerError) else printable(message)
        click.echo(f"Error: {shown}", err=True)
        return _code_of(error)
    except SystemExit:
        if sys.stdout is not output:  # replaced by Click: nobody reads it
            return EXIT_SIGNAL + signal.SIGPIPE
        raise
    except OSError as error:
        if error.filename is None and error.errno in _OF_A_STREAM:
            raise
        message = f"{error.filename or 'the system'}: {error.strerror or error}"
        _tell_program(given, error, message)
        click.echo(f"Error: {one_line(message)}", err=True)
        return EXIT_FAILED


def _tell_program(given: list[str], error: Exception, message: str) -> None:
    if "--json" in (given[: given.index("--")] if "--" in given else given):
        print_json(error_json(error, message))


def _code_of(error: Exception) -> int:
    if isinstance(error, LocalError):
        return EXIT_USAGE
    if isinstance(error, ToolsSearchClientError):
        return EXIT_FAILED
    return EXIT_SIGNAL + (error.number if isinstance(error, Interrupted) else signal.SIGINT)
