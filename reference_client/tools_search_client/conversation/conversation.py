"""A conversation: turns of the user, requests to the model, and what the model's calls mean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import split_candidates
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest

from tools_search_client.conversation import prompts
from tools_search_client.conversation.budget import affordable, count_search
from tools_search_client.conversation.catalog import Catalog, ToolSource
from tools_search_client.conversation.loaded_tools import LoadedTools
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.messages import (
    Addition,
    Compaction,
    Definition,
    Forward,
    Offer,
    Reply,
    SyntheticTool,
    TokenCounts,
    ToolCall,
    TurnStart,
    estimate_tokens,
)
from tools_search_client.conversation.offered_tools import Delegate, OfferedTools
from tools_search_client.conversation.prompts import Detail
from tools_search_client.conversation.saved import SavedConversation
from tools_search_client.conversation.search_tool import search_tools
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.conversation.state import ConversationState, DiscoveryStatistics, Statistics
from tools_search_client.errors import Failure, LocalError, ToolsSearchClientError, UnknownToolError
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.federation.federation import Federation, ranker_of
from tools_search_client.reranking import Reranking

_logger = logging.getLogger(__name__)

_SYNTHETIC: Final = "_synthetic"


class Conversation:
    """What one conversation has in front of its model.

    Apart from `source` and the functions that you pass in (`delegate`, `synthetic_tools`, `reranking`), it does no I/O.

    For each turn of the user: `begin_turn`. For each request to the model: send the tools of `offer`, in their order.
    For each call that the model makes: `take`, which answers it or says which tool of which server to call.

    Args:
        source: Where tools come from: the servers of a federation, or another source. With a federation, what else is
            not given is as its configuration and options state it.
        discovery: The host's choices; nothing is deferred unless they say so.
        tool_sets: Toolsets that a turn may name.
        synthetic_tools: Tools that the host answers itself, besides `search_tools`.
        delegate: Finds out before each turn which tools it takes.
        ranker: Ranks the tools at hand; the one that `discovery` names unless given.
        reranking: The last say over what a search finds.
        count_tokens: How many tokens a text is; estimated unless given.

    Raises:
        ConfigurationError: `discovery` asks for ranking by meaning, whose extra is not installed.
    """

    def __init__(
        self,
        source: ToolSource | Federation,
        discovery: ToolDiscovery | None = None,
        *,
        tool_sets: Mapping[str, Toolset] | None = None,
        synthetic_tools: Sequence[SyntheticTool] = (),
        delegate: Delegate | None = None,
        ranker: Ranker | None = None,
        reranking: Reranking | None = None,
        count_tokens: Callable[[str], int] = estimate_tokens,
    ) -> None:
        if isinstance(source, Federation):
            source = FederationSource(source)
        if isinstance(source, FederationSource):
            stated = source.configuration
            ranker = ranker or (source.federation.ranker if discovery is None else None)
            discovery = discovery or stated.tool_discovery
            tool_sets = stated.tool_sets if tool_sets is None else tool_sets
            reranking = reranking or source.federation.reranking
        self._source = source
        self._discovery = discovery or ToolDiscovery()
        self._tool_sets = tool_sets or {}
        self._delegate = delegate
        self._synthetic = {tool.name: tool for tool in synthetic_tools}
        self._tokens = TokenCounts(count_tokens)
        self._state = ConversationState(Statistics(DiscoveryStatistics() if self._discovery.enabled else None))
        ranker = ranker or ranker_of(self._discovery)
        self._offered = OfferedTools(
            self._state, source, self._discovery, ranker, reranking, self._tokens, reserved=len(self._synthetic)
        )
        self._loaded = LoadedTools(self._state, self._offered, self._discovery, self._synthetic)
        self.detail: Detail = "brief"
        """How a found tool is described where the model does not say; adapters, which send the definition, set
        `sentence`."""
        self.statistics: Final = self._state.statistics

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """What the model has, in the order of the list; `offer` returns the same and counts it as sent."""
        return tuple(self._state.definitions.values())

    @property
    def additions(self) -> tuple[Addition, ...]:
        """What was added to the list of tools since it was begun, and by which call."""
        return tuple(self._state.additions)

    @property
    def manifest(self) -> str:
        """What can be found at the moment, in the words in which the model reads it."""
        return manifest(self._offered.offers)

    @property
    def search_name(self) -> str | None:
        """What the model calls `search_tools` by; `None` where it does not have it."""
        return self._loaded.search_name

    def definition(self, name: str) -> Definition | None:
        """Return what the model was sent under this name, or `None` where it does not have such a tool."""
        return self._state.definitions.get(name)

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
        toolset = self._chosen(toolset)
        self._state.called.clear()
        self._state.counted.clear()
        self._loaded.learn(await self._source.survey(toolset), toolset)
        failed = self._failed()
        loaded: list[str] = []
        fault: Exception | None = None
        if text and self._discovery.enabled:
            findings, fault = await self._offered.for_turn(text, self._delegate)
            for finding in findings:
                added = self._loaded.load(affordable(self._offered, finding.tools, {}, by_query=True))
                count_search(self._offered)
                self.statistics.count_search(len(added))
                loaded += added
                failed |= finding.failed
                fault = fault or finding.fault
        return TurnStart(tuple(loaded), failed, self._problems(), self._take_changes(), fault)

    async def refresh(self) -> tuple[str, ...]:
        """Take in what is offered now, in the middle of a turn; what is loaded stays loaded.

        Returns:
            As `TurnStart.changed`.
        """
        toolset = self._state.toolset or EVERYTHING
        self._loaded.learn(await self._source.survey(toolset), toolset)
        return self._take_changes()

    def save(self) -> str:
        """Return the whole conversation as JSON, for `restore`; at any time, also while calls of the model are open.

        `tools_search_client.conversation.saved` has the format. It holds definitions of tools and earlier searches, but
        no results of calls, nor anything else that was said.
        """
        return self.saved().to_text()

    def saved(self) -> SavedConversation:
        """Return what `save` makes a text of."""
        return SavedConversation.of(self._state)

    async def restore(
        self, saved: str | bytes | SavedConversation, *, toolset: str | Toolset | None = None
    ) -> TurnStart:
        """Go on with a conversation that was saved: call it on a new one, before the first `begin_turn`.

        The list of tools is the same in every byte while everything on it is offered. `saved` cannot add to it: a tool
        stays only where its server offers it and the toolset shows it, and the model is given notice of those that do
        not. A tool whose server cannot be asked stays, and is not called before its server offers it. Everything else
        that changed meanwhile is treated as `refresh` does.

        Args:
            saved: What `save` returned, here or of an adapter, whose transcript is left out.
            toolset: The choice among all tools that holds from now on, as for `begin_turn`: `saved` does not decide it.

        Raises:
            SavedConversationError: `saved` cannot be read.
            LocalError: There is no toolset of that name, or the conversation was begun already.

        Nothing is restored where it raises or is cancelled.
        """
        # Read again, since what becomes part of this conversation may be part of no other.
        read = SavedConversation.read(saved.to_text() if isinstance(saved, SavedConversation) else saved)
        toolset = self._chosen(toolset)
        if self._state.toolset is not None:
            raise LocalError("restore a conversation before its first turn")
        catalog = await self._source.survey(toolset)
        blank = self.save()
        try:
            read.restore(self._state)
            await self._loaded.restore(catalog, toolset, read.toolset, read.catalog)
        except BaseException:  # such as a cancellation, before anybody vouched for what was saved
            SavedConversation.read(blank).restore(self._state)
            self._state.catalog, self._state.toolset = Catalog(), None
            raise
        return TurnStart((), self._failed(), self._problems(), self._take_changes())

    def forget_unless(self, referred_to: Collection[str]) -> Compaction:
        """Forget the found tools that nothing in the transcript refers to any more, once the host has shortened it.

        Args:
            referred_to: Names of tools that stay loaded.
        """
        return self._loaded.forget_unless(referred_to)

    def start_over(self) -> None:
        """Begin another conversation of the same user: the list is begun again, without what was found."""
        self._loaded.start_over()

    def offer(self) -> Offer:
        """Return what to send with the next request to the model, and count it as sent."""
        definitions = self.definitions
        own = [definition for definition in definitions if definition.name in self._synthetic]
        number, tokens = self._offered.listed
        counts = self.statistics
        counts.requests += 1
        counts.definitions_sent += len(definitions)
        counts.definition_tokens_sent += self._tokens.of(definitions)
        counts.definitions_listed += number + len(own)
        counts.definition_tokens_listed += tokens + self._tokens.of(own)
        return Offer(definitions, self._state.prefix, self._loaded.news())

    async def take(self, call: ToolCall) -> Reply | Forward:
        """Return what a call of the model means: an answer, or a tool of a server to be called."""
        if call.problem is not None:
            return Reply(call, f"Error: {call.problem}", is_error=True)
        if call.name == self.search_name or call.name in self._synthetic:
            return await self._answered(call)
        definition = self._loaded.meant(call.name)
        if definition is None or (tool := definition.tool) is None:
            return Reply(call, self._refusal(call.name), is_error=True)
        definition = await self._loaded.confirmed(definition)
        server = tool.server
        if definition.name in self._state.unconfirmed:
            return Reply(call, prompts.unconfirmed(definition.name, server), is_error=True)
        if definition.name in self._state.gone:
            return Reply(call, prompts.vanished(definition.name, server, self.search_name), is_error=True)
        if call.id not in self._state.counted:  # it may be taken again, in the process after an approval
            self.statistics.count_call(definition.name, server)
            self._state.counted.update(filter(None, [call.id]))
        return Forward(call, definition, self._loaded.called(definition) or definition.tool or tool)

    def refused(self, forward: Forward) -> Reply:
        """Return the reply to a call that the user does not allow."""
        self._uncount(forward)
        return Reply(forward.call, prompts.NOT_ALLOWED, is_error=True)

    def failed(self, forward: Forward, error: ToolsSearchClientError) -> Reply:
        """Return the reply to a call that did not come to a result."""
        name, server = forward.definition.name, forward.tool.server
        self._uncount(forward)
        if isinstance(error, UnknownToolError) and server not in error.failed:
            self._loaded.lose(name)
            text = prompts.vanished(name, server, self.search_name)
        else:
            text = prompts.failed_call(name, server, error)
        return Reply(forward.call, text, is_error=True)

    def _uncount(self, forward: Forward) -> None:
        self.statistics.count_call(forward.definition.name, forward.tool.server, -1)
        self._state.counted.discard(forward.call.id or "")

    async def _answered(self, call: ToolCall) -> Reply:
        """Answer a call of `search_tools` or of a tool of the host's own."""
        is_search = call.name == self.search_name
        self.statistics.count_call(call.name, _SYNTHETIC)
        try:
            if is_search:
                result, fault = await search_tools(self._loaded, call.arguments, self.detail)
            else:
                result, fault = await self._synthetic[call.name].execute(call.arguments), None
        except Exception as error:  # the host's own program: its mistakes cost no turn
            _logger.exception("the host's tool %r failed", call.name)
            return Reply(call, prompts.failed_host_tool(call.name), is_error=True, fault=error)
        loaded = self._loaded.load(result.newly_loaded_tools, call.id)
        if is_search:
            self.statistics.count_search(len(loaded))
        return Reply(call, result.content, result.is_error, loaded, result.remarks, fault)

    def _chosen(self, toolset: str | Toolset | None) -> Toolset:
        if isinstance(toolset, str):
            if toolset not in self._tool_sets:
                raise LocalError(f"no toolset is named {toolset!r}; {closest(toolset, self._tool_sets)}")
            return self._tool_sets[toolset]
        return toolset or EVERYTHING

    def _failed(self) -> dict[str, Failure]:
        return {offer.name: offer.failure for offer in self._state.catalog.servers if offer.failure is not None}

    def _problems(self) -> tuple[str, ...]:
        return (*self._state.catalog.problems, *self._loaded.problems)

    def _refusal(self, name: str) -> str:
        """Return why a name that is not loaded cannot be called."""
        known = self._offered.known
        unlisted = self._state.catalog.unlisted
        may_be_there = split_candidates(name.replace(":", "__", 1), unlisted)
        if (self._discovery.enabled or self.search_name) and (known.named(name) or may_be_there):
            return prompts.not_loaded_yet(name, self.search_name)
        return prompts.not_a_tool(name, known.closest(name), self.search_name)

    def _take_changes(self) -> tuple[str, ...]:
        """Return the names of the tools whose definition changed since this was asked last."""
        changed = tuple(self._state.changed)
        self._state.changed.clear()
        return changed
