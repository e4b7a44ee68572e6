"""A conversation in the terminal: one question, or lines for the model and commands for the program until `/quit`."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final

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
/tools    the tools that the model has, and where it finds others
/servers  the state of each server
/stats    what this conversation took, and what it saved
/retry    ask the model again after a failure
/undo     forget the last turn
/reset    begin another conversation
/quit     leave; so does Ctrl-D
Ctrl-C stops an answer or a call, and keeps the conversation."""

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
        yield Chat(selection.configuration, servers, model, terminal, options)


def list_models(endpoint: Endpoint) -> list[str]:
    """Return the names of the models that can be had there; raises `ToolsSearchClientError` where there is no list."""

    async def run() -> list[str]:
        async with open_model(endpoint) as model:
            return await model.siblings()

    return run_until_signal(run)


def answer_once(
    selection: ServerSelection, endpoint: Endpoint, options: ChatOptions, text: str, *, may_ask: bool, prints: bool
) -> tuple[str, dict[str, Any]]:
    """Return the answer to one text, which is also printed if `prints`, and the statistics.

    Raises `ToolsSearchClientError` where there is no answer, and `InterruptionError` where a signal came first.
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
    """Hold a conversation in the terminal until the user leaves, or a signal comes; Ctrl-C is one before it begins."""
    keyboard = Keyboard(_SLASH_COMMANDS)
    terminal = Terminal(keyboard)

    async def run() -> None:
        async with _open_chat(selection, endpoint, options, terminal) as chat:
            with keyboard.interruptible() as scope:
                await chat.begin()
            if scope.cancel_called:
                raise InterruptionError(signal.SIGINT)
            number = len(chat.conversation.definitions)
            terminal.note(f"{endpoint.model} has {number} tool{'s' * (number != 1)} to begin with; /help helps")
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
                            terminal.notice(
                                "/retry asks again, another text takes the place of this one, /reset starts over"
                            )
                if scope.cancelled_caught:
                    terminal.notice("stopped; the conversation goes on")
            terminal.note(savings_line(chat.conversation.statistics))

    run_until_signal(run, on_interrupt=keyboard.interrupt)


async def _next_line(keyboard: Keyboard, terminal: Terminal) -> str | None:
    """Return the next line that is not blank, or `None` when the user leaves: by Ctrl-D, or by Ctrl-C twice."""
    presses = 0
    while presses < _INTERRUPTS_TO_LEAVE:
        with keyboard.interruptible():
            line = await keyboard.line()
            if line is None or line.strip():
                return line and line.strip()
            continue
        presses += 1
        terminal.notice("Ctrl-C again, or Ctrl-D, leaves" if presses < _INTERRUPTS_TO_LEAVE else "left")
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
            terminal.notice("nothing failed")
        case "/undo":
            chat.undo()
            terminal.note("the last turn is forgotten; what tools did is not undone")
        case "/reset":
            chat.reset()
            terminal.note("this is another conversation")
        case "/help":
            terminal.note(_HELP)
        case _:
            terminal.notice(f"{command} is unknown; see /help. A text for the model must not begin with /")


def _print_tools(chat: Chat, terminal: Terminal) -> None:
    for definition in chat.conversation.definitions:
        terminal.note(f"{definition.name}: {shorten(definition.description or '-', _DESCRIPTION_CHARS)}")
    if chat.conversation.manifest:
        terminal.note(f"to be found:\n{chat.conversation.manifest}")
