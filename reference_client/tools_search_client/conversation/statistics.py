"""Counts of what a conversation sent, found and called, and of what that saved against listing everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class DiscoveryStatistics:
    """Counts of finding tools on demand."""

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
    """Calls that were let through and did not fail: those passed to `refused` or `failed` do not count."""

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

    def count_search(self, discovered: int) -> None:
        """Count a search that loaded this many tools."""
        if self.discovery is None:  # searched although that is off, since not everything could be sent
            self.discovery = DiscoveryStatistics()
        self.discovery.search_calls += 1
        self.discovery.tools_discovered += discovered

    def count_call(self, tool: str, server: str, number: int = 1) -> None:
        """Count a call, or take one back with -1."""
        for counts, name in ((self.calls_by_tool, tool), (self.calls_by_server, server)):
            counts[name] += number
            if counts[name] <= 0:
                del counts[name]

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
        # `asdict` cannot copy a `Counter`: it would count its items.
        calls = {"calls_by_tool": dict(self.calls_by_tool), "calls_by_server": dict(self.calls_by_server)}
        sums = {"total_tokens": self.total_tokens, "saved_share": round(self.saved_share, 4)}
        return asdict(self) | calls | sums
