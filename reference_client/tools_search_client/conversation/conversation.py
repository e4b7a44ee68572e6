"""A conversation: turns of the user, requests to the model, the model's calls, and counts of all that."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import split_candidates
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest
from tools_search_ranking import default_ranker

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import ToolSource
from tools_search_client.conversation.loaded_tools import LoadedTools, OfferedTools
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.messages import (
    Addition,
    Definition,
    Forward,
    Offer,
    Reply,
    SyntheticTool,
    SyntheticToolResult,
    TokenCounts,
    ToolCall,
    TurnStart,
    estimate_tokens,
)
from tools_search_client.conversation.search import Delegate
from tools_search_client.conversation.search_tool import search_tools
from tools_search_client.errors import LocalError, ToolsSearchClientError, UnknownToolError
from tools_search_client.federation.configuration import ToolDiscovery

_logger = logging.getLogger(__name__)

_SYNTHETIC: Final = "_synthetic"


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


class Conversation:
    """What one conversation has in front of its model; it does no input and output but through `source`.

    For each turn of the user: `begin_turn`. For each request to the model: send the tools of `offer`, in their order.
    For each call that the model makes: `take`, which answers it or says which tool of which server to call.

    Args:
        source: Where tools come from.
        discovery: The host's choices; nothing is deferred unless they say so.
        tool_sets: Toolsets that a turn may name.
        synthetic_tools: Tools that the host answers itself, besides `search_tools`.
        delegate: Finds out before each turn which tools it takes.
        ranker: Ranks the tools at hand; the default one with the `least_confidence` of `discovery` unless given.
        count_tokens: How many tokens a text is; estimated unless given.
    """

    def __init__(
        self,
        source: ToolSource,
        discovery: ToolDiscovery | None = None,
        *,
        tool_sets: Mapping[str, Toolset] | None = None,
        synthetic_tools: Sequence[SyntheticTool] = (),
        delegate: Delegate | None = None,
        ranker: Ranker | None = None,
        count_tokens: Callable[[str], int] = estimate_tokens,
    ) -> None:
        self._source = source
        self._discovery = discovery or ToolDiscovery()
        self._tool_sets = tool_sets or {}
        self._delegate = delegate
        self._synthetic = {tool.name: tool for tool in synthetic_tools}
        self._tokens = TokenCounts(count_tokens)
        ranker = ranker or default_ranker(self._discovery.least_confidence)
        self._offered = OfferedTools(source, self._discovery, ranker, self._tokens, len(self._synthetic))
        self._loaded = LoadedTools(self._offered, self._discovery, self._synthetic)
        self.statistics: Final = Statistics(DiscoveryStatistics() if self._discovery.enabled else None)

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """What the model has, in the order of the list; `offer` returns the same and counts it as sent."""
        return self._loaded.definitions

    @property
    def additions(self) -> tuple[Addition, ...]:
        """What was added to the list of tools since it was begun, and by which call."""
        return self._loaded.additions

    @property
    def manifest(self) -> str:
        """What can be found at the moment, in the words in which the model reads it."""
        return manifest(self._offered.scope.offers)

    @property
    def search_name(self) -> str | None:
        """What the model calls `search_tools` by; `None` where it does not have it."""
        return self._loaded.search_name

    def definition(self, name: str) -> Definition | None:
        """Return what the model was sent under this name, or `None` where it does not have such a tool."""
        return self._loaded.get(name)

    def limit(self, most_tools: int | None, *, besides: int = 0) -> None:
        """Never offer more tools at once than the model's provider takes, nor than `max_tools` of the host's choices.

        Adapters call it with their provider's number. Call it before the first turn: a list that is longer is begun
        again. What does not fit is deferred, and what was found longest ago makes room for what is found.

        Args:
            most_tools: The number, host's own tools and `search_tools` included; `None` means any number.
            besides: How many tools the caller sends that are not of this conversation.
        """
        self._loaded.limit(most_tools, besides)

    async def begin_turn(self, text: str | None = None, *, toolset: str | Toolset | None = None) -> TurnStart:
        """Take in what is offered now, and find tools for what the user wrote where that is switched on.

        Args:
            text: What the user wrote.
            toolset: The choice among all tools that holds from now on; everything where none is given.

        Raises:
            LocalError: There is no toolset of that name.
        """
        chosen = self._chosen(toolset)
        self._loaded.begin_turn()
        self._loaded.learn(await self._source.survey(chosen), chosen)
        catalog = self._offered.catalog
        failures = {offer.name: offer.failure for offer in catalog.servers if offer.failure is not None}
        loaded: list[str] = []
        fault: Exception | None = None
        if text and self._discovery.enabled:
            findings, fault = await self._offered.scope.for_turn(text, self._delegate)
            for finding in findings:
                added = self._loaded.load(finding.tools)
                self.statistics.count_search(len(added))
                loaded += added
                failures |= finding.failures
        problems = (*self._offered.catalog.problems, *self._loaded.problems)
        return TurnStart(tuple(loaded), failures, problems, self._loaded.take_changes(), fault)

    async def refresh(self) -> tuple[str, ...]:
        """Take in what is offered now, in the middle of a turn; what is loaded stays loaded.

        Returns:
            As `TurnStart.changed`.
        """
        toolset = self._offered.toolset
        self._loaded.learn(await self._source.survey(toolset), toolset)
        return self._loaded.take_changes()

    def start_over(self) -> None:
        """Begin another conversation of the same user: the list is begun again, without what was found."""
        self._loaded.start_over()

    def offer(self) -> Offer:
        """Return what to send with the next request to the model, and count it as sent."""
        definitions = self._loaded.definitions
        own = [definition for definition in definitions if definition.name in self._synthetic]
        number, tokens = self._offered.listed
        counts = self.statistics
        counts.requests += 1
        counts.definitions_sent += len(definitions)
        counts.definition_tokens_sent += self._tokens.of(definitions)
        counts.definitions_listed += number + len(own)
        counts.definition_tokens_listed += tokens + self._tokens.of(own)
        return Offer(definitions, self._loaded.prefix, self._loaded.take_notices())

    async def take(self, call: ToolCall) -> Reply | Forward:
        """Return what a call of the model means: an answer, or a tool of a server to be called."""
        if call.problem is not None:
            return Reply(call, f"Error: {call.problem}", is_error=True)
        if call.name == self.search_name:
            reply = await self._answered(call, self._search_tools)
            if reply.fault is None:
                self.statistics.count_search(len(reply.loaded))
            return reply
        if call.name in self._synthetic:
            return await self._answered(call, self._synthetic[call.name].execute)
        definition = self._loaded.meant(call.name)
        if definition is None or definition.tool is None:
            return Reply(call, self._refusal(call.name), is_error=True)
        server = definition.tool.server
        if self._loaded.is_gone(definition.name):
            return Reply(call, prompts.vanished(definition.name, server, self.search_name), is_error=True)
        self.statistics.count_call(definition.name, server)
        return Forward(call, definition, self._loaded.called(definition) or definition.tool)

    def refused(self, forward: Forward) -> Reply:
        """Return the reply to a call that the user does not allow."""
        self.statistics.count_call(forward.definition.name, forward.tool.server, -1)
        return Reply(forward.call, prompts.NOT_ALLOWED, is_error=True)

    def failed(self, forward: Forward, error: ToolsSearchClientError) -> Reply:
        """Return the reply to a call that did not come to a result."""
        name, server = forward.definition.name, forward.tool.server
        self.statistics.count_call(name, server, -1)
        if isinstance(error, UnknownToolError) and server not in error.failed:
            self._loaded.note_gone(name)
            text = prompts.vanished(name, server, self.search_name)
        else:
            text = prompts.failed_call(name, server, error)
        return Reply(forward.call, text, is_error=True)

    async def _search_tools(self, arguments: Mapping[str, Any]) -> SyntheticToolResult:
        return await search_tools(self._offered.scope, self._loaded, arguments)

    async def _answered(
        self, call: ToolCall, execute: Callable[[Mapping[str, Any]], Awaitable[SyntheticToolResult]]
    ) -> Reply:
        self.statistics.count_call(call.name, _SYNTHETIC)
        try:
            result = await execute(call.arguments)
        except Exception as error:  # the host's own program: its mistakes cost no turn
            _logger.exception("the host's tool %r failed", call.name)
            return Reply(call, prompts.failed_host_tool(call.name), is_error=True, fault=error)
        loaded = self._loaded.load(result.newly_loaded_tools, call.id)
        return Reply(call, result.content, result.is_error, loaded, result.remarks)

    def _refusal(self, name: str) -> str:
        """Return why a name that is not loaded cannot be called."""
        known = self._offered.scope.known
        unlisted = self._offered.catalog.unlisted
        may_be_there = split_candidates(name.replace(":", "__", 1), unlisted)
        if (self._discovery.enabled or self.search_name) and (known.named(name) or may_be_there):
            return prompts.not_loaded_yet(name, self.search_name)
        return prompts.not_a_tool(name, known.closest(name), self.search_name)

    def _chosen(self, toolset: str | Toolset | None) -> Toolset:
        if not isinstance(toolset, str):
            return toolset or EVERYTHING
        if toolset not in self._tool_sets:
            raise LocalError(f"no toolset is named {toolset!r}; {closest(toolset, self._tool_sets)}")
        return self._tool_sets[toolset]
