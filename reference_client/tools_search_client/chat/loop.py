"""The turns of one conversation: the model is asked, its calls are carried out, until it has nothing more to call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

import anyio
from mcp_types import CallToolResult

from tools_search_client.chat.asking import Asking
from tools_search_client.chat.model import Model
from tools_search_client.chat.permission import Permissions
from tools_search_client.chat.results import bounded
from tools_search_client.chat.surface import AnswerStopped, Surface
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Forward, Reply, ToolCall
from tools_search_client.errors import ToolsSearchClientError
from tools_search_client.federation.federation import Federation
from tools_search_client.providers.adapter import Adapter, Outcome, Said

__all__ = ["Chat", "Limits", "TooManyRequests"]

_INTERRUPTED: Final = "[The user interrupted this answer.]"
_FAILED: Final = "[This answer failed.]"
_USUAL_STOPS: Final = frozenset({None, "stop", "end_turn", "tool_use", "tool_calls", "function_call", "completed"})


class TooManyRequests(ToolsSearchClientError):
    """The model went on calling tools for longer than it may in one turn."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may take."""

    requests: int = 30
    """Requests to the model."""
    result_chars: int = 50_000
    """Characters of text of one tool's result."""


class Chat:
    """One conversation of a user with a model that calls tools.

    A turn can be cancelled at any moment: what was said and called stays in the conversation, open calls are answered
    as cancelled, and the next turn follows as if the model had ended this one.

    Args:
        conversation: What the model is offered.
        servers: Who carries out its calls.
        model: The model.
        new_adapter: Returns the model's adapter for the conversation, with nothing said yet.
        surface: Who watches.
        permissions: What may be called without asking.
        limits: What one turn may take.
        toolset: The name of the choice among all tools that holds for the whole conversation.
    """

    def __init__(
        self,
        conversation: Conversation,
        servers: Federation,
        model: Model,
        new_adapter: Callable[[], Adapter],
        surface: Surface,
        *,
        permissions: Permissions | None = None,
        limits: Limits | None = None,
        toolset: str | None = None,
    ) -> None:
        self.conversation: Final = conversation
        self.servers: Final = servers
        self._model = model
        self._asking = Asking(model, surface)
        self._new_adapter = new_adapter
        self._surface = surface
        self._permissions = permissions or Permissions()
        self._limits = limits or Limits()
        self._toolset = toolset
        self._adapter = new_adapter()
        self._is_answered = False
        self._is_pending = False
        self._told: set[str] = set()

    @property
    def is_pending(self) -> bool:
        """Whether the last turn failed and can be resumed."""
        return self._is_pending

    async def begin(self, text: str | None = None) -> None:
        """Take note of what the servers offer now, and show what is wrong with them, each fault once.

        Raises:
            LocalError: There is no such toolset.
        """
        with self._surface.waiting("asking the servers"):
            started = await self.conversation.begin_turn(text, toolset=self._toolset)
        failed = [f"{server or 'the server'} failed: {reason}" for server, reason in started.failures.items()]
        for trouble in [*failed, *started.problems]:
            if trouble not in self._told:
                self._surface.notice(trouble)
        self._told = {*failed, *started.problems}
        if started.loaded:
            self._surface.notice(f"found before asking the model: {', '.join(started.loaded)}")
        if started.changed:
            changed = ", ".join(started.changed)
            self._surface.notice(f"changed by their servers, so you are asked again before a call: {changed}")

    async def turn(self, text: str) -> str:
        """Return what the model finally answers to `text`.

        Raises:
            ModelFailed: There is no answer; `resume` asks again.
            InvalidAnswerError: It is none of the provider's; `resume` asks again.
            TooManyRequests: The model was stopped.
            LocalError: The text is empty.
            AnswerStopped: The user interrupted it.
        """
        self._leave_pending()
        await self.begin(text)
        self._adapter.say(text)
        self._is_answered = False
        return await self.resume()

    async def resume(self) -> str:
        """Go on with a turn that failed; see `turn`."""
        self._is_pending = False
        try:
            return await self._rounds()
        except (anyio.get_cancelled_exc_class(), AnswerStopped):
            self._close(_INTERRUPTED)
            raise
        except TooManyRequests as error:
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

    async def _rounds(self) -> str:
        for _ in range(self._limits.requests):
            said = await self._said()
            self._surface.end_of_text(is_answer=not said.calls)
            if said.stop not in _USUAL_STOPS:
                self._surface.notice(f"the model stopped: {said.stop}")
            elif not said.calls and not said.text.strip():
                self._surface.notice("the model answered nothing")
            if not said.calls:
                return said.text
            for call in said.calls:
                self._adapter.answer(call, await self._outcome(call))
        raise TooManyRequests(f"The answer was stopped after {self._limits.requests} requests to the model.")

    async def _said(self) -> Said:
        answer = await self._asking.answer(self._adapter.request())
        said = self._adapter.read(answer)
        self._asking.done()
        self._is_answered = True
        usage = self._model.usage(answer)
        self.conversation.statistics.add_usage(prompt_tokens=usage.prompt, completion_tokens=usage.completion)
        return said

    async def _outcome(self, call: ToolCall) -> Outcome:
        with self._surface.waiting(call.name):
            step = await self.conversation.take(call)
        if isinstance(step, Reply):
            self._surface.replied(step, is_search=call.name == self.conversation.search_name)
            return step
        self._surface.calling(step)
        if not await self._permissions.allows(step, self._surface.consent):
            refused = self.conversation.refused(step)
            self._surface.called(step, refused, 0.0)
            return refused
        began = monotonic()
        outcome = await self._called(step)
        self._surface.called(step, outcome, monotonic() - began)
        return outcome

    async def _called(self, step: Forward) -> CallToolResult | Reply:
        try:
            with self._surface.waiting(f"calling {step.tool.name}"):
                result = await self.servers.call(step.tool.name, dict(step.call.arguments))
        except ToolsSearchClientError as error:
            return self.conversation.failed(step, error)
        return bounded(result, self._limits.result_chars)

    def _close(self, why: str) -> None:
        """End a turn so that any provider takes the next one: everything answered, and the last word the model's."""
        self._adapter.cancel()
        self._adapter.read(self._asking.ended_by(why))

    def _leave_pending(self) -> None:
        """Give up a turn that failed; the model never hears of one of which it knows nothing."""
        if not self._is_pending:
            return
        if self._is_answered:
            self._close(_FAILED)
        else:
            self._adapter.drop_turn()
        self._is_pending = False
