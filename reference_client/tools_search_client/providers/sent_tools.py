"""The tools as one model knows them: under which names, with which schemas, and where it was shown each of them.

A tool is shown either in the list that goes with every request, or at one point of the transcript. Which of these a
provider has decides what `SentTools` does with a tool that becomes callable after the first request:

    list only         the list grows at its end
    transcript        the tool is shown where it was found, in the provider's own form
    `call_tool`       the list stays as it was; the tool is described in words where it was found, and called through
                      one tool of ours that takes a name and arguments

The third works with every provider. Its calls are taken apart here, so that a conversation, a host and its user only
ever see the inner tool: its name, its arguments, and its annotations, by which the host decides whether to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools_search_hosts import qualified_name

from tools_search_client.conversation.messages import Definition, Offer, ToolCall, valid_name
from tools_search_client.providers.json_values import ArgumentsError, compact, copied, parse_arguments
from tools_search_client.providers.schemas import adapted

_ELLIPSIS: Final = "…"
_CUT_CALL: Final = "The call was cut off because the answer became too long. Nothing was called; call again, with less."

_CALL_TOOL_NAMES: Final = ("call_tool", "call_other_tool", "call_found_tool", "call_found_tool_")
"""In order of preference: the first that no tool of a server has."""
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
    """Bounds on the tools that a provider accepts."""

    max_tools: int | None = None
    max_description: int | None = None
    """Characters; a longer description is cut."""
    keywords: Collection[str] | None = None
    """The only keywords that a schema may have; `None` means any of JSON Schema."""
    plain_arguments: bool = False
    """Whether the name of an argument must begin like a word, and have no `.` and no `-`."""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A call as a provider writes it."""

    id: str
    """Unique in the conversation."""
    name: str
    arguments: object
    """An object, or a text that should be the JSON of one."""
    is_cut: bool = False
    """Whether the answer ended before the call was complete."""


@dataclass(frozen=True, slots=True)
class SentTool:
    """A tool in the form in which a provider is sent it."""

    name: str
    """At most 64 letters, digits, `_` and `-`, a letter or `_` first; no two tools have the same."""
    description: str
    schema: dict[str, Any]
    """The schema of the arguments."""
    renamed: Mapping[str, str]
    """The original names of arguments that had to be renamed."""
    definition: Definition
    overflow: str = ""
    """The end of the description, beyond the provider's limit."""

    @property
    def original_name(self) -> str:
        """The name in the conversation."""
        return self.definition.name


