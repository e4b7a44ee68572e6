"""The state of one conversation: what the model is given, what its calls mean, and what became of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import split_candidates
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest
from tools_search_ranking import default_ranker

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import ToolSource
from tools_search_client.conversation.delegation import Delegate, find_for_turn
from tools_search_client.conversation.desk import Desk
from tools_search_client.conversation.messages import (
    Definition,
    Forward,
    Offer,
    Reply,
    SyntheticTool,
    ToolCall,
    TurnStart,
    estimate_tokens,
)
from tools_search_client.conversation.pool import Pool
from tools_search_client.conversation.shelf import Addition
from tools_search_client.conversation.statistics import DiscoveryStatistics, Statistics, TokenCounts
from tools_search_client.errors import LocalError, ToolsSearchClientError, UnknownToolError
from tools_search_client.federation.configuration import ToolDiscovery

_logger = logging.getLogger(__name__)

_SYNTHETIC: Final = "_synthetic"


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
        self._pool = Pool(source, self._discovery, ranker, self._tokens, len(self._synthetic))
        self._desk = Desk(self._pool, self._discovery, self._synthetic)
        self.statistics: Final = Statistics(DiscoveryStatistics() if self._discovery.enabled else None)

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """What the model has, in the order of the list; `offer` returns the same and counts it as sent."""
        return self._desk.shelf.definitions

    @property
    def additions(self) -> tuple[Addition, ...]:
        """What was added to the list of tools since it was begun, and by which call."""
        return self._desk.shelf.additions

    @property
    def manifest(self) -> str:
        """What can be found at the moment, in the words in which the model is told."""
        return self._desk.search.manifest

    @property
    def search_name(self) -> str | None:
        """What the model calls `search_tools` by; `None` where it does not have it."""
        return self._desk.search_name

    def definition(self, name: str) -> Definition | None:
        """Return what the model was sent under this name, or `None` where it does not have such a tool."""
        return self._desk.shelf.get(name)

    def limit(self, most_tools: int | None, *, besides: int = 0) -> None:
        """Never offer more tools at once than the model's provider takes, nor than `max_tools` of the host's choices.

        Adapters call it with their provider's number. Call it before the first turn: a list that is longer is begun
        again. What does not fit is deferred, and what was found longest ago makes room for what is found.

        Args:
            most_tools: The number, host's own tools and `search_tools` included; `None` means any number.
            besides: How many tools the caller sends that are not of this conversation.
        """
        self._desk.limit(most_tools, besides)

    async def begin_turn(self, text: str | None = None, *, toolset: str | Toolset | None = None) -> TurnStart:
        """Take note of what is offered now, and find tools for what the user wrote where that is switched on.

        Args:
            text: What the user wrote.
            toolset: The choice among all tools that holds from now on; everything where none is given.

        Raises:
            LocalError: There is no toolset of that name.
        """
        chosen = self._chosen(toolset)
        self._desk.begin_turn()
        self._desk.learn(await self._source.survey(chosen), chosen)
        failures = {offer.name: offer.failure for offer in self._pool.catalog.servers if offer.failure is not None}
        loaded: list[str] = []
        fault: Exception | None = None
        if text and self._discovery.enabled:
            findings, fault = await find_for_turn(self._pool.reach, text, self._delegate)
            for finding in findings:
                added = self._desk.load(finding.tools)
                self._count_search(len(added))
                loaded += added
                failures |= finding.failures
        problems = (*self._pool.catalog.problems, *self._desk.problems)
        return TurnStart(tuple(loaded), failures, problems, self._desk.news.taken_changes(), fault)

    async def refresh(self) -> tuple[str, ...]:
        """Take note of what is offered now, in the middle of a turn; what is loaded stays loaded.

        Returns:
            As `TurnStart.changed`.
        """
        self._desk.learn(await self._source.survey(self._pool.toolset), self._pool.toolset)
        return self._desk.news.taken_changes()

    def start_over(self) -> None:
        """Begin another conversation of the same user: the list is begun again, without what was found."""
        self._desk.start_over()

    def offer(self) -> Offer:
        """Return what to send with the next request to the model, and count it as sent."""
        shelf = self._desk.shelf
        own = [definition for definition in shelf.definitions if definition.name in self._synthetic]
        number, tokens = self._pool.listed
        counts = self.statistics
        counts.requests += 1
        counts.definitions_sent += len(shelf.definitions)
        counts.definition_tokens_sent += self._tokens.of_all(shelf.definitions)
        counts.definitions_listed += number + len(own)
        counts.definition_tokens_listed += tokens + self._tokens.of_all(own)
        return Offer(shelf.definitions, shelf.prefix, self._desk.news.taken())

    async def take(self, call: ToolCall) -> Reply | Forward:
        """Return what a call of the model means: an answer, or a tool of a server to be called."""
        if call.problem is not None:
            return Reply(call, f"Error: {call.problem}", is_error=True)
        synthetic = self._desk.search if call.name == self._desk.search_name else self._synthetic.get(call.name)
        if synthetic is not None:
            return await self._answered(synthetic, call)
        definition = self._desk.meant(call.name)
        if definition is None or definition.tool is None:
            return Reply(call, self._refusal(call.name), is_error=True)
        server = definition.tool.server
        if self._desk.news.is_gone(definition.name):
            said = prompts.vanished(definition.name, server, self._desk.search_name)
            return Reply(call, said, is_error=True)
        self._count_call(definition.name, server)
        return Forward(call, definition, self._desk.called(definition) or definition.tool)

    def refused(self, forward: Forward) -> Reply:
        """Return what to tell the model of a call that the user does not allow."""
        self._uncount_call(forward)
        return Reply(forward.call, prompts.NOT_ALLOWED, is_error=True)

    def failed(self, forward: Forward, error: ToolsSearchClientError) -> Reply:
        """Return what to tell the model of a call that did not come to a result."""
        self._uncount_call(forward)
        name, server = forward.definition.name, forward.tool.server
        if isinstance(error, UnknownToolError) and server not in error.failed:
            self._desk.news.note_gone(name)
            said = prompts.vanished(name, server, self._desk.search_name)
        else:
            said = prompts.failed_call(name, server, error)
        return Reply(forward.call, said, is_error=True)

    async def _answered(self, synthetic: SyntheticTool, call: ToolCall) -> Reply:
        self._count_call(call.name, _SYNTHETIC)
        try:
            result = await synthetic.execute(call.arguments)
        except Exception as error:  # the host's own program: its mistakes cost no turn
            _logger.exception("the host's tool %r failed", call.name)
            return Reply(call, prompts.failed_host_tool(call.name), is_error=True, fault=error)
        loaded = self._desk.load(result.newly_loaded_tools, call.id)
        if synthetic is self._desk.search:
            self._count_search(len(loaded))
        return Reply(call, result.content, result.is_error, loaded, result.remarks)

    def _refusal(self, name: str) -> str:
        """Return why a name that is not loaded cannot be called."""
        known = self._pool.reach.known
        unlisted = self._pool.catalog.unlisted
        may_be_there = split_candidates(name.replace(":", "__", 1), unlisted)
        if (self._discovery.enabled or self._desk.search_name) and (known.named(name) or may_be_there):
            return prompts.not_loaded_yet(name, self._desk.search_name)
        return prompts.not_a_tool(name, known.closest(name), self._desk.search_name)

    def _chosen(self, toolset: str | Toolset | None) -> Toolset:
        if not isinstance(toolset, str):
            return toolset or EVERYTHING
        if toolset not in self._tool_sets:
            raise LocalError(f"no toolset is named {toolset!r}; {closest(toolset, self._tool_sets)}")
        return self._tool_sets[toolset]

    def _count_call(self, name: str, server: str) -> None:
        self.statistics.calls_by_tool[name] += 1
        self.statistics.calls_by_server[server] += 1

    def _uncount_call(self, forward: Forward) -> None:
        self.statistics.calls_by_tool -= Counter([forward.definition.name])
        self.statistics.calls_by_server -= Counter([forward.tool.server])

    def _count_search(self, discovered: int) -> None:
        if self.statistics.discovery is None:  # searched although that is off, since not everything could be sent
            self.statistics.discovery = DiscoveryStatistics()
        self.statistics.discovery.search_calls += 1
        self.statistics.discovery.tools_discovered += discovered
