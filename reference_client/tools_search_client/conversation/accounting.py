"""How many tokens definitions are, each counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tools_search_client.conversation.catalog import Catalog
from tools_search_client.conversation.definitions import Definition
from tools_search_client.federation.reports import FederatedTool

__all__ = ["TokenCounts"]

_TYPICAL_TOKENS: Final = 150
"""Of one definition, where none is at hand: between the medians of six public sets of tools."""


class TokenCounts:
    """Remembers what was counted, since the same definitions are sent again and again.

    Args:
        count: How many tokens a text is.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._counted: dict[str, tuple[Definition, int]] = {}

    def of(self, definition: Definition) -> int:
        """Return the tokens of one definition."""
        kept = self._counted.get(definition.name)
        if kept is None or not _is_same(kept[0], definition):
            kept = self._counted[definition.name] = (definition, self._count(definition.serialized()))
        return kept[1]

    def of_tool(self, tool: FederatedTool) -> int:
        """Return the tokens of a server's tool."""
        return self.of(Definition.of(tool))

    def of_all(self, definitions: Iterable[Definition]) -> int:
        """Return the tokens of several definitions together."""
        return sum(map(self.of, definitions))

    def listed(self, catalog: Catalog) -> tuple[int, int]:
        """Return how many definitions, and tokens, sending the whole catalog would take.

        A server that was never listed counts with the size that it states and definitions as large as the others.
        """
        known = [self.of_tool(tool) for tool in catalog.tools]
        unseen = sum(offer.size or 0 for offer in catalog.servers if offer.tools is None)
        typical = sum(known) / len(known) if known else _TYPICAL_TOKENS
        return len(known) + unseen, sum(known) + round(unseen * typical)


def _is_same(one: Definition, other: Definition) -> bool:
    return one.description == other.description and one.input_schema is other.input_schema
