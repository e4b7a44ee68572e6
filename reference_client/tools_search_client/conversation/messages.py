"""Definitions, calls and replies exchanged by a host, its model and a conversation, independent of the provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from mcp_ext_tools_search.ranking import Ranker
from mcp_types import ToolAnnotations
from tools_search_hosts import MAX_NAME_LENGTH, qualified_name

from tools_search_client.errors import Failure, require_kind
from tools_search_client.found import FoundTool
from tools_search_client.json_values import compact_json

MAX_BYTES: Final = 200_000
"""The largest definition to send to a model; the largest in public tool sets has 125,000 bytes."""

_VALID_NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")


def valid_name(name: str) -> str:
    """Return `name` if every provider accepts it, else a valid name derived from it."""
    return name if _VALID_NAME.fullmatch(name) else qualified_name("", name)


@dataclass(frozen=True, slots=True)
class Definition:
    """An entry in the tool list sent with a request to a model."""

    name: str
    """The model's name for it: at most 64 letters, digits, `_` and `-`."""

    description: str

    input_schema: Mapping[str, Any]

    annotations: ToolAnnotations | None = None
    """As stated by its server: untrusted hints."""

    tool: FoundTool | None = None
    """The server's tool, as last offered; `None` for a synthetic tool."""

    @classmethod
    def of(cls, tool: FoundTool) -> Definition:
        """Return the definition of a server's tool."""
        own = tool.tool
        purpose = own.description or own.title or ("" if own.name in tool.name else own.name)
        return cls(tool.name, purpose, own.input_schema, own.annotations, tool)

    def is_like(self, other: Definition) -> bool:
        """Return whether both definitions have the same content, regardless of the name."""
        mine, others = (
            (definition.description, definition.input_schema, definition.annotations) for definition in (self, other)
        )
        return mine == others

    @property
    def is_outdated(self) -> bool:
        """Whether the server now offers the tool with another definition."""
        return self.tool is not None and not self.is_like(Definition.of(self.tool))

    def to_json(self) -> dict[str, Any]:
        """Return the form that most providers use; equal definitions serialize to equal bytes."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.input_schema)}

    def serialized(self) -> str:
        """Return the definition as compact JSON."""
        return compact_json(self.to_json())

    @property
    def is_oversized(self) -> bool:
        """Whether it is too large for any model, by a server's mistake or as an attack."""
        return len(self.serialized().encode("utf-8", "surrogatepass")) > MAX_BYTES


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in `text` as a quarter of its bytes.

    For the definitions in six public tool sets, the error is between -9 % and +9 % compared with the o200k vocabulary.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


class TokenCounts:
    """Counts tokens of definitions, with a cache of those that are offered, because they are sent repeatedly."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._counted: dict[str, tuple[Definition, int]] = {}

    @classmethod
    def shared(cls, ranker: Ranker, count: Callable[[str], int]) -> TokenCounts:
        """Return the counts that all conversations with this ranker share, as they share an index (`known_tools`)."""
        try:
            latest = _LATEST.get(ranker)
            if latest is None or latest._count != count:
                latest = _LATEST[ranker] = cls(count)
        except TypeError:  # it cannot be hashed or weakly referenced
            return cls(count)
        return latest

    def of(self, definitions: Iterable[Definition]) -> int:
        """Return the total tokens of some definitions."""
        total = 0
        for definition in definitions:
            kept, number = self._counted.get(definition.name, (None, 0))
            # The schema is compared by identity: comparing the members would take as long as counting.
            is_same = (
                kept and kept.description == definition.description and kept.input_schema is definition.input_schema
            )
            if not is_same:
                number = self._count(definition.serialized())
                self._counted[definition.name] = (definition, number)
            total += number
        return total

    def keep(self, names: Collection[str]) -> None:
        """Forget the definitions with other names: a server can offer others at each turn."""
        self._counted = {name: counted for name, counted in self._counted.items() if name in names}

    def of_text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._count(text) if text else 0


_LATEST: Final = WeakKeyDictionary[Ranker, TokenCounts]()
"""Each ranker's latest counts."""


