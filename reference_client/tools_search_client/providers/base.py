"""What all adapters have in common: the order of things.

A transcript is a list of what the provider takes, in its own form. It only ever grows at its end, but for `drop_turn`,
which takes it back to what it was, and for tools in it that are no longer offered when the conversation has begun its
list again. What stands in the user's role is what the user wrote, and fixed words of the project. Results are appended
together, in the order of their calls, once every call is answered: that is what all providers ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from mcp_types import CallToolResult

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Reply, ToolCall
from tools_search_client.errors import InvalidAnswerError, LocalError
from tools_search_client.providers.adapter import Outcome, Said
from tools_search_client.providers.exchange import Answered, Heard, WireCall
from tools_search_client.providers.exposure import Exposure
from tools_search_client.providers.plain_json import copied
from tools_search_client.providers.results import NOTHING, parts_of
from tools_search_client.providers.sent_tools import Limits, SentTool

__all__ = ["BaseAdapter"]

_CANCELLED: Final = "The user interrupted this call; it was not carried out, or its result was not awaited."


class BaseAdapter(ABC):
    """An `Adapter`, but for a provider's own form.

    Args:
        conversation: Whose tools are offered.
        model: The provider's name of the model.
        limits: What the provider takes.
        system: What the model is told before everything else.
        call_tool: Whether the list of tools is left as it is at first, and others are called through `call_tool`.
        tells: Whether the provider has a form for tools that are added at a point of the transcript.
        refers: Whether that form has no more than their names.
        options: Further members of every request.
    """

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        limits: Limits,
        system: str | None,
        call_tool: bool,
        tells: bool = False,
        refers: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._conversation = conversation
        self._model = model
        self._system = system
        self._tells = tells and not call_tool
        self._refers = refers and self._tells
        self._options = dict(options or {})
        self._shown = Exposure(limits, tells=self._tells, uses_call_tool=call_tool)
        self._transcript: list[dict[str, Any]] = []
        self._said: list[str] = []
        """Texts of the user that stand in no request yet: they become one message, because roles should alternate."""
        self._calls: dict[str, tuple[WireCall, ToolCall]] = {}
        self._answers: dict[str, Outcome] = {}
        self._used_ids: set[str] = set()
        self._turn_start: tuple[int, Mapping[str, SentTool]] = (0, {})
        self._notices_of_turn: list[str] = []
        self._notices_to_repeat: list[str] = []
        conversation.limit(limits.most_tools, besides=1 if call_tool else 0)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are not answered yet: no provider takes a request before they are."""
        return tuple(call for key, (_, call) in self._calls.items() if key not in self._answers)

    def say(self, text: str, /) -> None:
        """Append what the user wrote."""
        self._refuse_open_calls()
        if not text.strip():
            raise LocalError("there is nothing in what the user wrote")
        self._turn_start = (len(self._transcript), self._shown.told)
        self._notices_of_turn = []
        self._said.append(text)

    def request(self) -> dict[str, Any]:
        """Return what to send: JSON, the keyword arguments of the provider's own SDK; the caller may alter it."""
        self._refuse_open_calls()
        if not self._transcript and not self._said:
            raise LocalError("nothing was said yet")
        offer = self._conversation.offer()
        notices = [*self._notices_to_repeat, *offer.notices]
        self._notices_to_repeat, self._notices_of_turn = [], [*self._notices_of_turn, *notices]
        self._said += notices
        self._forget(self._shown.outdated(offer, refers=self._refers))
        added = self._show(self._shown.unknown(offer))
        if self._said:
            self._transcript.append(self._user([copied(text) for text in self._said]))
        self._said = []
        self._transcript += added
        return copied(self._options | self._body(self._shown.listed))

    def read(self, answer: Mapping[str, Any], /) -> Said:
        """Append the provider's answer, whole and as JSON, and return what it says."""
        self._refuse_open_calls()
        if self._said or not self._transcript:
            raise LocalError("there was no request that this could be the answer to")
        stated: object = copied(answer)
        if not isinstance(stated, dict):
            raise InvalidAnswerError(
                'the answer is no JSON object: of an SDK\'s object, give `model_dump(mode="json")`'
            )
        heard = self._heard(cast("dict[str, Any]", stated))
        calls = [(call, self._shown.understood(call)) for call in heard.calls]
        self._transcript += heard.items
        self._calls = {call.id: (call, understood) for call, understood in calls}
        self._used_ids.update(self._calls)
        return Said(heard.text, tuple(understood for _, understood in calls), heard.stop)

    def answer(self, call: ToolCall, outcome: Outcome, /) -> None:
        """Append what came of one of the open calls; their order does not matter."""
        if call.id not in self._calls or call.id in self._answers:
            raise LocalError(f"there is no open call {call.id!r}")
        self._answers[call.id] = outcome
        if len(self._answers) == len(self._calls):
            answered = [self._answered(wire, self._answers[key]) for key, (wire, _) in self._calls.items()]
            self._transcript += self._results(answered)
            self._calls, self._answers = {}, {}

    def cancel(self, reason: str = _CANCELLED, /) -> None:
        """Answer every open call by `reason`, so that the conversation can go on after the user interrupted it."""
        for call in self.open_calls:
            self.answer(call, Reply(call, reason, is_error=True, remarks=reason))

    def drop_turn(self) -> None:
        """Forget everything since the last `say`, that text as well, as if it had never been said."""
        length, told = self._turn_start
        del self._transcript[length:]
        self._said = []
        self._shown.forget(told)
        self._notices_to_repeat += self._notices_of_turn
        self._notices_of_turn = []
        self._calls, self._answers = {}, {}

    # What each provider has its own form for.

    @abstractmethod
    def _user(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return what the transcript has for texts of the user."""

    @abstractmethod
    def _heard(self, answer: dict[str, Any]) -> Heard:
        """Read a provider's answer."""

    @abstractmethod
    def _results(self, answered: Sequence[Answered]) -> list[dict[str, Any]]:
        """Return what the transcript has for the results of all calls of one answer."""

    @abstractmethod
    def _body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        """Return a request with the transcript and the list of tools."""

    def _without(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        """Return an item of the transcript without the tools of these names; `None` where nothing is left."""
        return item

    def _added(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        """Return what the transcript has for tools that the host added; `None` where they have to be listed."""
        return None

    # What they have in common.

    def _forget(self, tools: Sequence[SentTool]) -> None:
        """Take tools out of the transcript that are no longer offered, or have another definition by now."""
        if not tools:
            return
        names = {tool.name for tool in tools}
        items = [self._without(item, names) for item in self._transcript]
        length, told = self._turn_start
        originals = {tool.definition.name for tool in tools}
        kept = {name: tool for name, tool in told.items() if name not in originals}
        self._turn_start = (sum(item is not None for item in items[:length]), kept)
        self._transcript = [item for item in items if item is not None]

    def _show(self, tools: Sequence[SentTool]) -> list[dict[str, Any]]:
        """Show tools that the host added, and return what the transcript has for them."""
        items = self._added(tools) if self._tells and tools else None
        if items is None:
            self._shown.add_to_list(tools)
            return []
        self._shown.tell(tools)
        return items

    def _answered(self, call: WireCall, outcome: Outcome) -> Answered:
        if isinstance(outcome, CallToolResult):
            return Answered(call, parts_of(outcome), outcome.is_error)
        text = str(copied(outcome.text)) if outcome.text.strip() else NOTHING
        if self._refers and outcome.remarks is None:  # a result that has references can have nothing else
            return Answered(call, [text], outcome.is_error)
        definitions = [one for name in outcome.loaded if (one := self._conversation.definition(name)) is not None]
        found, outdated = self._shown.found(definitions)
        self._forget(outdated)
        described = self._shown.described(found)
        if described is not None:
            return Answered(call, [part for part in (text, described) if part], outcome.is_error)
        return Answered(call, [text], outcome.is_error, found, copied(outcome.remarks or ""))

    def _new_id(self, stated: object, others: Sequence[str]) -> str:
        """Return the provider's name of a call, or another one where that is missing or was there before."""
        taken = self._used_ids.union(others)
        if isinstance(stated, str) and stated and stated not in taken:
            return stated
        number = len(taken) + 1
        while f"call_{number}" in taken:
            number += 1
        return f"call_{number}"

    def _refuse_open_calls(self) -> None:
        if self._calls:
            names = ", ".join(call.name for call in self.open_calls)
            raise LocalError(f"these calls are not answered yet: {names}; answer them, or `cancel`")
