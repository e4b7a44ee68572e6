"""What passes between an adapter and its provider's own form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tools_search_client.providers.results import Part
from tools_search_client.providers.sent_tools import SentTool

__all__ = ["Answered", "Heard", "WireCall"]


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
    remarks: str = ""
    """What to say beside the result where it has room for tools alone; fit to stand in the user's role."""
