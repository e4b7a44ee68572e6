"""What passes between a host and its conversation, independent of any provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools_search_client.conversation.definitions import Definition
from tools_search_client.federation.reports import FederatedTool

__all__ = ["Forward", "Offer", "Reply", "ToolCall", "TurnStart"]


@dataclass(frozen=True, slots=True)
class TurnStart:
    """What came of beginning a turn."""

    loaded: tuple[str, ...] = ()
    """Names that became callable because a search before the model's turn found them."""

    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Servers whose tools are missing, each with the reason."""

    problems: tuple[str, ...] = ()
    """What the operator should mend in the configuration."""

    changed: tuple[str, ...] = ()
    """Names of loaded tools whose definition is another than before: what the user agreed to may no longer hold."""

    fault: Exception | None = None
    """What the host's `delegate` raised; the turn goes on without what it would have found."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What to send with the next request to the model."""

    tools: tuple[Definition, ...]
    """To be sent in this order."""

    prefix: int
    """Under the same number, `tools` begins with the `tools` of every earlier offer."""

    notices: tuple[str, ...] = ()
    """News for the model that cannot stand in the list; to be put at the end of the input, once.

    They have no words of a server but validated names of tools, so they may stand in the user's role.
    """


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model made it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None
    """The provider's, repeated in what comes of it."""
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
    """What a synthetic tool of the host raised; `text` has nothing of it."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The host calls a server's tool, after asking its user where that is called for."""

    call: ToolCall
    definition: Definition
    """What the model was sent."""
    tool: FederatedTool
    """What to call, as it is offered now: `tool.name` is its name in a federation."""

    @property
    def is_changed(self) -> bool:
        """Whether the tool has another definition by now than the model was sent."""
        return not self.definition.is_like(Definition.of(self.tool))
