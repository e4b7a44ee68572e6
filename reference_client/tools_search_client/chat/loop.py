"""`Chat`: runs a conversation's turns. It asks the model and makes its calls until the model makes no more calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import anyio
from tools_search_hosts import Toolset
from tools_search_hosts.counts import number_of

from tools_search_client.chat.endpoint import ModelError, ShownBy
from tools_search_client.chat.models import Model
from tools_search_client.chat.terminal import Terminal
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Forward, Reply, ToolCall
from tools_search_client.errors import Failure, ToolsSearchClientError
from tools_search_client.federation.federation import Federation
from tools_search_client.providers import Adapter, Outcome
from tools_search_client.providers.results import bounded
from tools_search_client.remedies import with_remedy

_INTERRUPTED: Final = "[The user interrupted this answer.]"
_FAILED: Final = "[This answer failed.]"
_USUAL_STOPS: Final = frozenset({None, "stop", "end_turn", "tool_use", "tool_calls", "function_call", "completed"})
_MAX_RETRIES: Final = 2
_MAX_WAIT: Final = 60.0
"""In seconds. The user decides about longer waits."""


class TooManyRequestsError(ToolsSearchClientError):
    """The model reached the limit of requests in one turn and was still calling tools."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The user's choices for a conversation."""

    system: str
    """The system prompt."""
    shown_by: ShownBy
    toolset: Toolset
    """The toolset for the whole conversation."""
    calls_everything: bool
    """Whether to make all calls without asking the user."""
    max_requests: int
    """Maximum requests to the model per turn."""
    max_result_chars: int
    """Maximum characters of text from one tool result."""


