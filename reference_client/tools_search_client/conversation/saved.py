"""A conversation as JSON, to go on with it in another process.

The text is no authority. It states what the model was sent; what may be offered is asked of servers and toolsets when
it is read (`Conversation.restore`). Its words are what the model has read already, like the transcript of its provider:
keep both where the data of your user is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, ClassVar, Final, Self, cast

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from tools_search_hosts.toolsets import Rule, Toolset

from tools_search_client.conversation.messages import Addition, Definition
from tools_search_client.conversation.prompts import Detail, SearchName
from tools_search_client.conversation.search_tool import SearchRequest
from tools_search_client.conversation.state import ConversationState, DiscoveryStatistics
from tools_search_client.errors import SavedConversationError
from tools_search_client.found import FoundTool, Mode
from tools_search_client.text import shorten

MOST_SAVED_BYTES: Final = 100_000_000
"""The largest text that is read: transcripts hold pictures and files."""

_MAX_PROBLEMS: Final = 3
_QUOTED_CHARS: Final = 400

Count = Annotated[int, Field(ge=0)]


class SavedPart(BaseModel):
    """A part of the text; a member that it does not have is refused, so that nothing is lost unnoticed."""

    model_config = ConfigDict(extra="forbid")


class SavedText(SavedPart):
    """A whole text, which says what it is."""

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
        """Return it as JSON, in ASCII characters; equal states have equal texts."""
        return json.dumps(self.model_dump(by_alias=True, exclude_unset=True), separators=(",", ":"))

    @classmethod
    def own_part(cls, stated: Any) -> Any:
        """Return the part of a text that has the members of this class."""
        return stated

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Return what `to_text` wrote.

        Raises:
            SavedConversationError: It is something else, of another version, or larger than `MOST_SAVED_BYTES`.
        """
        if len(text) > MOST_SAVED_BYTES:
            raise SavedConversationError(f"the saved text has more than {MOST_SAVED_BYTES:,} bytes")
        try:
            stated: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SavedConversationError(f"the saved text is not JSON: {shorten(str(error), _QUOTED_CHARS)}") from None
        try:
            return cls.model_validate(cls.own_part(stated))
        except ValidationError as error:
            problems = [f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors()]
            quoted = shorten("; ".join(problems[:_MAX_PROBLEMS]), _QUOTED_CHARS)
            raise SavedConversationError(f"the saved text cannot be used: {quoted}") from None


class SavedDefinition(SavedPart):
    """A definition as a model was sent it; by itself, of a tool of the host's own, `search_tools` included."""

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
    """What the model was sent, where that is something else."""

    @classmethod
    def of(cls, tool: FoundTool) -> SavedTool:
        """Return the saved form of a tool."""
        return cls(name=tool.name, server=tool.server, tool=tool.tool, mode=tool.mode)

    def found(self) -> FoundTool:
        """Return the tool, without why it was found."""
        return FoundTool(self.name, self.server, self.tool, mode=self.mode)


class SavedAddition(SavedPart):
    """Definitions that were added together."""

    names: tuple[str, ...]
    call_id: str | None


class SavedRule(SavedPart):
    """What a toolset shows of one server: the tools that it names, or all but these."""

    names: list[str]
    excludes: bool


class SavedToolset(SavedPart):
    """A choice among the tools of all servers."""

    name: str
    description: str
    rules: dict[str, SavedRule] | None
    """By server; null where everything is shown."""


class SavedServer(SavedPart):
    """What the model knows of a server."""

    failed: bool
    tools: list[str] | None
    """Full names of the tools that can be found there; null where it was never listed."""


class SavedRequest(SavedPart):
    """A search that was answered."""

    query: str | None
    server: str | None
    names: tuple[str, ...]
    detail: Detail


class SavedDiscovery(SavedPart):
    """`DiscoveryStatistics`."""

    search_calls: Count
    tools_discovered: Count


class SavedStatistics(SavedPart):
    """`Statistics`."""

    discovery: SavedDiscovery | None
    calls_by_tool: dict[str, Count]
    calls_by_server: dict[str, Count]
    requests: Count
    definitions_sent: Count
    definition_tokens_sent: Count
    definitions_listed: Count
    definition_tokens_listed: Count
    prompt_tokens: Count
    completion_tokens: Count


