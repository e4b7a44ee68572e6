"""One line of the user after the other, until they leave."""

from __future__ import annotations

from typing import Final

from tools_search_client.chat.interrupts import Interrupts
from tools_search_client.chat.keyboard import Keyboard
from tools_search_client.chat.loop import Chat
from tools_search_client.chat.slash import LEAVE, RETRY, perform
from tools_search_client.chat.surface import AnswerStopped
from tools_search_client.chat.terminal import Terminal
from tools_search_client.errors import ToolsSearchClientError

__all__ = ["converse"]

_STOPS_TO_LEAVE: Final = 2


async def converse(chat: Chat, keyboard: Keyboard, terminal: Terminal, interrupts: Interrupts) -> None:
    """Talk until the user leaves; whatever fails is told, and the conversation goes on."""
    while True:
        line = await _next_line(keyboard, terminal, interrupts)
        if line is None or line in LEAVE:
            return
        was_stopped = False
        with interrupts.cancellable() as scope:
            try:
                await _perform(line, chat, terminal)
            except AnswerStopped:
                was_stopped = True
            except ToolsSearchClientError as error:
                terminal.notice(f"Error: {error}")
                if chat.is_pending:
                    terminal.notice("/retry asks again, another text takes the place of this one, /reset begins anew")
        if was_stopped or scope.cancelled_caught:
            terminal.notice("stopped; the conversation goes on")


async def _perform(line: str, chat: Chat, terminal: Terminal) -> None:
    if line == RETRY and chat.is_pending:
        await chat.resume()
    elif line == RETRY:
        terminal.notice("nothing failed")
    elif line.startswith("/"):
        await perform(line.split()[0], chat, terminal)
    else:
        await chat.turn(line)


async def _next_line(keyboard: Keyboard, terminal: Terminal, interrupts: Interrupts) -> str | None:
    """Return the next line that is not blank, or `None` when the user leaves: by Ctrl-D, or by Ctrl-C twice."""
    stops = 0
    while stops < _STOPS_TO_LEAVE:
        line: str | None = ""
        with interrupts.cancellable() as scope:
            try:
                line = await keyboard.line()
            except AnswerStopped:
                scope.cancel()
        if line is None or line.strip():
            return line and line.strip()
        if scope.cancel_called:
            stops += 1
            terminal.notice("Ctrl-C again, or Ctrl-D, leaves" if stops < _STOPS_TO_LEAVE else "left")
    return None