class Chat:
    """A user's conversation with a model that calls tools.

    The states of a turn:

        idle     `turn`                           running
        running  the model calls nothing more     idle
        running  cancelled                        idle: open calls are answered as cancelled, and the model's last word
                                                  is that it was interrupted, so that the next turn can follow
        running  the provider failed              pending
        pending  `resume`                         running, with the same request
        pending  `turn`                           running: the failed turn is closed if the model has answered within
                                                  it, and dropped if the model never knew of it
    """

    def __init__(self, servers: Federation, model: Model, terminal: Terminal, options: ChatOptions) -> None:
        self.conversation: Final = Conversation(servers)
        self.servers: Final = servers
        self._model = model
        self._terminal = terminal
        self._options = options
        self._adapter = self._new_adapter()
        self._agreed: dict[str, tuple[Any, ...]] = {}
        """Tools that the user always allows, each with the parts the user saw."""
        self._streamed: list[str] = []
        """Pieces of an incomplete answer."""
        self._is_answered = False
        self.is_pending = False
        """Whether the last turn failed and can be resumed."""
        self._reported: set[str] = set()

    async def begin(self, text: str | None = None) -> None:
        """Get the servers' current tools, and show each server failure once."""
        with self._terminal.waiting("asking the servers"):
            started = await self.conversation.begin_turn(text, toolset=self._options.toolset)
        troubles = [*_failures(started.failed), *started.problems]
        self._report(troubles)
        self._reported &= {*troubles}  # what has passed is reported again if it comes back
        if started.loaded:
            self._terminal.notice(f"found before asking the model: {', '.join(started.loaded)}")
        for name in started.changed:
            if self._agreed.pop(name, None):
                self._terminal.notice(f"{name} was changed by its server, so you will be asked again")

    def _report(self, troubles: Sequence[str]) -> None:
        for trouble in troubles:
            if trouble not in self._reported:
                self._terminal.notice(trouble)
        self._reported |= {*troubles}

    async def turn(self, text: str) -> str:
        """Return the model's final answer to `text`.

        Raises:
            ModelError: There is no answer; `resume` asks again.
            InvalidAnswerError: The answer is not in the provider's format; `resume` asks again.
            TooManyRequestsError: The model was stopped.
            LocalError: The text is empty.
        """
        if self.is_pending and self._is_answered:
            self._close(_FAILED)
        elif self.is_pending:
            self._adapter.drop_turn()
        self.is_pending = False
        await self.begin(text)  # before `say`: if it is interrupted, the transcript is as it was
        self._adapter.say(text)
        self._is_answered = False
        return await self.resume()

    async def resume(self) -> str:
        """Continue a failed turn; see `turn`."""
        self.is_pending = False
        try:
            return await self._run()
        except anyio.get_cancelled_exc_class():
            self._close(_INTERRUPTED)
            raise
        except TooManyRequestsError as error:
            self._close(f"[{error}]")
            raise
        except ToolsSearchClientError:
            self._adapter.cancel()  # the next request needs an answer to every call
            self.is_pending = True
            raise

    def undo(self) -> None:
        """Remove the last turn from the conversation."""
        self._adapter.drop_turn()
        self.is_pending = False

    def reset(self) -> None:
        """Start a new conversation with the same servers."""
        self.conversation.start_over()
        self._adapter = self._new_adapter()
        self.is_pending = False

    async def _run(self) -> str:
        for _ in range(self._options.max_requests):
            message = self._adapter.read(await self._ask_model(self._adapter.request()))
            self._streamed.clear()
            self._is_answered = True
            self._terminal.end_of_text(is_answer=not message.calls)
            if message.stop_reason not in _USUAL_STOPS:
                self._terminal.notice(f"the model stopped: {message.stop_reason}")
            elif not message.calls and not message.text.strip():
                self._terminal.notice("the model's answer is empty")
            if not message.calls:
                return message.text
            for call in message.calls:
                self._adapter.answer(call, await self._outcome(call))
        raise TooManyRequestsError(
            f"The answer was stopped after {number_of(self._options.max_requests, 'request')} to the model."
        )

    async def _ask_model(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request. Retry if the provider is busy and no text has arrived yet."""

        def note_piece(piece: str) -> None:
            self._streamed.append(piece)
            self._terminal.text(piece)

        self._streamed.clear()
        attempt = 0
        while True:
            try:
                with self._terminal.waiting("waiting for the model"):
                    return await self._model.answer(request, note_piece)
            except ModelError as error:
                wait = 2.0**attempt if error.retry_after is None else error.retry_after
                if attempt == _MAX_RETRIES or self._streamed or not error.is_passing or wait > _MAX_WAIT:
                    raise
                self._terminal.notice(f"{error}; trying again in {wait:g} s")
            await anyio.sleep(wait)
            attempt += 1

    async def _outcome(self, call: ToolCall) -> Outcome:
        with self._terminal.waiting(call.name):
            step = await self.conversation.take(call)
        if isinstance(step, Reply):
            self._terminal.replied(step, is_search=call.name == self.conversation.search_name)
            self._report(_failures(step.failed))
            return step
        self._terminal.calling(step)
        try:
            is_allowed = await self._is_allowed(step)
        except BaseException:  # the user interrupted the question: nothing was called
            self.conversation.refused(step)
            raise
        began = monotonic()
        try:
            if is_allowed:
                with self._terminal.waiting(f"calling {step.tool.name}"):
                    result = await self.servers.call(step.tool.name, dict(step.call.arguments))
                outcome = bounded(result, self._options.max_result_chars)
            else:
                outcome = self.conversation.refused(step)
        except ToolsSearchClientError as error:
            outcome = self.conversation.failed(step, error)
        self._terminal.called(step, outcome, monotonic() - began)
        return outcome

    async def _is_allowed(self, step: Forward) -> bool:
        """Return whether the operator or the user allows a call; nothing a server says can allow it."""
        name, tool = step.tool.name, step.tool.tool
        # The user approved these parts. If any of them changes, it counts as a different tool.
        shown = (tool.description, tool.input_schema, tool.annotations)
        by_operator = self._options.calls_everything or self.servers.configuration.allows(step.tool)
        if by_operator or self._agreed.get(name) == shown:
            return True
        consent = await self._terminal.consent(step)
        if consent == "always":
            self._agreed[name] = shown
        return consent != "no"

    def _new_adapter(self) -> Adapter:
        options = self._options
        return self._model.new_adapter(self.conversation, system=options.system, shown_by=options.shown_by)

    def _close(self, reason: str) -> None:
        """End a turn so that any provider accepts the next one: all calls answered, the last message the model's."""
        self._adapter.cancel()
        streamed = "".join(self._streamed).strip()
        self._streamed.clear()
        self._adapter.read(self._model.only_text(f"{streamed}\n\n{reason}" if streamed else reason))


def _failures(failed: Mapping[str, Failure]) -> list[str]:
    return [f"{server or 'the server'} failed: {with_remedy(reason)}" for server, reason in failed.items()]
