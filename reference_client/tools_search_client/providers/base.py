"""What all adapters have in common: the order of things, and what the model was shown of each tool.

A transcript is a list of what the provider takes, in its own form. It only ever grows at its end, but for
`drop_turn`, which takes it back to what it was. Results are appended together, in the order of their calls, once every
call is answered: that is what all providers ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_types import CallToolResult

from tools_search_client.conversation.messages import Offer, Reply, ToolCall
from tools_search_client.conversation.state import Conversation
from tools_search_client.errors import LocalMistake
from tools_search_client.providers.adapter import Outcome, Said
from tools_search_client.providers.call_tool import CallTool
from tools_search_client.providers.plain_json import copied, read_arguments
from tools_search_client.providers.results import NOTHING, Part, parts_of
from tools_search_client.providers.sent_tools import Limits, SentTool, SentTools

__all__ = ["Answered", "BaseAdapter", "Heard", "WireCall"]

_CANCELLED: Final = "The user interrupted this call; it was not carried out, or its result was not awaited."
_CUT: Final = "The call was cut off because the answer became too long. Nothing was called; call again, with less."


@dataclass(frozen=True, slots=True)
class WireCall:
    """A call as a provider writes it."""

    id: str
    """Unique in the conversation."""
    name: str
    arguments: object
    """An object, or a text that should be the JSON of one."""
    is_cut: bool = False
    """Whether the answer ended before it was complete."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A provider's answer, read."""

    items: Sequence[dict[str, Any]]
    """What to append to the transcript."""
    text: str
    calls: Sequence[WireCall]
    stop: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A call with what came of it."""

    call: WireCall
    parts: list[Part]
    is_error: bool
    found: list[SentTool] = field(default_factory=list[SentTool])
    """The tools that became callable by it and are to be shown with it, where the provider has a form for that."""


@dataclass(slots=True)
class _Shown:
    """What the model was shown of each tool, by original name."""

    listed: dict[str, SentTool] = field(default_factory=dict[str, SentTool])
    """In the list of tools that is sent with every request."""
    told: dict[str, SentTool] = field(default_factory=dict[str, SentTool])
    """In the transcript, at the point at which it was found."""


class BaseAdapter(ABC):
    """An `Adapter`, but for a provider's own form.

    Args:
        conversation: Whose tools are offered.
        model: The provider's name of the model.
        limits: What the provider takes.
        system: What the model is told before everything else.
        call_tool: Whether the list of tools is left as it is at first, and others are called through `call_tool`.
        tells: Whether the provider has a form for tools that are added at a point of the transcript.
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
        tells: bool,
        options: Mapping[str, Any] | None,
    ) -> None:
        self._conversation = conversation
        self._model = model
        self._limits = limits
        self._system = system
        self._uses_call_tool = call_tool
        self._tells = tells and not call_tool
        self._options = dict(options or {})
        self._tools = SentTools(limits)
        self._call_tool = CallTool(())
        self._shown = _Shown()
        self._prefix: int | None = None
        self._transcript: list[dict[str, Any]] = []
        self._calls: dict[str, tuple[WireCall, ToolCall]] = {}
        self._answers: dict[str, Outcome] = {}
        self._used_ids: set[str] = set()
        self._turn_start: tuple[int, dict[str, SentTool]] = (0, {})
        self._told_in_turn: list[str] = []
        self._untold: list[str] = []

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are not answered yet: no provider takes a request before they are."""
        return tuple(call for key, (_, call) in self._calls.items() if key not in self._answers)

    def say(self, text: str, /) -> None:
        """Append what the user wrote."""
        self._refuse_open_calls()
        if not text.strip():
            raise LocalMistake("there is nothing in what the user wrote")
        self._turn_start = (len(self._transcript), dict(self._shown.told))
        self._told_in_turn = []
        self._transcript += self._user(copied(text))

    def request(self) -> dict[str, Any]:
        """Return what to send: JSON, the keyword arguments of the provider's own SDK; the caller may alter it."""
        self._refuse_open_calls()
        if not self._transcript:
            raise LocalMistake("nothing was said yet")
        offer = self._conversation.offer()
        self._show(offer)
        notices = [*self._untold, *offer.notices]
        for notice in notices:
            self._transcript += self._user(copied(notice))
        self._untold, self._told_in_turn = [], [*self._told_in_turn, *notices]
        tools = self._listed()
        most = self._limits.most_tools
        if most is not None and len(tools) > most:
            mend = 'set `max_tools` of "tool_discovery", or defer servers'
            raise LocalMistake(f"{len(tools)} tools are more than the {most} that the provider takes: {mend}")
        return copied(self._options | self._body(tools))

    def read(self, answer: Mapping[str, Any], /) -> Said:
        """Append the provider's answer, whole and as JSON, and return what it says."""
        self._refuse_open_calls()
        heard = self._heard(copied(answer))
        calls = [(call, self._understood(call)) for call in heard.calls]
        self._transcript += heard.items
        self._calls = {call.id: (call, understood) for call, understood in calls}
        self._used_ids.update(self._calls)
        return Said(heard.text, tuple(understood for _, understood in calls), heard.stop)

    def answer(self, call: ToolCall, outcome: Outcome, /) -> None:
        """Append what came of one of the open calls; their order does not matter."""
        if call.id not in self._calls or call.id in self._answers:
            raise LocalMistake(f"there is no open call {call.id!r}")
        self._answers[call.id] = outcome
        if len(self._answers) == len(self._calls):
            answered = [self._answered(wire, self._answers[key]) for key, (wire, _) in self._calls.items()]
            self._transcript += self._results(answered)
            self._calls, self._answers = {}, {}

    def cancel(self, reason: str = _CANCELLED, /) -> None:
        """Answer every open call by `reason`, so that the conversation can go on after the user interrupted it."""
        for call in self.open_calls:
            self.answer(call, Reply(call, reason, is_error=True))

    def drop_turn(self) -> None:
        """Forget everything since the last `say`, that text as well, as if it had never been said."""
        length, told = self._turn_start
        del self._transcript[length:]
        self._shown.told = dict(told)
        self._untold, self._told_in_turn = [*self._untold, *self._told_in_turn], []
        self._calls, self._answers = {}, {}

    # What each provider has its own form for.

    @abstractmethod
    def _user(self, text: str) -> list[dict[str, Any]]:
        """Return what the transcript has for a text of the user."""

    @abstractmethod
    def _heard(self, answer: dict[str, Any]) -> Heard:
        """Read a provider's answer."""

    @abstractmethod
    def _results(self, answered: Sequence[Answered]) -> list[dict[str, Any]]:
        """Return what the transcript has for the results of all calls of one answer."""

    @abstractmethod
    def _body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        """Return a request with the transcript and the list of tools."""

    def _added(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        """Return what the transcript has for tools that the host added; `None` where they have to be listed."""
        return None

    # What the model is shown of the tools.

    def _show(self, offer: Offer) -> None:
        if offer.prefix != self._prefix:
            self._prefix = offer.prefix
            self._call_tool = CallTool([definition.name for definition in offer.tools])
            listed = [tool for tool in map(self._tools.sent, offer.tools) if not self._is_told(tool)]
            self._shown.listed = {tool.definition.name: tool for tool in listed}
            return
        new = [tool for tool in map(self._tools.sent, offer.tools) if not self._is_shown(tool)]
        if not new:
            return
        if self._uses_call_tool:
            items = self._user(self._call_tool.described([tool.definition for tool in new]))
        else:
            items = self._added(new) if self._tells else None
        if items is None:
            self._shown.listed |= {tool.definition.name: tool for tool in new}
        else:
            self._transcript += items
            self._shown.told |= {tool.definition.name: tool for tool in new}

    def _is_told(self, tool: SentTool) -> bool:
        told = self._shown.told.get(tool.definition.name)
        return told is not None and told.definition == tool.definition

    def _is_shown(self, tool: SentTool) -> bool:
        return tool.definition.name in self._shown.listed or self._is_told(tool)

    def _listed(self) -> list[SentTool]:
        listed = list(self._shown.listed.values())
        return [*listed, self._tools.sent(self._call_tool.definition)] if self._uses_call_tool else listed

    def _answered(self, call: WireCall, outcome: Outcome) -> Answered:
        if isinstance(outcome, CallToolResult):
            return Answered(call, parts_of(outcome), outcome.is_error)
        text = str(copied(outcome.text)) if outcome.text.strip() else NOTHING
        definitions = [self._conversation.definition(name) for name in outcome.loaded]
        new = [self._tools.sent(one) for one in definitions if one is not None]
        new = [tool for tool in new if not self._is_shown(tool)] if self._tells or self._uses_call_tool else []
        self._shown.told |= {tool.definition.name: tool for tool in new}
        if self._uses_call_tool:
            described = self._call_tool.described([tool.definition for tool in new])
            return Answered(call, [part for part in (text, described) if part], outcome.is_error)
        if new and outcome.remarks is not None:
            return Answered(call, [copied(outcome.remarks)] if outcome.remarks else [], outcome.is_error, new)
        return Answered(call, [text], outcome.is_error, new)

    # What the model's calls mean.

    def _understood(self, call: WireCall) -> ToolCall:
        arguments = read_arguments(call.arguments)
        if call.is_cut or isinstance(arguments, str):
            problem = _CUT if call.is_cut else str(arguments)
            return ToolCall(self._tools.meant(call.name, {})[0], {}, call.id, problem)
        name, own = self._tools.meant(call.name, arguments)
        if not self._uses_call_tool:
            return ToolCall(name, own, call.id)
        inner = self._call_tool.meant(name, own)
        if isinstance(inner, str):
            return ToolCall(name, {}, call.id, inner)
        return ToolCall(*self._tools.meant(*inner), call.id)

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
            raise LocalMistake(f"these calls are not answered yet: {names}; answer them, or `cancel`")
