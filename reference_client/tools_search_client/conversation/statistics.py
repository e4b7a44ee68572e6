"""What a conversation sent, found and called, and what that saved against listing everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from tools_search_client.conversation.catalog import Catalog
from tools_search_client.conversation.messages import Definition
from tools_search_client.found import FoundTool

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

    def of_tool(self, tool: FoundTool) -> int:
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


@dataclass(slots=True)
class DiscoveryStatistics:
    """What finding tools on demand came to."""

    search_calls: int = 0
    """Calls of `search_tools`, and searches before the model was called."""

    tools_discovered: int = 0
    """Tools that were loaded because they were found, each counted once for each time that it was loaded."""


@dataclass(slots=True)
class Statistics:
    """Counts that only grow, over the life of a `Conversation`."""

    discovery: DiscoveryStatistics | None = None
    """`None` where tools are not loaded on demand."""

    calls_by_tool: Counter[str] = field(default_factory=Counter[str])
    """Calls that were let through and did not fail: what `refused` and `failed` were told of does not count."""

    calls_by_server: Counter[str] = field(default_factory=Counter[str])
    """Synthetic tools count under `_synthetic`."""

    requests: int = 0
    """To the model."""

    definitions_sent: int = 0
    definition_tokens_sent: int = 0
    """Summed over all requests, estimated unless the conversation was given a tokenizer."""

    definitions_listed: int = 0
    definition_tokens_listed: int = 0
    """What the same requests would have sent with every tool loaded; servers that were never listed are estimated."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As the provider reports them."""

    def add_usage(self, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Add what the provider reports of one request."""
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together, as the provider reports them."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def saved_share(self) -> float:
        """The share of definition tokens that was not sent; below 0 where more was sent than listing would have."""
        if not self.definition_tokens_listed:
            return 0.0
        return 1 - self.definition_tokens_sent / self.definition_tokens_listed

    def to_json(self) -> dict[str, Any]:
        """Return all counts as one JSON object."""
        counts = {member.name: getattr(self, member.name) for member in fields(self)}
        discovery = {"discovery": None if self.discovery is None else asdict(self.discovery)}
        calls = {name: dict(counts[name]) for name in ("calls_by_tool", "calls_by_server")}
        sums = {"total_tokens": self.total_tokens, "saved_share": round(self.saved_share, 4)}
        return counts | discovery | calls | sums
