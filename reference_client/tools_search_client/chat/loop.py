"""`Chat`: the turns of one conversation. The model is asked and its calls are made, until it calls nothing more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import anyio
from mcp_types import CallToolResult, Tool

from tools_search_client.chat.failures import ModelError
from tools_search_client.chat.keyboard import AnswerInterruptedError
from tools_search_client.chat.models import Model
from tools_search_client.chat.terminal import Consent, Terminal
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Forward, Reply, ToolCall
from tools_search_client.errors import ToolsSearchClientError
from tools_search_client.federation.federation import Federation
from tools_search_client.found import FoundTool
from tools_search_client.providers import Adapter, ModelMessage, Outcome
from tools_search_client.providers.results import bounded

_INTERRUPTED: Final = "[The user interrupted this answer.]"
_FAILED: Final = "[This answer failed.]"
_USUAL_STOPS: Final = frozenset({None, "stop", "end_turn", "tool_use", "tool_calls", "function_call", "completed"})
_MAX_RETRIES: Final = 2
_MAX_WAIT: Final = 60.0
"""Seconds; a user who would have to wait longer decides whether to."""


class TooManyRequestsError(ToolsSearchClientError):
    """The model went on calling tools for longer than it may in one turn."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Bounds on one turn."""

    requests: int = 30
    """Requests to the model."""
    result_chars: int = 50_000
    """Characters of text of one tool's result."""


class Permissions:
    """The tools that are called without asking: the operator or the user allows them, a server never does.

    Args:
        allowed: Returns whether the operator allows a tool.
        everything: Whether nobody is ever asked.
    """

    def __init__(self, allowed: Callable[[FoundTool], bool], *, everything: bool = False) -> None:
        self._allowed = allowed
        self._everything = everything
        self._always: dict[str, tuple[Any, ...]] = {}

    async def allow(self, forward: Forward, ask: Callable[[Forward], Awaitable[Consent]]) -> bool:
        """Return whether a call may be made; `ask` is called where that is not known."""
        name = forward.tool.name
        if self._everything or self._allowed(forward.tool) or self._always.get(name) == _shown(forward.tool.tool):
            return True
        consent = await ask(forward)
        if consent == "always":
            self._always[name] = _shown(forward.tool.tool)
        return consent != "no"


def _shown(tool: Tool) -> tuple[Any, ...]:
    """Return the parts of a tool that a user agrees to: with another description or schema it is another tool."""
    return (tool.description, tool.input_schema, tool.annotations)


