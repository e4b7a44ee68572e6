"""`Adapter`: one conversation with one model in its provider's own format, so that a host's loop is always the same.

The transcript is a list of items in the provider's form. It only grows at its end, with two exceptions: `drop_turn`
takes it back, and tools in it that are no longer offered are taken out. The user's role holds what the user wrote and
fixed words of this project, never words of a server. Results are appended together, in the order of their calls, once
every call is answered: all providers require that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from mcp_types import CallToolResult

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Reply, ToolCall
from tools_search_client.errors import InvalidAnswerError, LocalError
from tools_search_client.providers.json_values import copied
from tools_search_client.providers.results import EMPTY_RESULT, Part, parts_of
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool, SentTools

Outcome: TypeAlias = Reply | CallToolResult
"""What answers a call: a reply of the conversation or of the host, or the result of a server."""

_CANCELLED: Final = "The user interrupted this call; it was not carried out, or its result was not awaited."


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """One answer of the model."""

    text: str
    """To be shown to the user; may be empty."""

    calls: tuple[ToolCall, ...] = ()
    """To be given to `Conversation.take`, each, and answered; names and arguments are those of the original tools."""

    stop_reason: str | None = None
    """Why the model stopped, in the provider's own word, such as `max_tokens`."""


@dataclass(frozen=True, slots=True)
class ProviderMessage:
    """A provider's answer, parsed."""

    items: Sequence[dict[str, Any]]
    """To be appended to the transcript."""
    text: str
    calls: Sequence[ProviderCall]
    stop_reason: str | None


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call and its result, for a provider's form of both."""

    call: ProviderCall
    parts: list[Part]
    is_error: bool
    found: list[SentTool] = field(default_factory=list[SentTool])
    """Tools that became callable by it and are to be shown with it, where the provider has a form for that."""
    remarks: str = ""
    """What else there is to say where a result has room for tools alone; fit to stand in the user's role."""


