"""All of a conversation's state, as plain data in one place.

Everything else is derived from it: the index of known tools, the manifest, and token counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import Catalog
from tools_search_client.conversation.messages import Definition
from tools_search_client.found import FoundTool


@dataclass(slots=True)
class DiscoveryStatistics:
    """Statistics for finding tools on demand."""

    search_calls: int = 0
    """Calls of `search_tools`, plus searches made before calling the model."""

    tools_discovered: int = 0
    """Tools loaded by searches, counted each time they are loaded."""


@dataclass(slots=True)
class Statistics:
    """Cumulative counts over the life of a `Conversation`."""

    discovery: DiscoveryStatistics | None = None
    """`None` if tools are not loaded on demand."""

    calls_by_tool: Counter[str] = field(default_factory=Counter[str])
    """Calls that were allowed and did not fail: calls passed to `refused` or `failed` do not count."""

    calls_by_server: Counter[str] = field(default_factory=Counter[str])
    """Synthetic tools count under `_synthetic`."""

    requests: int = 0
    """Requests to the model."""

    definitions_sent: int = 0
    definition_tokens_sent: int = 0
    """Totals over all requests; estimated unless the conversation has a tokenizer."""

    definitions_listed: int = 0
    definition_tokens_listed: int = 0
    """Totals for the same requests if every tool were loaded; estimated for servers that were never listed."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As the provider reports them."""

    def add_usage(self, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Add the token counts that the provider reports for a request; adapters call this."""
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def count_search(self, discovered: int) -> None:
        """Count a search that loaded this many tools."""
        if self.discovery is None:  # not everything could be sent, so there are searches even though discovery is off
            self.discovery = DiscoveryStatistics()
        self.discovery.search_calls += 1
        self.discovery.tools_discovered += discovered

    def count_call(self, tool: str, server: str, number: int = 1) -> None:
        """Count a call, or uncount one with -1."""
        for counts, name in ((self.calls_by_tool, tool), (self.calls_by_server, server)):
            counts[name] += number
            if counts[name] <= 0:
                del counts[name]

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens, as the provider reports them."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def saved_share(self) -> float:
        """The share of definition tokens saved; negative if more were sent than listing would have sent."""
        if not self.definition_tokens_listed:
            return 0.0
        return 1 - self.definition_tokens_sent / self.definition_tokens_listed

    def to_json(self) -> dict[str, Any]:
        """Return all counts as one JSON object."""
        # `asdict` cannot copy a `Counter`: it would count its items.
        calls = {"calls_by_tool": dict(self.calls_by_tool), "calls_by_server": dict(self.calls_by_server)}
        sums = {"total_tokens": self.total_tokens, "saved_share": round(self.saved_share, 4)}
        return asdict(self) | calls | sums


ToolNotice: TypeAlias = Literal["gone", "outdated"]


@dataclass(frozen=True, slots=True)
class ServerNotice:
    """A server's state as the model was last notified of it."""

    failed: bool
    tools: frozenset[str] | None
    """The full names of the tools that could be found there; `None` if it was never listed."""


@dataclass(slots=True)
class ConversationState:
    """What the servers offer, what the model has, and the differences between the two."""

    statistics: Statistics

    catalog: Catalog = field(default_factory=Catalog)
    """The last catalog received, without tools that models must not see."""
    toolset: Toolset | None = None
    """The toolset in use; `None` before the first turn."""
    most: int | None = None
    """The most definitions to send at once; `None` means no limit."""
    answered: set[Hashable] = field(default_factory=set[Hashable])
    """Searches answered since the searchable tools last changed, each with the names of the tools that it found."""

    searches: int = 0
    """Number of searches made in this conversation."""
    search_tokens: int = 0
    """Tokens of their calls and answers, without the definitions they loaded."""

    prefix: int = 0
    """Number of the model's tool list. Lists with the same number only grow at the end; 0 means no list yet."""
    definitions: dict[str, Definition] = field(default_factory=dict[str, Definition])
    """The model's tool list, in order. Each definition is as it was sent, and its `tool` as it was last offered."""
    search_name: prompts.SearchName = prompts.SEARCH_NAMES[0]
    """The model's name for `search_tools`, if it has that tool."""
    eager: set[str] = field(default_factory=set[str])
    """Tools on the list that were loaded from the start."""
    pins: dict[str, str] = field(default_factory=dict[str, str])
    """The servers of the tools that were first pinned since the list was started, by tool name."""
    discovered: dict[str, FoundTool] = field(default_factory=dict[str, FoundTool])
    """Found tools, least recently used first."""
    called: set[str] = field(default_factory=set[str])
    """Tools called in this turn."""
    counted: set[str] = field(default_factory=set[str])
    """The ids of this turn's calls that are counted in `statistics`."""

    gone: set[str] = field(default_factory=set[str])
    """Tools on the list, or on a restored one, that are known to be no longer offered."""
    unconfirmed: set[str] = field(default_factory=set[str])
    """Tools from a saved conversation whose servers could not yet confirm that they are still offered."""
    changed: dict[str, None] = field(default_factory=dict[str, None])
    """Tools with changed definitions that have not been reported to the host yet."""
    notified: dict[str, ToolNotice] = field(default_factory=dict[str, "ToolNotice"])
    """The last notice the model got about each tool that is gone or outdated."""
    servers: dict[str, ServerNotice] = field(default_factory=dict[str, ServerNotice])
    """The last state of each server that the model was notified of, in order."""

    @property
    def outdated(self) -> list[str]:
        """Tools on the list whose offered definitions differ from the ones sent."""
        return [name for name, definition in self.definitions.items() if definition.is_outdated]
