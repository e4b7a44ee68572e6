"""The `tools-search-client` command: subcommands, exit codes and error reporting."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from io import StringIO
from typing import Final, NoReturn

import click
from tools_search_hosts.exits import EXIT_SIGNAL, run_and_exit

from tools_search_client.cli.call import call, describe
from tools_search_client.cli.chat import chat
from tools_search_client.cli.demo import demo
from tools_search_client.cli.login import login
from tools_search_client.cli.offers import prompts, resources
from tools_search_client.cli.output import EXIT_FAILED, EXIT_USAGE, print_error, print_json
from tools_search_client.cli.running import InterruptionError, can_be_asked
from tools_search_client.cli.show import search, servers, stats, tools
from tools_search_client.errors import LocalError, ServerError, ToolsSearchClientError
from tools_search_client.remedies import with_remedy
from tools_search_client.text import one_line, printable
from tools_search_client.version import VERSION

_HELP: Final = """Find the right tool across many MCP servers, and call it.

\b
Start here:
  tools-search-client demo                             see it work
  tools-search-client servers --config mcp.json        what your servers offer
  tools-search-client search "commit my changes" --config mcp.json
  tools-search-client describe git__git_log --config mcp.json
  tools-search-client call git__git_log repo_path=. --config mcp.json
  tools-search-client stats --config mcp.json          what tools cost a model
  tools-search-client chat --config mcp.json -m MODEL  let a model use them

mcp.json is the file your MCP host already has (`mcpServers`). Use --url or --command for a single server. Every
command supports --json and --help. Shell completion for bash (or zsh, fish):

\b
  eval "$(_TOOLS_SEARCH_CLIENT_COMPLETE=bash_source tools-search-client)"
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="tools-search-client")
def commands() -> None:
    """Group the commands."""


for command in (servers, tools, search, describe, call, prompts, resources, chat, stats, login, demo):
    commands.add_command(command)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with its code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in given[: given.index("--") if "--" in given else len(given)]
    run_and_exit(commands, given, program="tools-search-client", report=lambda error: _report(error, as_json=as_json))


def _report(raised: Exception, *, as_json: bool) -> int:
    """Print an error to standard error, and as JSON to standard output too if asked to. Return the exit code."""
    ctrl_c = isinstance(raised, click.Abort) and isinstance(raised.__context__, KeyboardInterrupt)
    error = InterruptionError(signal.SIGINT) if ctrl_c else raised
    message, code = _explained(error)
    if as_json:
        kind = "Interrupted" if isinstance(error, InterruptionError) else type(error).__name__
        print_json({"error": {"type": kind, "message": message}})
    if isinstance(error, InterruptionError) and can_be_asked():
        click.echo("\r", err=True, nl=False)  # over the `^C` that the terminal shows
    if isinstance(error, click.ClickException):
        error.show(shown := StringIO())
        print_error(shown.getvalue().rstrip())  # Click itself does not break lines
    else:
        # Only our own messages may span lines: a second line from a server could pass for one of our messages.
        shown = one_line(message) if isinstance(error, ServerError | OSError) else printable(message)
        print_error(f"Error: {shown}")
    return code


def _explained(error: Exception) -> tuple[str, int]:
    """Return an error's message and exit code, or raise it again if it is none of a command."""
    match error:
        case click.ClickException():
            return error.format_message(), error.exit_code
        case LocalError():
            return str(error), EXIT_USAGE
        case ToolsSearchClientError():
            return with_remedy(error), EXIT_FAILED
        case InterruptionError():
            return str(error), EXIT_SIGNAL + error.number
        case FileNotFoundError(filename=None):
            return "the working folder no longer exists: change to one that does", EXIT_USAGE
        case OSError():
            return f"{error.filename or 'the system'}: {error.strerror or error}", EXIT_FAILED
        case click.Abort():  # no answer to a question
            return "aborted", EXIT_SIGNAL + signal.SIGINT
        case _:
            raise error