class SavedConversation(SavedText):
    """The state of a conversation, under the names of `ConversationState`, which says what each means.

    It does not have the catalog, which is asked for again, but a digest of it; nor `most`, which adapters and
    configuration state.
    """

    FORMAT: ClassVar = "tools-search-client/conversation"
    VERSION: ClassVar = 1

    statistics: SavedStatistics
    toolset: SavedToolset | None
    catalog: str
    """A digest of what was offered."""
    answered: list[SavedRequest]
    searches: Count
    search_tokens: Count
    prefix: Count
    definitions: list[SavedTool | SavedDefinition]
    """In their order."""
    additions: list[SavedAddition]
    search_name: SearchName
    eager: list[str]
    pins: dict[str, str]
    discovered: list[SavedTool]
    """What was wanted last at the end."""
    called: list[str]
    gone: list[str]
    outdated: list[str]
    unconfirmed: list[str]
    seen: list[SavedTool]
    changed: list[str]
    servers: dict[str, SavedServer]
    notices: list[str]

    @classmethod
    def own_part(cls, stated: Any) -> Any:
        """Return the conversation, also of a text that an adapter saved with its transcript."""
        return cast("dict[str, Any]", stated).get("conversation", stated) if isinstance(stated, dict) else stated

    @classmethod
    def of(cls, state: ConversationState) -> SavedConversation:
        """Return the saved form of a state."""
        return cls(
            format=cls.FORMAT,
            version=cls.VERSION,
            statistics=SavedStatistics.model_validate(state.statistics, from_attributes=True),
            toolset=_saved_toolset(state.toolset) if state.toolset else None,
            catalog=state.catalog.digest,
            answered=[
                SavedRequest.model_validate(one, from_attributes=True) for one in sorted(state.answered, key=repr)
            ],
            searches=state.searches,
            search_tokens=state.search_tokens,
            prefix=state.prefix,
            definitions=[saved_definition(one) for one in state.definitions.values()],
            additions=[SavedAddition.model_validate(one, from_attributes=True) for one in state.additions],
            search_name=state.search_name,
            eager=sorted(state.eager),
            pins=state.pins,
            discovered=[SavedTool.of(tool) for tool in state.discovered.values()],
            called=sorted(state.called),
            gone=sorted(state.gone),
            outdated=sorted(state.outdated),
            unconfirmed=sorted(state.unconfirmed),
            seen=[SavedTool.of(one.tool) for one in state.seen.values() if one.tool is not None],
            changed=list(state.changed),
            servers={
                name: SavedServer(failed=failed, tools=None if tools is None else sorted(tools))
                for name, (failed, tools) in state.servers.items()
            },
            notices=state.notices,
        )

    def restore(self, state: ConversationState) -> None:
        """Make `state` as it was saved, but for its catalog, its toolset and its bounds."""
        counts = self.statistics.model_dump()
        counts |= {name: Counter(counts[name]) for name in ("calls_by_tool", "calls_by_server")}
        if counts["discovery"] is not None:
            counts["discovery"] = DiscoveryStatistics(**counts["discovery"])
        for name, count in counts.items():
            setattr(state.statistics, name, count)
        state.answered = {SearchRequest(one.query, one.server, one.names, one.detail) for one in self.answered}
        state.searches, state.search_tokens = self.searches, self.search_tokens
        state.prefix = self.prefix
        state.definitions = {one.name: restored_definition(one) for one in self.definitions}
        state.additions = [Addition(one.names, one.call_id) for one in self.additions]
        state.search_name = self.search_name
        state.eager = {*self.eager}
        state.pins = dict(self.pins)
        state.discovered = {one.name: one.found() for one in self.discovered}
        state.called = {*self.called}
        state.gone = {*self.gone}
        state.outdated = {*self.outdated}
        state.unconfirmed = {*self.unconfirmed}
        state.seen = {one.name: Definition.of(one.found()) for one in self.seen}
        state.changed = dict.fromkeys(self.changed)
        state.servers = {
            name: (one.failed, None if one.tools is None else frozenset(one.tools))
            for name, one in self.servers.items()
        }
        state.notices = list(self.notices)

    @property
    def chosen(self) -> Toolset | None:
        """The toolset that the list was begun under; `None` before the first turn."""
        if self.toolset is None:
            return None
        rules = self.toolset.rules
        read = (
            None if rules is None else {name: Rule(frozenset(one.names), one.excludes) for name, one in rules.items()}
        )
        return Toolset(self.toolset.name, read, self.toolset.description)


def saved_definition(definition: Definition) -> SavedTool | SavedDefinition:
    """Return the saved form of what a model was sent."""
    tool = definition.tool
    if (
        tool is not None
        and definition == Definition.of(tool)
        and definition.serialized() == Definition.of(tool).serialized()
    ):
        return SavedTool.of(tool)
    sent = SavedDefinition(
        name=definition.name,
        description=definition.description,
        input_schema=dict(definition.input_schema),
        annotations=definition.annotations,
    )
    return sent if tool is None else SavedTool.of(tool).model_copy(update={"sent": sent})


def restored_definition(saved: SavedTool | SavedDefinition) -> Definition:
    """Return what `saved_definition` has the saved form of."""
    if isinstance(saved, SavedTool):
        sent, tool = saved.sent, saved.found()
        if sent is None:
            return Definition.of(tool)
        return Definition(tool.name, sent.description, sent.input_schema, sent.annotations, tool)
    return Definition(saved.name, saved.description, saved.input_schema, saved.annotations)


def _saved_toolset(toolset: Toolset) -> SavedToolset:
    rules = None
    if toolset.rules is not None:
        rules = {
            server: SavedRule(names=sorted(rule.names), excludes=rule.excludes)
            for server, rule in toolset.rules.items()
        }
    return SavedToolset(name=toolset.name, description=toolset.description, rules=rules)
