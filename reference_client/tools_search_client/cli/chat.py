"""The command `chat`: talk with a model that finds and calls the servers' tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Final, Literal, TypeVar, cast

import click

from tools_search_client.chat.endpoint import PROVIDERS, SHOWN_BY, Provider, ShownBy, choose_endpoint
from tools_search_client.cli.output import camel_names, epilog, print_json
from tools_search_client.cli.running import can_be_asked
from tools_search_client.cli.selection import (
    ServerCommand,
    ServerSelection,
    call_timeout_option,
    least_confidence_option,
    server_options,
    toolset_option,
)

Command = TypeVar("Command", bound=Callable[..., Any])

_SYSTEM: Final = "You help a user in a terminal. Use the tools that you have, and answer in plain text, without markup."

_EPILOG: Final = epilog(
    "chat --config mcp.json -m MODEL",
    "chat --config mcp.json -m MODEL --base-url http://127.0.0.1:11434/v1 'What changed?'",
    "chat --config mcp.json -m MODEL - < question.txt",
    "chat --list-models --base-url http://127.0.0.1:11434/v1",
    exit_codes="""\b
Exit codes:
  0  the model answered, or you quit
  1  the provider did not answer, or the model was stopped
  2  usage error: bad options or configuration, missing key or SDK
  128 and up  ended by a signal: 130 is Ctrl-C""",
)


def _or_list_models(command: Command) -> Command:
    """Let `--list-models` replace the conversation, which requires a model and servers."""

    @wraps(command)
    def run(*, list_models: bool, model: str | None, **others: Any) -> None:
        if not list_models:
            if model is None:
                raise click.UsageError("choose a model with --model NAME; --list-models prints the available ones")
            command(model=model, **others)
            return
        from tools_search_client.chat.interactive import list_models as names_of_models

        provider, url, key_name = (others[name] for name in ("provider", "base_url", "api_key_env"))
        endpoint = choose_endpoint(model or "", os.environ, provider=provider, url=url, key_name=key_name)
        names = names_of_models(endpoint)
        if others["as_json"]:
            print_json({"models": names})
        else:
            click.echo("".join(f"{name}\n" for name in names), nl=False)

    return cast("Command", run)


@click.command(cls=ServerCommand, epilog=_EPILOG, short_help="Talk with a model that finds and calls tools.")
@_or_list_models
@click.argument("question", required=False)
@click.option("-m", "--model", help="The model's name at the provider.")
@click.option("--list-models", is_flag=True, help="Print the models that the API offers and exit; needs no servers.")
@click.option(
    "--provider",
    type=click.Choice(PROVIDERS),
    help="The model's API; openai is chat completions, which most services support. Default: anthropic for models "
    "named claude…, openai for all others.",
)
@click.option("--base-url", metavar="URL", help="The API's address. Default: OPENAI_BASE_URL or ANTHROPIC_BASE_URL.")
@click.option(
    "--api-key-env",
    metavar="NAME",
    help="The environment variable that holds the key. Default: OPENAI_API_KEY or ANTHROPIC_API_KEY.",
)
@click.option("--system", default=_SYSTEM, metavar="TEXT", help="The system prompt.")
@click.option(
    "--tool-search",
    type=click.Choice(["auto", "model", "off"]),
    help="auto: the model finds tools on demand if there are many; model: always; off: list all tools. "
    "Default: `tool_discovery` of the configuration.",
)
@click.option(
    "--delegate",
    is_flag=True,
    help="Search with your own text before asking the model. The text is sent to servers that support search.",
)
@click.option(
    "--show-found",
    "shown_by",
    type=click.Choice(SHOWN_BY),
    default="provider",
    show_default=True,
    help="How the model sees a tool it finds. provider: the API's native form, which not every model supports; "
    "list: in the tool list; call-tool: as text, called through a single tool that never changes.",
)
@toolset_option
@click.option("--yes", is_flag=True, help="Call tools without asking first.")
@click.option(
    "--max-rounds",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Maximum requests to the model per turn.",
)
@click.option(
    "--max-result",
    type=click.IntRange(min=1),
    default=50_000,
    show_default=True,
    metavar="CHARS",
    help="Maximum text from one tool result to send to the model.",
)
@least_confidence_option
@call_timeout_option
@server_options(follow_changes=True)
@click.option("--json", "as_json", is_flag=True, help="Print the answer to QUESTION as one JSON object instead.")
def chat(
    question: str | None,
    selection: ServerSelection,
    *,
    model: str,
    provider: Provider | None,
    base_url: str | None,
    api_key_env: str | None,
    system: str,
    tool_search: Literal["auto", "model", "off"] | None,
    delegate: bool,
    shown_by: ShownBy,
    yes: bool,
    max_rounds: int,
    max_result: int,
    as_json: bool,
) -> None:
    """Talk with a model that finds and calls the servers' tools.

    With QUESTION (`-` reads standard input), the answer goes to standard output and everything else to standard error.
    Without it, you chat in the terminal; /help lists the commands. You are asked before each tool call, unless you
    answer "always" for that tool, pass --yes, or the server's `alwaysAllow` list in the configuration names the tool.
    """
    from tools_search_client.chat.interactive import answer_once, talk
    from tools_search_client.chat.loop import ChatOptions
    from tools_search_client.conversation.prompts import SYSTEM_PROMPT_LINE

    endpoint = choose_endpoint(model, os.environ, provider=provider, url=base_url, key_name=api_key_env)
    configuration = selection.configuration
    discovery = configuration.tool_discovery
    if delegate:
        if tool_search == "off":
            raise click.UsageError(
                "--delegate searches for tools and --tool-search off lists them all: use only one of them"
            )
        servers = tuple(replace(server, delegate="turn") for server in configuration.servers)
        configuration = replace(configuration, servers=servers)
        tool_search = tool_search or (None if discovery.enabled else "model")
    if tool_search is not None:
        defer_all = tool_search == "model" or discovery.defer_all
        discovery = replace(discovery, enabled=tool_search != "off", auto=tool_search == "auto", defer_all=defer_all)
    selection = replace(selection, configuration=replace(configuration, tool_discovery=discovery))
    if discovery.enabled:
        system = f"{system}\n\n{SYSTEM_PROMPT_LINE}"
    has_terminal = can_be_asked()
    text = _question(question, has_terminal=has_terminal)
    if as_json and text is None:
        raise click.UsageError("--json requires a QUESTION")
    options = ChatOptions(system, shown_by, selection.toolset, yes, max_rounds, max_result)
    if text is None:
        talk(selection, endpoint, options)
        return
    may_ask = has_terminal and question != "-"
    answer, statistics = answer_once(selection, endpoint, options, text, may_ask=may_ask, prints=not as_json)
    if as_json:
        discovery = statistics["discovery"] and camel_names(statistics["discovery"])
        print_json({"answer": answer, "statistics": camel_names(statistics) | {"discovery": discovery}})


def _question(stated: str | None, *, has_terminal: bool) -> str | None:
    """Return the single question to answer, or `None` for an interactive conversation."""
    if stated is None and has_terminal:
        return None
    if stated not in (None, "-"):
        text = stated
    elif not sys.stdin or sys.stdin.isatty():
        raise click.UsageError("there is no terminal to chat in: give a QUESTION")
    else:
        text = sys.stdin.read()
    if not text.strip():
        raise click.UsageError("QUESTION is empty")
    return text
