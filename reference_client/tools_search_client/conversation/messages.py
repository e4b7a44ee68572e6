"""Definitions, calls and replies that pass between a host, its model and a conversation, for any provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mcp_types import ToolAnnotations
from tools_search_hosts import MAX_NAME_LENGTH, qualified_name

from tools_search_client.errors import Failure
from tools_search_client.found import FoundTool
from tools_search_client.json_values import compact_json

MAX_BYTES: Final = 200_000
"""The largest definition that is sent to a model; the largest in public sets of tools has 125,000 bytes."""

_VALID_NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")


def valid_name(name: str) -> str:
    """Return `name` where every provider takes it, else a name made from it: servers and models make up names."""
    return name if _VALID_NAME.fullmatch(name) else qualified_name("", name)


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry of the list of tools that is sent with a request to a model."""

    name: str
    """What the model calls it by: at most 64 letters, digits, `_` and `-`."""

    description: str

    input_schema: Mapping[str, Any]

    annotations: ToolAnnotations | None = None
    """As its server states them: hints, not to be trusted."""

    tool: FoundTool | None = None
    """The server's tool behind it, as it was offered last; `None` for a synthetic tool."""

    @classmethod
    def of(cls, tool: FoundTool, *, name: str | None = None) -> Definition:
        """Return the definition of a server's tool, under its own name unless another is given."""
        own = tool.tool
        return cls(name or tool.name, own.description or own.title or "", own.input_schema, own.annotations, tool)

    def is_like(self, other: Definition) -> bool:
        """Return whether a user or a model would read the same in both, under any name."""
        mine, others = ((one.description, one.input_schema, one.annotations) for one in (self, other))
        return mine == others

    def to_json(self) -> dict[str, Any]:
        """Return the form that most providers ask for; equal definitions serialize to equal bytes."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.input_schema)}

    def serialized(self) -> str:
        """Return the definition as compact JSON."""
        return compact_json(self.to_json())

    @property
    def is_oversized(self) -> bool:
        """Whether it is too large for any model: a server's mistake, or an attack."""
        return len(self.serialized().encode("utf-8", "surrogatepass")) > MAX_BYTES


def estimate_tokens(text: str) -> int:
    """Return about how many tokens `text` is: a quarter of its bytes.

    On the definitions of six public sets of tools that is 9 % too few to 9 % too many by the vocabulary o200k.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


class TokenCounts:
    """Tokens of definitions, each counted once, since the same definitions are sent again and again."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._counted: dict[str, tuple[Definition, int]] = {}

    def of(self, definitions: Iterable[Definition]) -> int:
        """Return the tokens of some definitions together."""
        total = 0
        for one in definitions:
            kept, number = self._counted.get(one.name, (None, 0))
            # The schema is compared by identity: comparing the members would take as long as counting.
            is_same = kept and kept.description == one.description and kept.input_schema is one.input_schema
            if not is_same:
                number = self._count(one.serialized())
                self._counted[one.name] = (one, number)
            total += number
        return total

    def of_text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._count(text) if text else 0

    def of_tool(self, tool: FoundTool) -> int:
        """Return the tokens of a server's tool."""
        return self.of([Definition.of(tool)])


@dataclass(frozen=True, slots=True)
class SyntheticToolResult:
    """The answer of a synthetic tool."""

    content: str
    """For the model to read."""

    newly_loaded_tools: tuple[FoundTool, ...] = ()
    """Tools that the model can call from the next request on; those that it can call already do no harm."""

    is_error: bool = False

    remarks: str | None = None
    """What `content` says besides describing the loaded tools, for providers whose results hold references alone.

    There it stands in the user's role, so nothing of a server may be in it. Without it the tools are listed instead of
    referred to, and `content` is the result.
    """


class SyntheticTool(Protocol):
    """A tool that the host answers itself: a model sees and calls it like any other, and no server hears of it."""

    @property
    def name(self) -> str:
        """What the model calls it by; it takes precedence over a server's tool of the same name."""
        ...

    @property
    def definition(self) -> Definition:
        """What the model is shown. It is read once for each list of tools that is begun, and then sent unchanged."""
        ...

    async def execute(self, arguments: Mapping[str, Any], /) -> SyntheticToolResult:
        """Answer one call. Mistakes of the model are results with `is_error`, not exceptions.

        An exception costs no turn: the model reads that the tool failed, and the host finds it in `Reply.fault`.
        """
        ...


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The outcome of beginning a turn."""

    loaded: tuple[str, ...] = ()
    """Names that became callable because a search before the model's turn found them."""

    failed: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Servers whose tools are missing, each with the reason."""

    problems: tuple[str, ...] = ()
    """What the operator should correct in the configuration."""

    changed: tuple[str, ...] = ()
    """Names of loaded tools whose definition is another than before: what the user agreed to may no longer hold."""

    fault: Exception | None = None
    """What the host's `delegate` raised, or why the order of its re-ranker was not used; the turn goes on."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What to send with the next request to the model."""

    tools: tuple[Definition, ...]
    """To be sent in this order."""

    prefix: int
    """The number of the list: under the same one, `tools` begins with the `tools` of every earlier offer."""

    notices: tuple[str, ...] = ()
    """Changes that cannot stand in the list; to be put at the end of the input, once.

    They have no words of a server but validated names of tools, so they may stand in the user's role.
    """


@dataclass(frozen=True, slots=True)
class Compaction:
    """What left the list of tools with the turns that a host dropped."""

    forgotten: tuple[str, ...]
    """Names of tools that have to be found again; the model cannot call them any more."""
    freed_tokens: int
    """Tokens of their definitions."""


@dataclass(frozen=True, slots=True)
class Addition:
    """Definitions that were added together."""

    names: tuple[str, ...]

    call_id: str | None = None
    """The call that found them; `None` where the host added them between two turns."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model made it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None
    """The provider's, repeated in the result."""
    problem: str | None = None
    """Why it cannot be understood, such as arguments that are no JSON, for the model to read; it is never forwarded."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The conversation answers the call itself; no server is asked."""

    call: ToolCall
    text: str
    is_error: bool = False
    loaded: tuple[str, ...] = ()
    """Names that became callable by this call, or got a new definition: a provider that takes references gets these."""
    remarks: str | None = None
    """What `text` says besides describing them, without words of a server: it may stand in the user's role."""
    fault: Exception | None = None
    """What a synthetic tool of the host raised, or why the order of its re-ranker was not used; nothing of it is in
    `text`."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The host calls a server's tool, after asking its user where that is called for."""

    call: ToolCall
    definition: Definition
    """What the model was sent."""
    tool: FoundTool
    """What to call, as it is offered now: `tool.name` is its name in a federation."""

    @property
    def is_changed(self) -> bool:
        """Whether the tool has another definition by now than the model was sent."""
        return not self.definition.is_like(Definition.of(self.tool))
