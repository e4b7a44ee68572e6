"""What the model has in front of it: definitions in the order in which they came, never re-ordered and never altered.

Providers keep what they computed for the beginning of a request, and the tools stand at the very beginning: a list that
only grows at its end costs what is new, one that changes anywhere else costs the whole conversation again. The list is
begun again only where that price is paid anyway (in another conversation, under another toolset), or buys something:
room for what is found once the list is full, or the new definition of a tool that the model asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tools_search_client.conversation.messages import Definition

__all__ = ["Addition", "Shelf"]


@dataclass(frozen=True, slots=True)
class Addition:
    """Definitions that were added together."""

    names: tuple[str, ...]

    call_id: str | None = None
    """The call that brought them about; `None` where the host did, between two turns."""


class Shelf:
    """A list of definitions that only grows. One that is oversized is never put there."""

    def __init__(self) -> None:
        self.capacity: int | None = None
        """The largest number of definitions; `None` means any."""
        self._definitions: dict[str, Definition] = {}
        self._additions: list[Addition] = []
        self._prefix = 0

    @property
    def prefix(self) -> int:
        """Which list this is: under the same number, every list begins with all earlier ones."""
        return self._prefix

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """All of them, in the order in which they came."""
        return tuple(self._definitions.values())

    @property
    def additions(self) -> tuple[Addition, ...]:
        """What was added since the list was begun, in order."""
        return tuple(self._additions)

    @property
    def room(self) -> int | None:
        """How many more fit; `None` where there is no bound."""
        return None if self.capacity is None else max(0, self.capacity - len(self._definitions))

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def get(self, name: str) -> Definition | None:
        """Return the definition that the model knows by `name`."""
        return self._definitions.get(name)

    def begin(self, definitions: Iterable[Definition]) -> None:
        """Begin a new list."""
        self._prefix += 1
        self._additions.clear()
        self._definitions.clear()
        self._put(definitions)

    def extend_beginning(self, definitions: Iterable[Definition]) -> None:
        """Append more of what the list begins with, as far as it fits."""
        self._put(definitions)

    def add(self, definitions: Iterable[Definition], *, call_id: str | None = None) -> tuple[str, ...]:
        """Append those that are not there yet and still fit, and return their names."""
        added = self._put(definitions)
        if added:
            self._additions.append(Addition(added, call_id))
        return added

    def replace(self, definitions: Iterable[Definition]) -> None:
        """Put definitions in the places of those of the same names, which makes it another list."""
        self._prefix += 1
        self._definitions |= {definition.name: definition for definition in definitions}

    def _put(self, definitions: Iterable[Definition]) -> tuple[str, ...]:
        added: list[str] = []
        for definition in definitions:
            if definition.name not in self._definitions and self.room != 0 and not definition.is_oversized:
                self._definitions[definition.name] = definition
                added.append(definition.name)
        return tuple(added)
