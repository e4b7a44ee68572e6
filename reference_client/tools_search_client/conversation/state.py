"""Everything that one conversation remembers, as plain data in one place.

What is not here is derived from it: the index of the tools at hand, the manifest, and counts of tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import Catalog
from tools_search_client.conversation.messages import Addition, Definition
from tools_search_client.found import FoundTool


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
        """Add what the provider reports of one request; adapters do."""
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


ToolNotice: TypeAlias = Literal["gone", "outdated"]


@dataclass(frozen=True, slots=True)
class ServerNotice:
    """What the model was last given notice of about a server."""

    failed: bool
    tools: frozenset[str] | None
    """The full names of the tools that could be found there; `None` where it was never listed."""


@dataclass(slots=True)
class ConversationState:
    """What is offered, what the model has, and what changed between the two."""

    statistics: Statistics

    catalog: Catalog = field(default_factory=Catalog)
    """What was offered when it was last asked for, without what no model may see."""
    toolset: Toolset | None = None
    """The choice among all tools that holds; `None` before the first turn."""
    most: int | None = None
    """The most definitions that are ever sent at once; `None` means any number."""
    answered: set[Hashable] = field(default_factory=set[Hashable])
    """The searches that were answered since what they can find has changed: the same again finds the same again."""

    searches: int = 0
    """How many searches this conversation has made."""
    search_tokens: int = 0
    """Tokens of their calls and answers, without the definitions that they loaded."""

    prefix: int = 0
    """Number of the list that the model has: under the same one, a list begins with all earlier ones; 0 before any."""
    definitions: dict[str, Definition] = field(default_factory=dict[str, Definition])
    """The list that the model has, in its order."""
    additions: list[Addition] = field(default_factory=list[Addition])
    """What was added since the list was begun."""
    search_name: prompts.SearchName = prompts.SEARCH_NAMES[0]
    """What the model calls `search_tools` by where it has it."""
    eager: set[str] = field(default_factory=set[str])
    """Tools of the list that were loaded without being found."""
    pins: dict[str, str] = field(default_factory=dict[str, str])
    """Servers by the names of their tools that were pinned since the list was begun."""
    discovered: dict[str, FoundTool] = field(default_factory=dict[str, FoundTool])
    """What was found, with what was wanted last at the end."""
    called: set[str] = field(default_factory=set[str])
    """What was called in this turn."""
    counted: set[str] = field(default_factory=set[str])
    """The ids of the calls of this turn that `statistics` has."""

    gone: set[str] = field(default_factory=set[str])
    """Tools of the list, or that a saved one had, that are no longer offered, as far as is known."""
    outdated: set[str] = field(default_factory=set[str])
    """Tools of the list that are offered with other definitions."""
    unconfirmed: set[str] = field(default_factory=set[str])
    """Tools from a saved conversation whose servers could not be asked yet whether they are still offered."""
    seen: dict[str, Definition] = field(default_factory=dict[str, Definition])
    """The last definition that was seen of a tool, where it is not the one that was sent."""
    changed: dict[str, None] = field(default_factory=dict[str, None])
    """Tools with other definitions than before that the host was not given yet."""
    notified: dict[str, ToolNotice] = field(default_factory=dict[str, "ToolNotice"])
    """What the model was last given notice of about tools that are not as they were sent to it."""
    servers: dict[str, ServerNotice] = field(default_factory=dict[str, ServerNotice])
    """The same of servers, in order."""
