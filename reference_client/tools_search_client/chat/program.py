"""A conversation with everything that it needs: servers, model and terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from tools_search_client.chat.endpoint import Endpoint, ShownBy
from tools_search_client.chat.interactive import SLASH_COMMANDS, converse
from tools_search_client.chat.keyboard import AnswerInterruptedError, Interrupts, Keyboard
from tools_search_client.chat.loop import Chat, Permissions, TurnLimits
from tools_search_client.chat.models import new_adapter, open_model
from tools_search_client.chat.terminal import Terminal, savings_line
from tools_search_client.cli.running import InterruptionError, run_until_signal
from tools_search_client.cli.targets import Target
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.federation.federation import open_federation


@dataclass(frozen=True, slots=True)
class Session:
    """The settings of a conversation."""

    target: Target
    endpoint: Endpoint
    sdk: ModuleType
    system: str
    shown_by: ShownBy
    toolset: str | None
    permissions: Permissions
    limits: TurnLimits

    @asynccontextmanager
    async def open(self, terminal: Terminal) -> AsyncGenerator[Chat]:
        """Offer a conversation until the block ends."""
        configuration, endpoint = self.target.configuration, self.endpoint
        async with (
            open_federation(configuration, self.target.options) as servers,
            open_model(endpoint, self.sdk) as model,
        ):
            source = FederationSource(servers, configuration, deadline=self.target.timeout)
            conversation = Conversation(source, configuration.tool_discovery, tool_sets=configuration.tool_sets)
            adapter = partial(new_adapter, endpoint, conversation, system=self.system, shown_by=self.shown_by)
            chat = Chat(
                conversation,
                servers,
                model,
                adapter,
                terminal,
                permissions=self.permissions,
                limits=self.limits,
                toolset=self.toolset,
            )
            yield chat


def answer_once(session: Session, text: str, *, may_ask: bool, prints: bool) -> tuple[str, dict[str, Any]]:
    """Return the answer to one text, which is also printed if `prints`, and the statistics.

    Raises:
        ToolsSearchClientError: There is no answer.
        InterruptionError: A signal came first.
    """
    holds_text = not prints or not sys.stdout.isatty()
    terminal = Terminal(Keyboard() if may_ask else None, holds_text=holds_text, prints_answer=prints)

    async def run() -> tuple[str, dict[str, Any]]:
        async with session.open(terminal) as chat:
            try:
                return await chat.turn(text), chat.conversation.statistics.to_json()
            except AnswerInterruptedError:
                raise InterruptionError(signal.SIGINT) from None
            finally:
                terminal.note(savings_line(chat.conversation.statistics))

    return run_until_signal(run)


def talk(session: Session) -> None:
    """Hold a conversation in the terminal until the user leaves.

    Raises:
        ToolsSearchClientError: It cannot begin.
        InterruptionError: A signal ended it; Ctrl-C does so only before it begins.
    """
    keyboard, interrupts = Keyboard(SLASH_COMMANDS), Interrupts()
    terminal = Terminal(keyboard)

    async def run() -> None:
        async with session.open(terminal) as chat:
            with interrupts.cancellable() as scope:
                await chat.begin()
            if scope.cancel_called:
                raise InterruptionError(signal.SIGINT)
            number = len(chat.conversation.definitions)
            model = session.endpoint.model
            terminal.note(f"{model} has {number} tool{'s' * (number != 1)} to begin with; /help helps")
            await converse(chat, keyboard, terminal, interrupts)
            terminal.note(savings_line(chat.conversation.statistics))

    run_until_signal(run, on_interrupt=interrupts.stop)
