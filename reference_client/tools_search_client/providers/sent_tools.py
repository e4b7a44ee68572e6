"""The tools as a model knows them: their names, their schemas, and where each was shown.

A tool is shown either in the list sent with every request, or at one point in the transcript. The forms that a provider
supports determine how a tool is added after the first request:

    list only       the list grows at its end
    transcript      the tool is shown where it was found, in the provider's own form
    `call_tool`     the list stays the same; the tool is described as text where it was found, and called through
                    one tool of ours that takes a name and arguments

The third works with every provider. Its calls are unwrapped here, so that a conversation, a host and its user only
see the inner tool: its name, its arguments, and its annotations, by which the host decides whether to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools_search_hosts import qualified_name

from tools_search_client.conversation.messages import Definition, Offer, ToolCall, valid_name
from tools_search_client.conversation.saved import (
    SavedDefinition,
    SavedPart,
    SavedTool,
    restored_definition,
    saved_definition,
)
from tools_search_client.json_values import ArgumentsError, compact_json, copied, parse_arguments
from tools_search_client.providers.schemas import adapted

_CUT_CALL: Final = "The call was cut off because the answer became too long. Nothing was called; call again, with less."

_CALL_TOOL_NAMES: Final = ("call_tool", "call_other_tool", "call_found_tool", "call_found_tool_")
"""Names for the tool, in order of preference; the first that no server's tool has is used."""
_CALL_TOOL_DESCRIPTION: Final = (
    "Call a tool that is not in your list of tools but was described in this conversation, for example by a search. "
    "Its arguments must be as its own schema says."
)
_CALL_TOOL_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name, as it was described."},
        "arguments": {"type": "object", "description": "The tool's arguments, by its own schema."},
    },
    "required": ["name", "arguments"],
}


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """A provider's limits on tools."""

    max_tools: int | None = None
    max_description: int | None = None
    """Maximum length in characters; a longer description is cut."""
    keywords: Collection[str] | None = None
    """The JSON Schema keywords that the provider accepts; `None` means all."""
    plain_arguments: bool = False
    """Whether argument names must start with a letter or `_`, and contain no `.` or `-`."""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A call in the provider's form."""

    id: str
    """Unique in the conversation."""
    name: str
    arguments: object
    """An object, or a string that should contain a JSON object."""
    is_cut: bool = False
    """Whether the answer ended before the call was complete."""
    is_special: bool = False
    """Whether it must be answered in a special form, if the provider has such calls."""


@dataclass(frozen=True, slots=True)
class SentTool:
    """A tool in the form sent to the provider."""

    name: str
    """A unique name: at most 64 letters, digits, `_` and `-`, starting with a letter or `_`."""
    description: str
    schema: dict[str, Any]
    """The arguments' schema."""
    renamed: Mapping[str, str]
    """The original names of renamed arguments."""
    definition: Definition
    overflow: str = ""
    """The part of the description beyond the provider's limit."""

    @property
    def original_name(self) -> str:
        """The name in the conversation."""
        return self.definition.name


class SavedSentTools(SavedPart):
    """The saved form of `SentTools`, with the conversation's names unless stated otherwise."""

    names: dict[str, str]
    """The name in the conversation of each name that was sent."""
    sent: dict[str, SavedTool | SavedDefinition]
    listed: list[str]
    shown: list[str]
    prefix: int | None
    call_tool: str | None
    """The name of `call_tool`, if it is used."""


