"""What a user types to the program instead of the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from tools_search_client.chat.lines import savings_line
from tools_search_client.chat.loop import Chat
from tools_search_client.chat.terminal import Terminal
from tools_search_client.cli.show import print_servers
from tools_search_client.text import shorten

__all__ = ["HELP", "LEAVE", "RETRY", "WORDS", "perform"]

LEAVE: Final = ("/quit", "/exit")
RETRY: Final = "/retry"

HELP: Final = """\
/tools    the tools that the model has, and where it finds others
/servers  how each server does
/stats    what this conversation took, and what it saved
/retry    ask the model again after a failure
/undo     forget the last turn
/reset    begin another conversation
/quit     leave; so does Ctrl-D
Ctrl-C stops an answer or a call, and keeps the conversation."""

_DESCRIPTION_CHARS: Final = 100

Action: TypeAlias = Callable[[Chat, Terminal], Awaitable[None]]


async def perform(word: str, chat: Chat, terminal: Terminal) -> None:
    """Do what `word` says; an unknown one is explained."""
    action = _ACTIONS.get(word)
    if action is None:
        terminal.notice(f"{word} is unknown; /help tells what there is. A text for the model must not begin with /")
    else:
        await action(chat, terminal)


async def _tools(chat: Chat, terminal: Terminal) -> None:
    await chat.begin()
    for definition in chat.conversation.definitions:
        terminal.note(f"{definition.name}: {shorten(definition.description or '-', _DESCRIPTION_CHARS)}")
    if chat.conversation.manifest:
        terminal.note(f"to be found:\n{chat.conversation.manifest}")


async def _servers(chat: Chat, terminal: Terminal) -> None:
    with terminal.waiting("asking the servers"):
        described = await chat.servers.describe()
    print_servers(described)


async def _stats(chat: Chat, terminal: Terminal) -> None:
    terminal.note(savings_line(chat.conversation.statistics))


async def _undo(chat: Chat, terminal: Terminal) -> None:
    chat.undo()
    terminal.note("the last turn is forgotten; what tools did is not undone")


async def _reset(chat: Chat, terminal: Terminal) -> None:
    chat.reset()
    terminal.note("this is another conversation")


async def _help(_: Chat, terminal: Terminal) -> None:
    terminal.note(HELP)


_ACTIONS: Final[Mapping[str, Action]] = {
    "/tools": _tools,
    "/servers": _servers,
    "/stats": _stats,
    "/undo": _undo,
    "/reset": _reset,
    "/help": _help,
}

WORDS: Final = (*_ACTIONS, RETRY, *LEAVE)