@dataclass(frozen=True, slots=True)
class SyntheticToolResult:
    """A synthetic tool's result."""

    content: str
    """The text for the model."""

    newly_loaded_tools: tuple[FoundTool, ...] = ()
    """Tools that the model can call from the next request on; already loaded tools are allowed."""

    is_error: bool = False

    remarks: str | None = None
    """What `content` says besides describing the loaded tools, for providers whose results can hold only references.

    It is sent in the user's role, so it must not contain any server's text. If `None`, the tools are listed instead of
    referred to, and `content` is the result.
    """


class SyntheticTool(Protocol):
    """A tool that the host answers itself, without any server. To the model it looks like any other tool."""

    @property
    def name(self) -> str:
        """The model's name for it; it takes precedence over a server's tool with the same name."""
        ...

    @property
    def definition(self) -> Definition:
        """The definition shown to the model. It is read once for each new tool list, and then sent unchanged."""
        ...

    async def execute(self, arguments: Mapping[str, Any], /) -> SyntheticToolResult:
        """Answer one call. Report the model's mistakes as results with `is_error`, not as exceptions.

        An exception does not end the turn: the model reads that the tool failed, and the host gets the exception in
        `Reply.fault`.
        """
        ...


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The result of beginning a turn."""

    loaded: tuple[str, ...] = ()
    """Names that became callable because a search before the model's turn found them."""

    failed: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Servers whose tools are missing, each with the reason."""

    problems: tuple[str, ...] = ()
    """Configuration problems for the operator."""

    changed: tuple[str, ...] = ()
    """Loaded tools whose definitions changed, so that the user's earlier consent might no longer apply.

    A tool that changed while it was not loaded is not among them: keep a lasting consent with the approved definition.
    """

    fault: Exception | None = None
    """The exception from the host's `delegate`, or why its re-ranker's order was not used; the turn continues."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What to send with the next request to the model."""

    tools: tuple[Definition, ...]
    """The tools to send, in this order."""

    prefix: int
    """The list's number. With the same number, `tools` starts with the `tools` of every earlier offer."""

    notices: tuple[str, ...] = ()
    """Changes that the list cannot express; append them to the input once.

    The only text from servers they contain is validated tool names, so they can be sent in the user's role.
    """


@dataclass(frozen=True, slots=True)
class Compaction:
    """What was removed from the tool list with the turns that a host dropped."""

    forgotten: tuple[str, ...]
    """Tools that the model can no longer call until they are found again."""
    freed_tokens: int
    """Tokens of their definitions."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model made it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None
    """The provider's id, repeated in the result. A call that an adapter reads has one, unique in its conversation."""
    problem: str | None = None
    """Why it is invalid, such as arguments that are not JSON; for the model to read. Such a call is never forwarded."""

    def __post_init__(self) -> None:
        require_kind("name", self.name, str, instead="the name of a tool")
        instead = "a mapping: parse JSON text, and say in `problem` if that fails"
        require_kind("arguments", self.arguments, Mapping, instead=instead)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer from the conversation itself; no server is called."""

    call: ToolCall
    text: str
    is_error: bool = False
    loaded: tuple[str, ...] = ()
    """Names that this call made callable or gave a new definition; sent to providers that support references."""
    remarks: str | None = None
    """What `text` says besides describing them, without servers' text, so that it can be sent in the user's role."""
    fault: Exception | None = None
    """The exception from the host's synthetic tool, or why its re-ranker's order was not used; not included in
    `text`.
    """
    failed: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Servers that could not be asked, each with the reason, such as `unauthorized` if its user must sign in."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The host must call a server's tool, after asking the user if necessary."""

    call: ToolCall
    definition: Definition
    """The definition the model was sent."""
    tool: FoundTool
    """The tool to call, as currently offered; `tool.name` is its name in a federation."""

    @property
    def is_changed(self) -> bool:
        """Whether the tool's definition has changed since it was sent to the model."""
        return not self.definition.is_like(Definition.of(self.tool))