class SentTools:
    """All tools in a conversation with a model."""

    def __init__(self, limits: ProviderLimits, *, in_transcript: bool = False, by_call_tool: bool = False) -> None:
        self.listed: dict[str, SentTool] = {}
        """The tools in the list, in order, by original name."""
        self.shown: dict[str, SentTool] = {}
        """The tools shown in the transcript, by original name."""
        self._limits = limits
        self._in_transcript = in_transcript or by_call_tool
        self._sent: dict[str, SentTool] = {}
        self.names: dict[str, str] = {}
        """The name in the conversation of each name that was sent."""
        self._prefix: int | None = None
        self._call_tool = _call_tool_definition(()) if by_call_tool else None

    # Names and schemas

    def sent_form(self, definition: Definition) -> SentTool:
        """Return a tool in the provider's form; the same definition always gives the same form."""
        original = definition.name
        known = self._sent.get(original)
        if known is not None and known.definition == definition:
            return known
        if known is not None:
            name = known.name
        else:  # its own name if that is valid and not taken
            name, number = valid_name(original), 2
            while self.names.get(name, original) != original:
                name, number = qualified_name("", f"{original}\0{number}"), number + 1
            self.names[name] = original
        stated = definition.description.strip() or original  # some providers reject an empty description
        description, limit = str(copied(stated)), self._limits.max_description
        overflow = ""
        if limit is not None and len(description) > limit:
            description, overflow = description[: limit - 1] + "…", description[limit - 1 :]
        schema, renamed = adapted(
            definition.input_schema, keywords=self._limits.keywords, plain_names=self._limits.plain_arguments
        )
        self._sent[original] = SentTool(name, description, schema, renamed, definition, overflow)
        return self._sent[original]

    def in_conversation_names(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return a call's original name and arguments; both are unchanged for a tool that was never sent."""
        original = self.names.get(name, name)
        sent = self._sent.get(original)
        renamed: Mapping[str, str] = {} if sent is None else sent.renamed
        return original, {renamed.get(argument, argument): value for argument, value in arguments.items()}

    def call_of(self, call: ProviderCall) -> ToolCall:
        """Return a call under the conversation's names, with the problem if it is invalid."""
        try:
            if call.is_cut:
                raise ArgumentsError(_CUT_CALL)
            name, arguments = self.in_conversation_names(call.name, parse_arguments(call.arguments))
            if self._call_tool is not None and name == self._call_tool.name:
                inner = arguments.get("name")
                if not isinstance(inner, str) or not inner:
                    raise ArgumentsError(f"{name!r} needs the `name` of the tool to call, and its `arguments`.")
                name, arguments = self.in_conversation_names(inner, parse_arguments(arguments.get("arguments")))
        except ArgumentsError as error:
            return ToolCall(self.in_conversation_names(call.name, {})[0], {}, call.id, str(error))
        return ToolCall(name, arguments, call.id)

    # Saved and restored

    def saved(self) -> SavedSentTools:
        """Return the saved form, with the tools in the list or the transcript, and those with renamed arguments.

        The model can call the latter again by what it has read of them, once a search has brought them back.
        """
        kept = {name: tool for name, tool in self._sent.items() if tool.renamed} | self.listed | self.shown
        return SavedSentTools(
            names=self.names,
            sent={name: saved_definition(tool.definition) for name, tool in kept.items()},
            listed=list(self.listed),
            shown=list(self.shown),
            prefix=self._prefix,
            call_tool=self._call_tool and self._call_tool.name,
        )

    def restore(self, saved: SavedSentTools) -> None:
        """Restore the saved tools."""
        self.names = dict(saved.names)
        sent = {
            name: self.sent_form(restored_definition(saved_definition)) for name, saved_definition in saved.sent.items()
        }
        self.listed = {name: sent[name] for name in saved.listed if name in sent}
        self.shown = {name: sent[name] for name in saved.shown if name in sent}
        self._prefix = saved.prefix
        if self._call_tool is not None and saved.call_tool is not None:
            self._call_tool = _call_tool_definition([name for name in _CALL_TOOL_NAMES if name != saved.call_tool])

    # Where a tool was shown

    @property
    def whole_list(self) -> list[SentTool]:
        """The list sent with every request."""
        return [*self.listed.values(), *([] if self._call_tool is None else [self.sent_form(self._call_tool)])]

    def take_offer(self, offer: Offer, *, by_reference: bool) -> tuple[list[SentTool], list[SentTool]]:
        """Update to the current offer; a list with a new prefix replaces the old one.

        Args:
            offer: The current offer.
            by_reference: Whether the transcript only has names, so that a changed definition does not matter.

        Returns:
            The tools in the transcript that are no longer offered in that form, which are forgotten, and the offered
            tools that have not been shown yet.
        """
        offered = {definition.name: self.sent_form(definition) for definition in offer.tools}
        before = self.shown
        self.shown = {
            name: offered[name] if by_reference else tool
            for name, tool in before.items()
            if name in offered and (by_reference or tool.definition.is_like(offered[name].definition))
        }
        if offer.prefix != self._prefix:
            self._prefix = offer.prefix
            self._call_tool = self._call_tool and _call_tool_definition(offered)
            self.listed = {name: tool for name, tool in offered.items() if name not in self.shown}
        known = self.listed.keys() | self.shown.keys()
        outdated = [tool for name, tool in before.items() if name not in self.shown]
        return outdated, [tool for name, tool in offered.items() if name not in known]

    def take_found(self, definitions: Iterable[Definition]) -> tuple[list[SentTool], list[SentTool]]:
        """Determine which found tools to show with the search that found them.

        Returns:
            These tools, and the earlier forms of those that were shown before with another definition.
        """
        if not self._in_transcript:
            return [], []
        new: list[SentTool] = []
        outdated: list[SentTool] = []
        for tool in map(self.sent_form, definitions):
            shown = self.shown.get(tool.original_name)
            if shown is not None and not shown.definition.is_like(tool.definition):
                outdated.append(shown)
            elif shown is not None or tool.original_name in self.listed:
                continue
            new.append(tool)
        self.shown |= {tool.original_name: tool for tool in new}
        return new, outdated

    def described(self, tools: Collection[SentTool]) -> str | None:
        """Return a description of tools to call through `call_tool`; `None` if it is not used."""
        if self._call_tool is None:
            return None
        lines = [compact_json(copied(tool.definition.to_json())) for tool in tools]
        return "\n".join([f"Call these with '{self._call_tool.name}':", *lines]) if lines else ""


def _call_tool_definition(taken: Collection[str]) -> Definition:
    name = next((name for name in _CALL_TOOL_NAMES if name not in taken), _CALL_TOOL_NAMES[-1])
    return Definition(name, _CALL_TOOL_DESCRIPTION, _CALL_TOOL_SCHEMA)
