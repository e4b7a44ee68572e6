"""`tools-search-client`: find tools over MCP servers, with the extension or without, and call them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from tools_search_client.commands.call import call
from tools_search_client.commands.demo import demo
from tools_search_client.commands.outcome import EXIT_FAILED, EXIT_USAGE
from tools_search_client.commands.screen import print_json
from tools_search_client.commands.show import search, servers, tools
from tools_search_client.commands.wire_json import error_json
from tools_search_client.errors import LocalMistake, ToolsSearchClientError
from tools_search_client.text import printable
from tools_search_client.version import VERSION

__all__ = ["main"]


_HELP: Final = """Find the right tool among many MCP servers, and call it.

\b
Start here:
  tools-search-client demo                                   see everything at work
  tools-search-client servers --config mcp.json              what do my servers offer?
  tools-search-client search "commit my changes" --config mcp.json
  tools-search-client call git__git_log '{"repo_path": "."}' --config mcp.json

mcp.json is the file that your host already has (`mcpServers`). A single server is reached with --url or started
with --command. Every command knows --json and --help.
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="tools-search-client")
def commands() -> None:
    """Hold the commands together."""


for command in (servers, tools, search, call, demo):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with the code that the outcome deserves."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        commands.main(given, prog_name="tools-search-client")
    except ToolsSearchClientError as error:
        if "--json" in given:
            print_json(error_json(error))
        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, LocalMistake) else EXIT_FAILED)


if __name__ == "__main__":
    main()
