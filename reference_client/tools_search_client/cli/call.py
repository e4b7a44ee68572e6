"""The commands `describe` and `call`: show one tool, or call it after asking the user."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tools_search_client.cli import output
from tools_search_client.cli.arguments import fitting, parameters, read_arguments
from tools_search_client.cli.completion import complete_argument
from tools_search_client.cli.running import interruptible_question, run_until_signal
from tools_search_client.cli.selection import (
    ServerCommand,
    ServerSelection,
    call_timeout_option,
    server_options,
    tool_argument,
    toolset_option,
)
from tools_search_client.errors import LocalError
from tools_search_client.remedies import naming
from tools_search_client.text import one_line, printable, printable_json, shorten

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from tools_search_client.found import FoundTool


class NoConsentError(LocalError):
    """A tool was not called because the user did not approve the call."""


@click.command(
    cls=ServerCommand,
    epilog=output.epilog("describe git__git_log --config mcp.json"),
    short_help="Show the parameters of one tool.",
)
@tool_argument
@toolset_option
@server_options()
@output.as_json_option
def describe(name: str, selection: ServerSelection, *, as_json: bool) -> None:
    """Show what the tool NAME does, and each parameter's type, whether it is required, and its default.

    NAME is a name shown by `search` or `tools`. `server:tool` also works, and so does the tool's own name if only one
    server has it. --json prints the full definition.
    """
    tool = selection.ask(lambda servers: selection.resolve(servers, name))
    if as_json:
        output.print_json(output.item_json("tool", tool))
        return
    click.echo(one_line(tool.name))
    click.echo(printable(output.purpose(tool.tool) or "(no description)").strip())
    rows = parameters(tool)
    click.echo("")
    if rows:
        output.print_table(
            ("parameter", "type", "need"), [row[:3] for row in rows], [row[3] for row in rows], wraps=True
        )
    else:
        click.echo("It takes no arguments.")


@click.command(
    cls=ServerCommand,
    epilog=output.epilog(
        "call git__git_log repo_path=. max_count=3 --config mcp.json",
        "call git__git_add repo_path=. files:='[\"a.txt\"]' --config mcp.json",
        "call get_current_time @arguments.json --yes --url http://127.0.0.1:8000/mcp",
    ),
    short_help="Call one tool by its name.",
)
@tool_argument
@click.argument("arguments", metavar="[ARGUMENT]…", nargs=-1, shell_complete=complete_argument)
@click.option("--yes", is_flag=True, help="Call the tool without asking first.")
@call_timeout_option
@toolset_option
@server_options()
@output.as_json_option
def call(name: str, arguments: tuple[str, ...], selection: ServerSelection, *, yes: bool, as_json: bool) -> int:
    """Call the tool NAME.

    Each ARGUMENT is `name=value`, `name:=JSON`, a JSON object of arguments, `@FILE` to read such an object from a file,
    or `-` to read one from standard input. A value is text unless the tool expects another type. Arguments are
    validated against the tool's schema before anything is sent. A name that the tool does not declare is refused,
    unless it is in a JSON object. `describe NAME` lists the parameters.

    NAME is a name shown by `search` or `tools`. `server:tool` also works, and so does the tool's own name if only one
    server has it. You are asked before the call, unless you pass --yes or the server's `alwaysAllow` list in the
    configuration names the tool. Without a terminal to ask on, `call` does nothing and exits with code 2.
    """
    from tools_search_client.federation.federation import open_federation

    typed = read_arguments(arguments)
    may_ask = "-" not in arguments and bool(sys.stdin) and sys.stdin.isatty()

    async def run() -> tuple[FoundTool, CallToolResult]:
        async with open_federation(selection.configuration, selection.options) as servers:
            with output.waiting("asking the servers …"):
                tool = await selection.resolve(servers, name)
            fit = fitting(typed, tool)
            if not yes and not selection.configuration.allows(tool):
                _ask(tool, fit, may_ask=may_ask)
            calling = f"calling {tool.name} …"
            with output.waiting(calling) as show:

                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
                    show(f"{calling} {share} {message or ''}")

                with naming(tool.name, "--call-timeout lets it run longer"):
                    return tool, await servers.call(tool.name, fit, progress=progressed)

    tool, result = run_until_signal(run)
    if as_json:
        output.print_json({"name": tool.name, "server": tool.server, "result": output.model_json(result)})
        return output.EXIT_FAILED if result.is_error else output.EXIT_OK
    if result.is_error:
        output.print_note("The tool returned an error:")
    for block in result.content:
        output.print_content(block)
    if not result.content and result.structured_content is not None:
        click.echo(printable_json(result.structured_content, indent=2))
    return output.EXIT_FAILED if result.is_error else output.EXIT_OK


def _ask(tool: FoundTool, arguments: dict[str, Any], *, may_ask: bool) -> None:
    if not may_ask:
        raise NoConsentError(
            f"{tool.name} was not called because there is no terminal to ask on: {output.HOW_TO_ALLOW}"
        )
    click.echo(f"{one_line(tool.name)}: {shorten(tool.tool.description or '(no description)', 300)}", err=True)
    click.echo(f"arguments: {printable_json(arguments)}", err=True)
    with interruptible_question():
        agreed = click.confirm("Call it?", err=True)
    if not agreed:
        raise NoConsentError(f"{tool.name} was not called")
