"""A conversation in the terminal: a single question, or messages and slash commands until `/quit`."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final

from tools_search_hosts.counts import number_of

from tools_search_client.chat.endpoint import Endpoint
from tools_search_client.chat.keyboard import Keyboard
from tools_search_client.chat.loop import Chat, ChatOptions
from tools_search_client.chat.models import open_model
from tools_search_client.chat.terminal import Terminal, savings_line
from tools_search_client.cli.running import InterruptionError, run_until_signal
from tools_search_client.cli.selection import ServerSelection
from tools_search_client.cli.show import print_servers
from tools_search_client.errors import ToolsSearchClientError
from tools_search_client.federation.federation import open_federation
from tools_search_client.text import shorten

_LEAVE: Final = ("/quit", "/exit")
_SLASH_COMMANDS: Final = ("/tools", "/servers", "/stats", "/undo", "/reset", "/help", "/retry", *_LEAVE)

_HELP: Final = """\
/tools    show the model's tools, and where it can find others
/servers  show each server's state
/stats    show what this conversation used and saved
/retry    ask the model again after a failure
/undo     forget the last turn
/reset    start a new conversation
/quit     quit, as does Ctrl-D
Ctrl-C stops an answer or a call and keeps the conversation."""

_DESCRIPTION_CHARS: Final = 100
_INTERRUPTS_TO_LEAVE: Final = 2


@asynccontextmanager
async def _open_chat(
    selection: ServerSelection, endpoint: Endpoint, options: ChatOptions, terminal: Terminal
) -> AsyncGenerator[Chat]:
    async with (
        open_model(endpoint) as model,
        open_federation(selection.configuration, selection.options) as servers,
    ):
        yield Chat(servers, model, terminal, options)


def list_models(endpoint: Endpoint) -> list[str]:
    """Return the names of the endpoint's models; raises `ToolsSearchClientError` if it cannot list them."""

    async def run() -> list[str]:
        async with open_model(endpoint) as model:
            return await model.model_names()

    return run_until_signal(run)


def answer_once(
    selection: ServerSelection, endpoint: Endpoint, options: ChatOptions, text: str, *, may_ask: bool, prints: bool
) -> tuple[str, dict[str, Any]]:
    """Return the answer to `text`, printed as well if `prints`, and the statistics.

    Raises `ToolsSearchClientError` if there is no answer, and `InterruptionError` if a signal came first.
    """
    keyboard = Keyboard() if may_ask else None
    terminal = Terminal(keyboard, holds_text=not prints or not sys.stdout.isatty(), prints_answer=prints)

    async def run() -> tuple[str, dict[str, Any]]:
        async with _open_chat(selection, endpoint, options, terminal) as chat:
            try:
                with keyboard.interruptible() if keyboard else nullcontext():
                    return await chat.turn(text), chat.conversation.statistics.to_json()
                raise InterruptionError(signal.SIGINT)  # Ctrl-C at a question
            finally:
                terminal.note(savings_line(chat.conversation.statistics))

    return run_until_signal(run)


def talk(selection: ServerSelection, endpoint: Endpoint, options: ChatOptions) -> None:
    """Run a conversation in the terminal until the user quits or a signal comes.

    Ctrl-C counts as a signal until the conversation has begun.
    """
    keyboard = Keyboard(_SLASH_COMMANDS)
    terminal = Terminal(keyboard)

    async def run() -> None:
        async with _open_chat(selection, endpoint, options, terminal) as chat:
            with keyboard.interruptible() as scope:
                await chat.begin()
            if scope.cancel_called:
                raise InterruptionError(signal.SIGINT)
            number = len(chat.conversation.definitions)
            terminal.note(f"{endpoint.model} starts with {number_of(number, 'tool')}; type /help for help")
            while (line := await _next_line(keyboard, terminal)) is not None and line not in _LEAVE:
                with keyboard.interruptible() as scope:
                    try:
                        if line.startswith("/"):
                            await _perform(line.split()[0], chat, terminal)
                        else:
                            await chat.turn(line)
                    except ToolsSearchClientError as error:
                        terminal.notice(f"Error: {error}")
                        if chat.is_pending:
                            terminal.notice("/retry asks again, a new message replaces this one, /reset starts over")
                if scope.cancelled_caught:
                    terminal.notice("stopped; the conversation continues")
            terminal.note(savings_line(chat.conversation.statistics))

    run_until_signal(run, on_interrupt=keyboard.interrupt)


async def _next_line(keyboard: Keyboard, terminal: Terminal) -> str | None:
    """Return the next line that is not blank, or `None` when the user quits with Ctrl-D or by pressing Ctrl-C twice."""
    presses = 0
    while presses < _INTERRUPTS_TO_LEAVE:
        with keyboard.interruptible():
            line = await keyboard.line()
            if line is None or line.strip():
                return line and line.strip()
            continue
        presses += 1
        terminal.notice("press Ctrl-C again or Ctrl-D to quit" if presses < _INTERRUPTS_TO_LEAVE else "quit")
    return None


async def _perform(command: str, chat: Chat, terminal: Terminal) -> None:
    match command:
        case "/tools":
            await chat.begin()
            _print_tools(chat, terminal)
        case "/servers":
            with terminal.waiting("asking the servers"):
                described = await chat.servers.describe()
            print_servers(described)
        case "/stats":
            terminal.note(savings_line(chat.conversation.statistics))
        case "/retry" if chat.is_pending:
            await chat.resume()
        case "/retry":
            terminal.notice("nothing to retry")
        case "/undo":
            chat.undo()
            terminal.note("removed the last turn; the effects of tool calls are not undone")
        case "/reset":
            chat.reset()
            terminal.note("started a new conversation")
        case "/help":
            terminal.note(_HELP)
        case _:
            terminal.notice(f"unknown command {command}; see /help. Messages to the model cannot start with /")


def _print_tools(chat: Chat, terminal: Terminal) -> None:
    for definition in chat.conversation.definitions:
        terminal.note(f"{definition.name}: {shorten(definition.description or '-', _DESCRIPTION_CHARS)}")
    if chat.conversation.manifest:
        terminal.note(f"can be found:\n{chat.conversation.manifest}")
