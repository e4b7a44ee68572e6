"""A conversation in the terminal: lines for the model, and commands that begin with a slash for the program."""

from __future__ import annotations

from typing import Final

from tools_search_client.chat.keyboard import AnswerInterruptedError, Interrupts, Keyboard
from tools_search_client.chat.loop import Chat
from tools_search_client.chat.terminal import Terminal, savings_line
from tools_search_client.cli.show import print_servers
from tools_search_client.errors import ToolsSearchClientError
from tools_search_client.text import shorten

_LEAVE: Final = ("/quit", "/exit")
SLASH_COMMANDS: Final = ("/tools", "/servers", "/stats", "/undo", "/reset", "/help", "/retry", *_LEAVE)

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


async def converse(chat: Chat, keyboard: Keyboard, terminal: Terminal, interrupts: Interrupts) -> None:
    """Talk until the user leaves; a failure is shown, and the conversation goes on."""
    while (line := await _next_line(keyboard, terminal, interrupts)) is not None and line not in _LEAVE:
        was_interrupted = False
        with interrupts.cancellable() as scope:
            try:
                if line.startswith("/"):
                    await _perform(line.split()[0], chat, terminal)
                else:
                    await chat.turn(line)
            except AnswerInterruptedError:
                was_interrupted = True
            except ToolsSearchClientError as error:
                terminal.notice(f"Error: {error}")
                if chat.is_pending:
                    terminal.notice("/retry asks again, another text takes the place of this one, /reset starts over")
        if was_interrupted or scope.cancelled_caught:
            terminal.notice("stopped; the conversation goes on")


async def _next_line(keyboard: Keyboard, terminal: Terminal, interrupts: Interrupts) -> str | None:
    """Return the next line that is not blank, or `None` when the user leaves: by Ctrl-D, or by Ctrl-C twice."""
    presses = 0
    while presses < _INTERRUPTS_TO_LEAVE:
        line: str | None = ""
        with interrupts.cancellable() as scope:
            try:
                line = await keyboard.line()
            except AnswerInterruptedError:
                scope.cancel()
        if line is None or line.strip():
            return line and line.strip()
        if scope.cancel_called:
            presses += 1
            terminal.notice("Ctrl-C again, or Ctrl-D, leaves" if presses < _INTERRUPTS_TO_LEAVE else "left")
    return None


async def _perform(command: str, chat: Chat, terminal: Terminal) -> None:
    match command:
        case "/tools":
            await _show_tools(chat, terminal)
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


async def _show_tools(chat: Chat, terminal: Terminal) -> None:
    await chat.begin()
    for definition in chat.conversation.definitions:
        terminal.note(f"{definition.name}: {shorten(definition.description or '-', _DESCRIPTION_CHARS)}")
    if chat.conversation.manifest:
        terminal.note(f"to be found:\n{chat.conversation.manifest}")
