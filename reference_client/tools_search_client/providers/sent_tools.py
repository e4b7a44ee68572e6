"""What a provider is sent of each tool, and what its calls mean: names and arguments mapped there and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools_search_hosts import qualified_name

from tools_search_client.conversation.messages import Definition, valid_name
from tools_search_client.providers.plain_json import copied
from tools_search_client.providers.schemas import Parameters, adapted

__all__ = ["Limits", "SentTool", "SentTools"]

_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider takes."""

    most_tools: int | None = None
    longest_description: int | None = None
    """Characters; what is beyond is cut."""
    keywords: Collection[str] | None = None
    """The only ones that a schema may have; `None` means any of JSON Schema."""
    has_plain_arguments: bool = False
    """Whether the name of an argument has to begin like a word, and to have no `.` and no `-`."""


@dataclass(frozen=True, slots=True)
class SentTool:
    """A tool as a provider is sent it."""

    name: str
    """At most 64 letters, digits, `_` and `-`, a letter or `_` first; no two tools have the same."""
    description: str
    parameters: Parameters
    definition: Definition
    overflow: str = ""
    """What of the description is beyond the limit."""

    @property
    def schema(self) -> dict[str, Any]:
        """What the arguments are."""
        return self.parameters.schema


class SentTools:
    """Every tool of one conversation, as it is sent.

    Args:
        limits: What the provider takes.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sent: dict[str, SentTool] = {}
        self._names: dict[str, str] = {}
        self._original: dict[str, str] = {}

    def sent(self, definition: Definition) -> SentTool:
        """Return the tool as it is sent; the same definition is always sent alike."""
        known = self._sent.get(definition.name)
        if known is None or known.definition != definition:
            known = self._sent[definition.name] = self._made(definition)
        return known

    def name(self, original: str) -> str:
        """Return the name by which the provider knows a tool: its own wherever that is valid and free."""
        if original not in self._names:
            name = valid_name(original)
            number = 2
            while name in self._original:
                name, number = qualified_name("", f"{original}\0{number}"), number + 1
            self._names[original] = name
            self._original[name] = original
        return self._names[original]

    def meant(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the original name and arguments of a call; those of a tool that was never sent stay as they are."""
        original = self._original.get(name, name)
        sent = self._sent.get(original)
        return original, dict(arguments) if sent is None else sent.parameters.original(arguments)

    def _made(self, definition: Definition) -> SentTool:
        stated = definition.description.strip() or definition.name  # some providers refuse a tool without any
        description, limit = str(copied(stated)), self._limits.longest_description
        overflow = ""
        if limit is not None and len(description) > limit:
            description, overflow = description[: limit - 1] + _ELLIPSIS, description[limit - 1 :]
        parameters = adapted(
            definition.input_schema, keywords=self._limits.keywords, has_plain_names=self._limits.has_plain_arguments
        )
        return SentTool(self.name(definition.name), description, parameters, definition, overflow)