class Adapter(ABC):
    """One conversation with one model: requests for its provider, and the provider's answers. It does no I/O.

    For each turn: `say`, then `request` and `read` until there are no more calls, each of which is answered by
    `answer`. A subclass has its provider's form for each item, and states which of these the provider offers.

    Args:
        conversation: Whose tools are offered.
        model: The provider's name of the model.
        limits: Bounds on the tools that the provider accepts.
        system: The system prompt.
        call_tool: Whether the list of tools stays as it is at first, and other tools are called through `call_tool`.
        in_transcript: Whether the provider has a form for tools that are added at a point of the transcript.
        by_reference: Whether that form has the names alone, and the definitions stand in the list.
        options: Further members of every request.
    """

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        limits: ProviderLimits,
        system: str | None,
        call_tool: bool,
        in_transcript: bool = False,
        by_reference: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._conversation = conversation
        self._model = model
        self._system = system
        self._in_transcript = in_transcript and not call_tool
        self._by_reference = by_reference and self._in_transcript
        self._options = dict(options or {})
        self._tools = SentTools(limits, in_transcript=self._in_transcript, by_call_tool=call_tool)
        self._transcript: list[dict[str, Any]] = []
        self._unsent: list[str] = []
        """Texts for the user's role that are in no request yet: they become one message, because roles alternate."""
        self._calls: dict[str, tuple[ProviderCall, ToolCall]] = {}
        self._answers: dict[str, Outcome] = {}
        self._used_ids: set[str] = set()
        self._turn_start: tuple[int, Mapping[str, SentTool]] = (0, {})
        self._notices_of_turn: list[str] = []
        self._notices_to_repeat: list[str] = []
        conversation.limit(limits.max_tools, besides=1 if call_tool else 0)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are not answered yet: no provider accepts a request before they are."""
        return tuple(call for key, (_, call) in self._calls.items() if key not in self._answers)

    def say(self, text: str, /) -> None:
        """Append what the user wrote.

        Raises:
            LocalError: There are open calls, or the text is empty.
        """
        self._refuse_open_calls()
        if not text.strip():
            raise LocalError("there is nothing in what the user wrote")
        self._turn_start = (len(self._transcript), self._tools.shown)
        self._notices_of_turn = []
        self._unsent.append(text)

    def request(self) -> dict[str, Any]:
        """Return what to send: JSON, the keyword arguments of the provider's own SDK; the caller may alter it.

        Raises:
            LocalError: There are open calls, or nothing was said yet.
        """
        self._refuse_open_calls()
        if not self._transcript and not self._unsent:
            raise LocalError("nothing was said yet")
        offer = self._conversation.offer()
        notices = [*self._notices_to_repeat, *offer.notices]
        self._notices_to_repeat, self._notices_of_turn = [], [*self._notices_of_turn, *notices]
        self._unsent += notices
        self._take_out(self._tools.take_outdated(offer, by_reference=self._by_reference))
        new = self._tools.take_new(offer)
        additions = self._additions(new) if self._in_transcript and new else None
        if additions is None:
            self._tools.add_to_list(new)
        else:
            self._tools.note_shown(new)
        if self._unsent:
            self._transcript.append(self._user_item([copied(text) for text in self._unsent]))
            self._unsent = []
        self._transcript += additions or []
        return copied(self._options | self._request_body(self._tools.listed))

    def read(self, answer: Mapping[str, Any], /) -> ModelMessage:
        """Append the provider's answer, whole and as JSON, and return what it says.

        Raises:
            InvalidAnswerError: It is not in the provider's format; nothing was appended.
            LocalError: There are open calls, or there was no request.
        """
        self._refuse_open_calls()
        if self._unsent or not self._transcript:
            raise LocalError("there was no request that this could be the answer to")
        stated: object = copied(answer)
        if not isinstance(stated, dict):
            raise InvalidAnswerError(
                'the answer is no JSON object: of an SDK\'s object, give `model_dump(mode="json")`'
            )
        message = self._parse(cast("dict[str, Any]", stated))
        self._transcript += message.items
        self._calls = {call.id: (call, self._tools.call_of(call)) for call in message.calls}
        return ModelMessage(message.text, self.open_calls, message.stop_reason)

    def answer(self, call: ToolCall, outcome: Outcome, /) -> None:
        """Append the outcome of one of the open calls; their order does not matter.

        Raises:
            LocalError: The call is not open.
        """
        if call.id not in self._calls or call.id in self._answers:
            raise LocalError(f"there is no open call {call.id!r}")
        self._answers[call.id] = outcome
        if len(self._answers) == len(self._calls):
            answered = [self._answered(sent, self._answers[key]) for key, (sent, _) in self._calls.items()]
            self._transcript += self._result_items(answered)
            self._calls, self._answers = {}, {}

    def cancel(self, reason: str = _CANCELLED, /) -> None:
        """Answer every open call by `reason`, so that the conversation can go on after the user interrupted it."""
        for call in self.open_calls:
            self.answer(call, Reply(call, reason, is_error=True, remarks=reason))

    def drop_turn(self) -> None:
        """Forget everything since the last `say`, that text as well, as if it had never been said."""
        length, shown = self._turn_start
        del self._transcript[length:]
        self._tools.restore(shown)
        self._unsent = []
        self._notices_to_repeat += self._notices_of_turn
        self._notices_of_turn = []
        self._calls, self._answers = {}, {}

    # The provider's own form

    @abstractmethod
    def _user_item(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the item for texts in the user's role."""

    @abstractmethod
    def _parse(self, answer: dict[str, Any]) -> ProviderMessage:
        """Parse a provider's answer."""

    @abstractmethod
    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        """Return the items for the results of all calls of one answer."""

    @abstractmethod
    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        """Return a request with the transcript and the list of tools."""

    def _additions(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        """Return the items for tools that the host added; `None` where they must be listed."""
        return None

    def _without_tools(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        """Return an item without the tools of these names; `None` where nothing is left."""
        return item

    # Common to all providers

    def _take_out(self, tools: Sequence[SentTool]) -> None:
        """Take tools out of the transcript that are no longer offered, or have another definition by now."""
        if not tools:
            return
        names = {tool.name for tool in tools}
        items = [self._without_tools(item, names) for item in self._transcript]
        length, shown = self._turn_start
        originals = {tool.original_name for tool in tools}
        kept = {name: tool for name, tool in shown.items() if name not in originals}
        self._turn_start = (sum(item is not None for item in items[:length]), kept)
        self._transcript = [item for item in items if item is not None]

    def _answered(self, call: ProviderCall, outcome: Outcome) -> AnsweredCall:
        if isinstance(outcome, CallToolResult):
            return AnsweredCall(call, parts_of(outcome), outcome.is_error)
        text = str(copied(outcome.text)) if outcome.text.strip() else EMPTY_RESULT
        if self._by_reference and outcome.remarks is None:  # a result with references can have nothing else
            return AnsweredCall(call, [text], outcome.is_error)
        definitions = [one for name in outcome.loaded if (one := self._conversation.definition(name)) is not None]
        found, outdated = self._tools.take_found(definitions)
        self._take_out(outdated)
        described = self._tools.described(found)
        if described is not None:
            return AnsweredCall(call, [part for part in (text, described) if part], outcome.is_error)
        return AnsweredCall(call, [text], outcome.is_error, found, copied(outcome.remarks or ""))

    def _new_id(self, stated: object) -> str:
        """Return the provider's id of a call, or another one where that is missing or was used before."""
        key, number = stated, len(self._used_ids) + 1
        while not isinstance(key, str) or not key or key in self._used_ids:
            key, number = f"call_{number}", number + 1
        self._used_ids.add(key)
        return key

    def _refuse_open_calls(self) -> None:
        if self._calls:
            names = ", ".join(call.name for call in self.open_calls)
            raise LocalError(f"these calls are not answered yet: {names}; answer them, or `cancel`")