class SentTools:
    """Every tool of one conversation with one model.

    Args:
        limits: What the provider accepts.
        in_transcript: Whether tools can be shown at a point of the transcript, in the provider's own form.
        by_call_tool: Whether such tools are described in words and called through `call_tool`.
    """

    def __init__(self, limits: ProviderLimits, *, in_transcript: bool = False, by_call_tool: bool = False) -> None:
        self._limits = limits
        self._in_transcript = in_transcript or by_call_tool
        self._sent: dict[str, SentTool] = {}
        self._names: dict[str, str] = {}
        self._original_names: dict[str, str] = {}
        self._prefix: int | None = None
        self._call_tool = _call_tool(()) if by_call_tool else None
        # By original name, as in all that follows.
        self._listed: dict[str, SentTool] = {}
        self._shown: dict[str, SentTool] = {}

    # Names and schemas

    def sent(self, definition: Definition) -> SentTool:
        """Return a tool in the provider's form; the same definition is always sent alike."""
        known = self._sent.get(definition.name)
        if known is not None and known.definition == definition:
            return known
        stated = definition.description.strip() or definition.name  # some providers refuse a tool without any
        description, limit = str(copied(stated)), self._limits.max_description
        overflow = ""
        if limit is not None and len(description) > limit:
            description, overflow = description[: limit - 1] + _ELLIPSIS, description[limit - 1 :]
        schema, renamed = adapted(
            definition.input_schema, keywords=self._limits.keywords, plain_names=self._limits.plain_arguments
        )
        made = SentTool(self._name(definition.name), description, schema, renamed, definition, overflow)
        self._sent[definition.name] = made
        return made

    def original(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the original name and arguments of a call; for a tool that was never sent, both stay as they are."""
        original = self._original_names.get(name, name)
        if original not in self._sent:
            return original, dict(arguments)
        renamed = self._sent[original].renamed
        return original, {renamed.get(argument, argument): value for argument, value in arguments.items()}

    def call_of(self, call: ProviderCall) -> ToolCall:
        """Return a call in the names that the conversation knows, with the problem if it makes no sense."""
        try:
            if call.is_cut:
                raise ArgumentsError(_CUT_CALL)
            name, arguments = self.original(call.name, parse_arguments(call.arguments))
            if self._call_tool is not None and name == self._call_tool.name:
                inner = arguments.get("name")
                if not isinstance(inner, str) or not inner:
                    raise ArgumentsError(f"{name!r} needs the `name` of the tool to call, and its `arguments`.")
                name, arguments = self.original(inner, parse_arguments(arguments.get("arguments")))
        except ArgumentsError as error:
            return ToolCall(self.original(call.name, {})[0], {}, call.id, str(error))
        return ToolCall(name, arguments, call.id)

    # Where a tool was shown

    @property
    def listed(self) -> list[SentTool]:
        """The list of tools that goes with every request."""
        own = [] if self._call_tool is None else [self.sent(self._call_tool)]
        return [*self._listed.values(), *own]

    @property
    def shown(self) -> Mapping[str, SentTool]:
        """The tools that were shown at some point of the transcript, by original name."""
        return dict(self._shown)

    def restore(self, shown: Mapping[str, SentTool]) -> None:
        """Go back to an earlier transcript, in which only these tools were shown."""
        self._shown = dict(shown)

    def add_to_list(self, tools: Iterable[SentTool]) -> None:
        """Add tools at the end of the list."""
        self._listed |= {tool.original_name: tool for tool in tools}

    def note_shown(self, tools: Iterable[SentTool]) -> None:
        """Take note that tools are shown at this point of the transcript."""
        self._shown |= {tool.original_name: tool for tool in tools}

    def take_outdated(self, offer: Offer, *, by_reference: bool) -> list[SentTool]:
        """Forget and return the tools of the transcript that are no longer offered in that form.

        Args:
            offer: What is offered.
            by_reference: Whether the transcript has names alone, so that a changed definition makes no difference.
        """
        offered = {definition.name: definition for definition in offer.tools}
        kept = {
            name: self.sent(offered[name]) if by_reference else tool
            for name, tool in self._shown.items()
            if name in offered and (by_reference or tool.definition.is_like(offered[name]))
        }
        outdated = [tool for name, tool in self._shown.items() if name not in kept]
        self._shown = kept
        return outdated

    def take_new(self, offer: Offer) -> list[SentTool]:
        """Return the offered tools that were not shown yet; a list under another prefix replaces the one before."""
        tools = [self.sent(definition) for definition in offer.tools]
        if offer.prefix != self._prefix:
            self._prefix = offer.prefix
            if self._call_tool is not None:
                self._call_tool = _call_tool([definition.name for definition in offer.tools])
            self._listed = {tool.original_name: tool for tool in tools if tool.original_name not in self._shown}
        return [tool for tool in tools if not self._is_known(tool)]

    def take_found(self, definitions: Iterable[Definition]) -> tuple[list[SentTool], list[SentTool]]:
        """Note and return which of the found tools are to be shown with the search that found them.

        Second come the tools that were shown before with another definition.
        """
        tools = [self.sent(definition) for definition in definitions] if self._in_transcript else []
        before = [self._shown.get(tool.original_name) for tool in tools]
        outdated = [
            old
            for old, tool in zip(before, tools, strict=True)
            if old is not None and not old.definition.is_like(tool.definition)
        ]
        changed = {tool.original_name for tool in outdated}
        new = [tool for tool in tools if tool.original_name in changed or not self._is_known(tool)]
        self.note_shown(new)
        return new, outdated

    def described(self, tools: Collection[SentTool]) -> str | None:
        """Return the words that describe tools to be called through `call_tool`; `None` where that is not in use."""
        if self._call_tool is None:
            return None
        lines = [compact(copied(tool.definition.to_json())) for tool in tools]
        return "\n".join([f"Call these with '{self._call_tool.name}':", *lines]) if lines else ""

    def _is_known(self, tool: SentTool) -> bool:
        return tool.original_name in self._listed or tool.original_name in self._shown

    def _name(self, original: str) -> str:
        """Return the name by which the provider knows a tool: its own wherever that is valid and free."""
        if original not in self._names:
            name, number = valid_name(original), 2
            while name in self._original_names:
                name, number = qualified_name("", f"{original}\0{number}"), number + 1
            self._names[original] = name
            self._original_names[name] = original
        return self._names[original]


def _call_tool(taken: Collection[str]) -> Definition:
    name = next((one for one in _CALL_TOOL_NAMES if one not in taken), _CALL_TOOL_NAMES[-1])
    return Definition(name, _CALL_TOOL_DESCRIPTION, _CALL_TOOL_SCHEMA)
