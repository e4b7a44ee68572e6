"""The command `call`: one tool, by name, after asking."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import click
from mcp_types import CallToolResult, TextContent

from tools_search_client.cli.output import (
    EXIT_FAILED,
    EXIT_OK,
    HOW_TO_ALLOW,
    as_json_option,
    epilog,
    print_json,
    print_note,
    print_text,
)
from tools_search_client.cli.running import interruptible_question, run_until_signal
from tools_search_client.cli.targets import Target, call_timeout_option, server_options
from tools_search_client.errors import LocalError
from tools_search_client.federation.federation import open_federation
from tools_search_client.found import FoundTool
from tools_search_client.text import one_line, shorten


class NoConsentError(LocalError):
    """A tool was not called, because nobody agreed to it."""


@click.command(
    epilog=epilog(
        'call git__git_log \'{"repo_path": "."}\' --config mcp.json',
        "call get_current_time - --yes --url http://127.0.0.1:8000/mcp < arguments.json",
    ),
    short_help="Call one tool by its name.",
)
@click.argument("name")
@click.argument("arguments", metavar="[JSON_ARGS]", default="{}")
@click.option("--yes", is_flag=True, help="Call the tool without asking.")
@call_timeout_option
@server_options
@as_json_option
def call(name: str, arguments: str, target: Target, *, yes: bool, call_timeout: float, as_json: bool) -> int:
    """Call the tool NAME with JSON_ARGS, a JSON object; `-` reads it from standard input.

    NAME is a name that `search` or `tools` shows; the tool's own name is enough where only one server has it. You are
    asked before the call, unless you give --yes or the configuration allows the tool (`alwaysAllow` of its server, a
    list of names). Without a terminal nobody can be asked: `call` then does nothing and ends with exit code 2.
    """
    parsed = _parsed(_standard_input() if arguments == "-" else arguments)
    may_ask = arguments != "-" and bool(sys.stdin) and sys.stdin.isatty()
    target = target.with_call_timeout(call_timeout)

    async def run() -> tuple[FoundTool, CallToolResult]:
        async with open_federation(target.configuration, target.options) as servers:
            tool = await servers.resolve(name, deadline=target.timeout)
            if not yes and not target.configuration.allows(tool):
                _ask(tool, parsed, may_ask=may_ask)
            return tool, await servers.call(tool.name, parsed)

    tool, result = run_until_signal(run)
    if as_json:
        shown = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        print_json({"name": tool.name, "server": tool.server, "result": shown})
    else:
        _print_result(result)
    return EXIT_FAILED if result.is_error else EXIT_OK


def _standard_input() -> str:
    if not sys.stdin:
        raise click.UsageError("JSON_ARGS cannot be read from standard input, which is closed")
    return sys.stdin.read()


def _parsed(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise click.UsageError(
            f'JSON_ARGS is not JSON ({error}): write for instance \'{{"path": "a.txt"}}\''
        ) from error
    if not isinstance(parsed, dict):
        raise click.UsageError('JSON_ARGS must be a JSON object, such as \'{"path": "a.txt"}\'')
    return cast("dict[str, Any]", parsed)


def _ask(tool: FoundTool, arguments: dict[str, Any], *, may_ask: bool) -> None:
    if not may_ask:
        raise NoConsentError(f"{tool.name} was not called, because nobody can be asked here: {HOW_TO_ALLOW}")
    click.echo(f"{one_line(tool.name)}: {shorten(tool.tool.description or 'says nothing of itself', 300)}", err=True)
    click.echo(f"arguments: {json.dumps(arguments)}", err=True)
    with interruptible_question():
        agreed = click.confirm("Call it?", err=True)
    if not agreed:
        raise NoConsentError(f"{tool.name} was not called")


def _print_result(result: CallToolResult) -> None:
    if result.is_error:
        print_note("The tool reports an error:")
    for block in result.content:
        if isinstance(block, TextContent):
            print_text(block.text)
        else:
            print_json(block.model_dump(by_alias=True, mode="json", exclude_none=True))
    if not result.content and result.structured_content is not None:
        print_json(result.structured_content)
