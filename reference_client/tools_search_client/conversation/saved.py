"""A conversation as JSON, to continue it in another process.

The text grants nothing. It records what the model was sent; when it is restored (`Conversation.restore`), the servers
and toolsets determine what is offered. Like the provider's transcript, it contains what the model has read, so store
both with your user's data.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, Self, cast

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation.messages import Definition
from tools_search_client.conversation.prompts import SearchName
from tools_search_client.conversation.search_tool import SearchRequest
from tools_search_client.conversation.state import ConversationState, ServerNotice, Statistics, ToolNotice
from tools_search_client.errors import SavedConversationError, require_kind
from tools_search_client.found import FoundTool, Mode
from tools_search_client.text import shorten

MAX_SAVED_BYTES: Final = 100_000_000
"""The largest text accepted; transcripts can contain pictures and files."""

_MAX_PROBLEMS: Final = 3
_QUOTED_CHARS: Final = 400

Count = Annotated[int, Field(ge=0)]


class SavedPart(BaseModel):
    """A part of the saved text. Unknown members are rejected, so that nothing is lost unnoticed.

    To save an object whose attributes have the same names, validate it.
    """

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class SavedText(SavedPart):
    """A complete saved text, with its format and version."""

    FORMAT: ClassVar[str]
    VERSION: ClassVar[int]

    format: str
    version: int

    @field_validator("format", "version")
    @classmethod
    def _is_ours(cls, stated: object, info: ValidationInfo) -> object:
        expected = cls.FORMAT if info.field_name == "format" else cls.VERSION
        if stated != expected:
            raise ValueError(f"this program reads {expected!r}")
        return stated

    def to_text(self) -> str:
        """Return it as ASCII JSON. Sets are sorted, so equal states give equal texts."""
        return json.dumps(self.model_dump(by_alias=True, exclude_unset=True), separators=(",", ":"), default=sorted)

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Parse a text written by `to_text`.

        Raises:
            SavedConversationError: It has another format or version, or is larger than `MAX_SAVED_BYTES`.
            LocalError: It is not a text.
        """
        require_kind("saved", text, str, bytes, instead="the text that `save` returned, not what it contains")
        if len(text) > MAX_SAVED_BYTES:
            raise SavedConversationError(f"the saved text has more than {MAX_SAVED_BYTES:,} bytes")
        try:
            stated: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SavedConversationError(f"the saved text is not JSON: {shorten(str(error), _QUOTED_CHARS)}") from None
        try:
            return cls.model_validate(stated)
        except ValidationError as error:
            problems = [f"`{'.'.join(map(str, problem['loc']))}`: {problem['msg']}" for problem in error.errors()]
            quoted = shorten("; ".join(problems[:_MAX_PROBLEMS]), _QUOTED_CHARS)
            raise SavedConversationError(f"the saved text cannot be used: {quoted}") from None


class SavedDefinition(SavedPart):
    """A definition as sent to a model; if not part of a `SavedTool`, that of `search_tools` or a tool of the host."""

    name: str
    description: str
    input_schema: dict[str, Any]
    annotations: ToolAnnotations | None


class SavedTool(SavedPart):
    """A server's tool."""

    name: str
    """What the model calls it by."""
    server: str
    tool: Tool
    """As the server stated it."""
    mode: Mode
    sent: SavedDefinition | None = None
    """What the model was sent, if different."""

    def found(self) -> FoundTool:
        """Return the tool, without its hit metadata."""
        return FoundTool(self.name, self.server, self.tool, mode=self.mode)


class SavedConversation(SavedText):
    """A conversation's state. `ConversationState` documents the members with the same names.

    It has a digest in place of the catalog, which is fetched again, and no `most`, which adapters and the configuration
    set.
    """

    FORMAT: ClassVar = "tools-search-client/conversation"
    VERSION: ClassVar = 2

    statistics: Statistics
    toolset: Toolset | None
    catalog: str
    """A digest of the catalog."""
    answered: list[tuple[SearchRequest, tuple[str, ...]]]
    searches: Count
    search_tokens: Count
    prefix: Count
    definitions: list[SavedTool | SavedDefinition]
    """In list order."""
    search_name: SearchName
    eager: set[str]
    pins: dict[str, str]
    discovered: list[SavedTool]
    """Least recently used first."""
    called: set[str]
    counted: set[str] = set()
    gone: set[str]
    unconfirmed: set[str]
    changed: list[str]
    notified: dict[str, ToolNotice]
    servers: dict[str, ServerNotice]

    @model_validator(mode="before")
    @classmethod
    def _part_of_transcript(cls, stated: object) -> object:
        """Extract the conversation from a text that an adapter saved with its transcript."""
        return cast("dict[str, Any]", stated).get("conversation", stated) if isinstance(stated, dict) else stated

    @classmethod
    def of(cls, state: ConversationState) -> SavedConversation:
        """Return the saved form of a state."""
        members = {name: getattr(state, name) for name in cls.model_fields if hasattr(state, name)}
        members |= {"format": cls.FORMAT, "version": cls.VERSION, "catalog": state.catalog.digest}
        members["statistics"] = deepcopy(state.statistics)
        members["answered"] = sorted(state.answered, key=repr)
        members["definitions"] = [saved_definition(definition) for definition in state.definitions.values()]
        members["discovered"] = list(state.discovered.values())
        members["changed"] = list(state.changed)
        return cls(**members)

    def restore(self, state: ConversationState) -> None:
        """Restore everything in `state` except its catalog, its toolset and its limits."""
        for count in fields(self.statistics):
            setattr(state.statistics, count.name, getattr(self.statistics, count.name))
        for name in ("searches", "search_tokens", "prefix", "search_name", "eager", "pins", "called", "counted", "gone",
                     "unconfirmed", "notified", "servers"):  # fmt: skip
            setattr(state, name, getattr(self, name))
        state.answered = set(self.answered)
        state.definitions = {definition.name: restored_definition(definition) for definition in self.definitions}
        state.discovered = {tool.name: tool.found() for tool in self.discovered}
        state.changed = dict.fromkeys(self.changed)


def saved_definition(definition: Definition) -> SavedTool | SavedDefinition:
    """Return the saved form of a definition."""
    sent = SavedDefinition.model_validate(definition)
    if definition.tool is None:
        return sent
    saved, own = SavedTool.model_validate(definition.tool), Definition.of(definition.tool)
    # The bytes count too: equal schemas can have their members in another order.
    is_own = definition == own and definition.serialized() == own.serialized()
    return saved if is_own else saved.model_copy(update={"sent": sent})


def restored_definition(saved: SavedTool | SavedDefinition) -> Definition:
    """Return the definition from its saved form."""
    if isinstance(saved, SavedTool):
        sent, tool = saved.sent, saved.found()
        if sent is None:
            return Definition.of(tool)
        return Definition(tool.name, sent.description, sent.input_schema, sent.annotations, tool)
    return Definition(saved.name, saved.description, saved.input_schema, saved.annotations)
