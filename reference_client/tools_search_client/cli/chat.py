"""The command `chat`: a conversation with a model that finds and calls the tools of the servers."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import click

from tools_search_client.chat.endpoint import PROVIDERS, SHOWN_BY, Provider, ShownBy, choose_endpoint
from tools_search_client.cli.output import epilog, print_json
from tools_search_client.cli.targets import Target, call_timeout_option, least_confidence_option, server_options
from tools_search_client.conversation.prompts import SYSTEM_PROMPT_LINE

ToolSearch: TypeAlias = Literal["auto", "model", "off"]

_SYSTEM: Final = "You help a user in a terminal. Use the tools that you have, and answer in plain text, without markup."

_EPILOG: Final = epilog(
    "chat --config mcp.json -m MODEL",
    "chat --config mcp.json -m MODEL --base-url http://127.0.0.1:11434/v1 'What changed?'",
    "chat --config mcp.json -m MODEL - < question.txt",
    exit_codes="""\b
Exit codes:
  0  answered, or left by the user
  1  the provider gave no answer, or the model was stopped
  2  wrong usage: options, configuration, key or SDK missing
  128 and more  ended by a signal: 130 is Ctrl-C""",
)


@click.command(epilog=_EPILOG, short_help="Talk with a model that finds and calls tools.")
@click.argument("question", required=False)
@click.option("-m", "--model", required=True, help="The provider's name of the model.")
@click.option(
    "--provider",
    type=click.Choice(PROVIDERS),
    help="The API of the model; openai is chat completions, which most services offer. Default: anthropic for models "
    "called claude…, openai for others.",
)
@click.option("--base-url", metavar="URL", help="The API's address. Default: OPENAI_BASE_URL or ANTHROPIC_BASE_URL.")
@click.option(
    "--api-key-env",
    metavar="NAME",
    help="The environment variable with the key. Default: OPENAI_API_KEY or ANTHROPIC_API_KEY.",
)
@click.option("--system", default=_SYSTEM, metavar="TEXT", help="The system prompt.")
@click.option(
    "--tool-search",
    type=click.Choice(["auto", "model", "off"]),
    help="auto: the model finds tools on demand when there are many; model: always; off: all tools are listed. "
    "Default: `tool_discovery` of the configuration.",
)
@click.option(
    "--show-found",
    "shown_by",
    type=click.Choice(SHOWN_BY),
    default="provider",
    show_default=True,
    help="How a found tool is shown to the model. provider: in the API's own form, which not every model understands; "
    "list: in the list of tools; call-tool: in words, to be called through one tool that never changes.",
)
@click.option("--toolset", metavar="NAME", help="Use only the tools of this toolset of the configuration.")
@click.option("--yes", is_flag=True, help="Call every tool without asking.")
@click.option(
    "--max-rounds",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Most requests to the model per turn.",
)
@click.option(
    "--max-result",
    type=click.IntRange(min=1),
    default=50_000,
    show_default=True,
    metavar="CHARS",
    help="Most text of one tool's result that the model is sent.",
)
@least_confidence_option
@call_timeout_option
@server_options
@click.option("--json", "as_json", is_flag=True, help="Print the answer to QUESTION as one JSON object instead.")
def chat(
    question: str | None,
    target: Target,
    *,
    model: str,
    provider: Provider | None,
    base_url: str | None,
    api_key_env: str | None,
    system: str,
    tool_search: ToolSearch | None,
    shown_by: ShownBy,
    toolset: str | None,
    yes: bool,
    max_rounds: int,
    max_result: int,
    least_confidence: float | None,
    call_timeout: float,
    as_json: bool,
) -> None:
    """Talk with a model that finds and calls the tools of the servers.

    With QUESTION (`-` is standard input), the answer is printed on standard output and everything else on standard
    error. Without it, you talk in the terminal; /help lists its commands. You are asked before each call of a tool,
    unless you answer "always" for that tool, give --yes, or the configuration allows it (`alwaysAllow` of its server, a
    list of names).
    """
    # Imported here so that the other commands start without what only a conversation needs.
    from tools_search_client.chat import program
    from tools_search_client.chat.keyboard import can_be_asked
    from tools_search_client.chat.loop import Permissions, TurnLimits
    from tools_search_client.chat.models import import_sdk

    endpoint = choose_endpoint(model, os.environ, provider=provider, url=base_url, key_name=api_key_env)
    target = target.with_least_confidence(least_confidence).with_call_timeout(call_timeout, follow_changes=True)
    target = _with_tool_search(target, tool_search)
    has_terminal = can_be_asked()
    text = _question(question, has_terminal=has_terminal)
    if as_json and text is None:
        raise click.UsageError("--json goes with a QUESTION")
    session = program.Session(
        target,
        endpoint,
        import_sdk(endpoint),
        f"{system}\n\n{SYSTEM_PROMPT_LINE}" if target.configuration.tool_discovery.enabled else system,
        shown_by,
        toolset,
        Permissions(target.configuration.allows, everything=yes),
        TurnLimits(max_rounds, max_result),
    )
    if text is None:
        program.talk(session)
        return
    may_ask = has_terminal and question != "-"
    answer, statistics = program.answer_once(session, text, may_ask=may_ask, prints=not as_json)
    if as_json:
        print_json({"answer": answer, "statistics": statistics})


def _question(stated: str | None, *, has_terminal: bool) -> str | None:
    """Return the one question to answer, or `None` where the user will type."""
    if stated is None and has_terminal:
        return None
    if stated not in (None, "-"):
        text = stated
    elif not sys.stdin or sys.stdin.isatty():
        raise click.UsageError("there is no terminal to talk in: give a QUESTION")
    else:
        text = sys.stdin.read()
    if not text.strip():
        raise click.UsageError("QUESTION is empty")
    return text


def _with_tool_search(target: Target, choice: ToolSearch | None) -> Target:
    if choice is None:
        return target
    stated = target.configuration.tool_discovery
    defer_all = choice == "model" or stated.defer_all
    chosen = replace(stated, enabled=choice != "off", auto=choice == "auto", defer_all=defer_all)
    return replace(target, configuration=replace(target.configuration, tool_discovery=chosen))