class Chat:
    """One conversation of a user with a model that calls tools.

    The states of a turn:

        idle     `turn`                           running
        running  the model calls nothing more     idle
        running  cancelled, or interrupted        idle: open calls are answered as cancelled, and the model's last word
                                                  is that it was interrupted, so that the next turn can follow
        running  the provider failed              pending
        pending  `resume`                         running, with the same request
        pending  `turn`                           running: the failed turn is closed if the model has answered within
                                                  it, and dropped if the model never knew of it

    Args:
        conversation: The tools that the model is offered.
        servers: The servers that carry out its calls.
        model: The model.
        new_adapter: Returns the model's adapter for the conversation, with nothing said yet.
        terminal: Where everything is shown, and the user is asked.
        permissions: The tools that are called without asking.
        limits: Bounds on one turn.
        toolset: The name of the choice among all tools that holds for the whole conversation.
    """

    def __init__(
        self,
        conversation: Conversation,
        servers: Federation,
        model: Model,
        new_adapter: Callable[[], Adapter],
        terminal: Terminal,
        *,
        permissions: Permissions,
        limits: TurnLimits,
        toolset: str | None = None,
    ) -> None:
        self.conversation: Final = conversation
        self.servers: Final = servers
        self._model = model
        self._new_adapter = new_adapter
        self._terminal = terminal
        self._permissions = permissions
        self._limits = limits
        self._toolset = toolset
        self._adapter = new_adapter()
        self._heard: list[str] = []
        """Pieces of an answer that is not complete."""
        self._is_answered = False
        self._is_pending = False
        self._reported: set[str] = set()

    @property
    def is_pending(self) -> bool:
        """Whether the last turn failed and can be resumed."""
        return self._is_pending

    async def begin(self, text: str | None = None) -> None:
        """Take note of the tools that the servers offer now, and show the servers' faults, each once.

        Raises:
            LocalError: There is no such toolset.
        """
        with self._terminal.waiting("asking the servers"):
            started = await self.conversation.begin_turn(text, toolset=self._toolset)
        failed = [f"{server or 'the server'} failed: {reason}" for server, reason in started.failures.items()]
        troubles = [*failed, *started.problems]
        for trouble in troubles:
            if trouble not in self._reported:
                self._terminal.notice(trouble)
        self._reported = set(troubles)
        if started.loaded:
            self._terminal.notice(f"found before asking the model: {', '.join(started.loaded)}")
        if started.changed:
            changed = ", ".join(started.changed)
            self._terminal.notice(f"changed by their servers, so you are asked again before a call: {changed}")

    async def turn(self, text: str) -> str:
        """Return the model's final answer to `text`.

        Raises:
            ModelError: There is no answer; `resume` asks again.
            InvalidAnswerError: The answer is not in the provider's format; `resume` asks again.
            TooManyRequestsError: The model was stopped.
            LocalError: The text is empty.
            AnswerInterruptedError: The user interrupted it.
        """
        if self._is_pending and self._is_answered:
            self._close(_FAILED)
        elif self._is_pending:
            self._adapter.drop_turn()
        self._is_pending = False
        await self.begin(text)
        self._adapter.say(text)
        self._is_answered = False
        return await self.resume()

    async def resume(self) -> str:
        """Continue a turn that failed; see `turn`."""
        self._is_pending = False
        try:
            return await self._run()
        except (anyio.get_cancelled_exc_class(), AnswerInterruptedError):
            self._close(_INTERRUPTED)
            raise
        except TooManyRequestsError as error:
            self._close(f"[{error}]")
            raise
        except ToolsSearchClientError:
            self._adapter.cancel()
            self._is_pending = True
            raise

    def undo(self) -> None:
        """Forget the last turn as if it had never been."""
        self._adapter.drop_turn()
        self._is_pending = False

    def reset(self) -> None:
        """Begin another conversation with the same servers."""
        self.conversation.start_over()
        self._adapter = self._new_adapter()
        self._is_pending = False

    async def _run(self) -> str:
        for _ in range(self._limits.requests):
            message = await self._next_message()
            self._terminal.end_of_text(is_answer=not message.calls)
            if message.stop_reason not in _USUAL_STOPS:
                self._terminal.notice(f"the model stopped: {message.stop_reason}")
            elif not message.calls and not message.text.strip():
                self._terminal.notice("the model answered nothing")
            if not message.calls:
                return message.text
            for call in message.calls:
                self._adapter.answer(call, await self._outcome(call))
        raise TooManyRequestsError(f"The answer was stopped after {self._limits.requests} requests to the model.")

    async def _next_message(self) -> ModelMessage:
        answer = await self._ask_model(self._adapter.request())
        message = self._adapter.read(answer)
        self._heard.clear()
        self._is_answered = True
        read, written = self._model.usage(answer)
        self.conversation.statistics.add_usage(prompt_tokens=read, completion_tokens=written)
        return message

    async def _ask_model(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request, which is sent again where the provider is busy and nothing was heard yet."""
        self._heard.clear()
        attempt = 0
        while True:
            try:
                with self._terminal.waiting("waiting for the model"):
                    return await self._model.answer(request, self._hear)
            except ModelError as error:
                wait = 2.0**attempt if error.retry_after is None else error.retry_after
                if attempt == _MAX_RETRIES or self._heard or not error.is_passing or wait > _MAX_WAIT:
                    raise
                self._terminal.notice(f"{error}; trying again in {wait:g} s")
            await anyio.sleep(wait)
            attempt += 1

    def _hear(self, piece: str) -> None:
        self._heard.append(piece)
        self._terminal.text(piece)

    async def _outcome(self, call: ToolCall) -> Outcome:
        with self._terminal.waiting(call.name):
            step = await self.conversation.take(call)
        if isinstance(step, Reply):
            self._terminal.replied(step, is_search=call.name == self.conversation.search_name)
            return step
        self._terminal.calling(step)
        is_allowed = await self._permissions.allow(step, self._terminal.consent)
        began = monotonic()
        outcome = await self._called(step) if is_allowed else self.conversation.refused(step)
        self._terminal.called(step, outcome, monotonic() - began)
        return outcome

    async def _called(self, step: Forward) -> CallToolResult | Reply:
        try:
            with self._terminal.waiting(f"calling {step.tool.name}"):
                result = await self.servers.call(step.tool.name, dict(step.call.arguments))
        except ToolsSearchClientError as error:
            return self.conversation.failed(step, error)
        return bounded(result, self._limits.result_chars)

    def _close(self, reason: str) -> None:
        """End a turn so that any provider accepts the next one: all calls answered, and the last word the model's."""
        self._adapter.cancel()
        heard = "".join(self._heard).strip()
        self._heard.clear()
        self._adapter.read(self._model.only_text(f"{heard}\n\n{reason}" if heard else reason))
