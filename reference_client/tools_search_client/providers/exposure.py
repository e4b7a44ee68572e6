"""What a model was shown of each tool, and where: in the list of tools, or at a point of the transcript."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tools_search_client.conversation.messages import Definition, Offer, ToolCall
from tools_search_client.providers.call_tool import CallTool
from tools_search_client.providers.exchange import WireCall
from tools_search_client.providers.plain_json import read_arguments
from tools_search_client.providers.sent_tools import Limits, SentTool, SentTools

__all__ = ["Exposure"]

_CUT: Final = "The call was cut off because the answer became too long. Nothing was called; call again, with less."


class Exposure:
    """The tools as one model knows them.

    Args:
        limits: What the provider takes.
        tells: Whether tools can be shown at a point of the transcript, and need not be listed.
        uses_call_tool: Whether that is done in words, and such tools are called through `call_tool`.
    """

    def __init__(self, limits: Limits, *, tells: bool, uses_call_tool: bool) -> None:
        self._tools = SentTools(limits)
        self._tells = tells or uses_call_tool
        self._prefix: int | None = None
        self._call_tool = CallTool(()) if uses_call_tool else None
        self._listed: dict[str, SentTool] = {}
        self._told: dict[str, SentTool] = {}

    @property
    def listed(self) -> list[SentTool]:
        """What is sent with every request."""
        own = [] if self._call_tool is None else [self._tools.sent(self._call_tool.definition)]
        return [*self._listed.values(), *own]

    @property
    def told(self) -> Mapping[str, SentTool]:
        """What was shown at some point of the transcript, by original name."""
        return dict(self._told)

    def forget(self, told: Mapping[str, SentTool]) -> None:
        """Go back to an earlier transcript, in which only these were shown."""
        self._told = dict(told)

    def outdated(self, offer: Offer, *, refers: bool) -> list[SentTool]:
        """Return what was shown in the transcript and is not offered like that any more, and forget it.

        Args:
            offer: What is offered.
            refers: Whether the transcript has no more than names, so that a changed definition makes no difference.
        """
        offered = {definition.name: definition for definition in offer.tools}
        kept = {
            name: self._tools.sent(offered[name]) if refers else tool
            for name, tool in self._told.items()
            if name in offered and (refers or tool.definition.is_like(offered[name]))
        }
        outdated = [tool for name, tool in self._told.items() if name not in kept]
        self._told = kept
        return outdated

    def unknown(self, offer: Offer) -> list[SentTool]:
        """Return what is offered and was not shown yet; another list than before is shown as such, as a whole."""
        tools = [self._tools.sent(definition) for definition in offer.tools]
        if offer.prefix != self._prefix:
            self._prefix = offer.prefix
            if self._call_tool is not None:
                self._call_tool = CallTool([definition.name for definition in offer.tools])
            self._listed = {tool.definition.name: tool for tool in tools if not self._is_told(tool)}
        return [tool for tool in tools if not self._is_shown(tool)]

    def add_to_list(self, tools: Iterable[SentTool]) -> None:
        """Show tools in the list."""
        self._listed |= {tool.definition.name: tool for tool in tools}

    def tell(self, tools: Iterable[SentTool]) -> None:
        """Take note that tools are shown at this point of the transcript."""
        self._told |= {tool.definition.name: tool for tool in tools}

    def found(self, definitions: Iterable[Definition]) -> tuple[list[SentTool], list[SentTool]]:
        """Return which of the found tools are to be shown with what found them, and take note of it.

        Second come those of them that were shown before with another definition.
        """
        tools = [self._tools.sent(definition) for definition in definitions] if self._tells else []
        outdated = [told for tool in tools if (told := self._outdated_by(tool)) is not None]
        names = {tool.definition.name for tool in outdated}
        new = [tool for tool in tools if tool.definition.name in names or not self._is_shown(tool)]
        self.tell(new)
        return new, outdated

    def described(self, tools: Iterable[SentTool]) -> str | None:
        """Return what a model reads of tools that are called through `call_tool`; `None` where none are."""
        return None if self._call_tool is None else self._call_tool.described(tool.definition for tool in tools)

    def understood(self, call: WireCall) -> ToolCall:
        """Return a call in the names that the conversation knows."""
        arguments = read_arguments(call.arguments)
        if call.is_cut or isinstance(arguments, str):
            problem = _CUT if call.is_cut else str(arguments)
            return ToolCall(self._tools.meant(call.name, {})[0], {}, call.id, problem)
        name, own = self._tools.meant(call.name, arguments)
        if self._call_tool is None:
            return ToolCall(name, own, call.id)
        inner = self._call_tool.meant(name, own)
        if isinstance(inner, str):
            return ToolCall(name, {}, call.id, inner)
        return ToolCall(*self._tools.meant(*inner), call.id)

    def _outdated_by(self, tool: SentTool) -> SentTool | None:
        told = self._told.get(tool.definition.name)
        return None if told is None or told.definition.is_like(tool.definition) else told

    def _is_told(self, tool: SentTool) -> bool:
        return tool.definition.name in self._told

    def _is_shown(self, tool: SentTool) -> bool:
        return tool.definition.name in self._listed or self._is_told(tool)
