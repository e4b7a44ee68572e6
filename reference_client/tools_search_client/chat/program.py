"""A conversation with everything that it takes: servers, model, terminal."""

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
from tools_search_client.chat.interrupts import Interrupts
from tools_search_client.chat.keyboard import Keyboard
from tools_search_client.chat.lines import savings_line
from tools_search_client.chat.loop import Chat, Limits
from tools_search_client.chat.permission import Permissions
from tools_search_client.chat.prompt import converse
from tools_search_client.chat.providers import new_adapter, open_model
from tools_search_client.chat.slash import WORDS
from tools_search_client.chat.surface import AnswerStopped
from tools_search_client.chat.terminal import Terminal
from tools_search_client.cli.running import Interrupted, run_until_signal
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.federation.configuration import Configuration
from tools_search_client.federation.federation import FederationOptions, open_federation

__all__ = ["Plan", "answer_once", "talk"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a conversation is held with."""

    endpoint: Endpoint
    sdk: ModuleType
    configuration: Configuration
    servers: FederationOptions
    timeout: float
    """Seconds to wait for the slowest server."""
    system: str
    shown_by: ShownBy
    toolset: str | None
    permissions: Permissions
    limits: Limits


def answer_once(plan: Plan, text: str, *, may_ask: bool, prints: bool) -> tuple[str, dict[str, Any]]:
    """Return the answer to one text, which is also printed if that is wanted, and the statistics.

    Raises:
        ToolsSearchClientError: There is no answer.
        Interrupted: A signal came first.
    """
    holds_text = not prints or not sys.stdout.isatty()
    terminal = Terminal(Keyboard() if may_ask else None, holds_text=holds_text, prints_answer=prints)

    async def run() -> tuple[str, dict[str, Any]]:
        async with _open(plan, terminal) as chat:
            try:
                answer = await chat.turn(text)
            except AnswerStopped:
                raise Interrupted(signal.SIGINT) from None
            finally:
                terminal.note(savings_line(chat.conversation.statistics))
            return answer, chat.conversation.statistics.to_json()

    return run_until_signal(run)


def talk(plan: Plan) -> None:
    """Hold a conversation in the terminal until the user leaves.

    Raises:
        ToolsSearchClientError: It cannot begin.
        Interrupted: A signal ended it; Ctrl-C does so only before it begins.
    """
    keyboard, interrupts = Keyboard(WORDS), Interrupts()
    terminal = Terminal(keyboard)

    async def run() -> None:
        async with _open(plan, terminal) as chat:
            with interrupts.cancellable() as scope:
                await chat.begin()
            if scope.cancel_called:
                raise Interrupted(signal.SIGINT)
            number = len(chat.conversation.definitions)
            terminal.note(f"{plan.endpoint.model} has {number} tool{'s' * (number != 1)} to begin with; /help helps")
            await converse(chat, keyboard, terminal, interrupts)
            terminal.note(savings_line(chat.conversation.statistics))

    run_until_signal(run, on_interrupt=interrupts.stop)


@asynccontextmanager
async def _open(plan: Plan, terminal: Terminal) -> AsyncGenerator[Chat]:
    async with (
        open_federation(plan.configuration, plan.servers) as servers,
        open_model(plan.endpoint, plan.sdk) as model,
    ):
        source = FederationSource(servers, plan.configuration, deadline=plan.timeout)
        discovery, tool_sets = plan.configuration.tool_discovery, plan.configuration.tool_sets
        conversation = Conversation(source, discovery, tool_sets=tool_sets)
        yield Chat(
            conversation,
            servers,
            model,
            partial(new_adapter, plan.endpoint, conversation, system=plan.system, shown_by=plan.shown_by),
            terminal,
            permissions=plan.permissions,
            limits=plan.limits,
            toolset=plan.toolset,
        )
