"""`Conversation`: manages the tools a model has from turn to turn, and resolves the model's calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType
from typing import Final
from weakref import WeakKeyDictionary

from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import split_candidates
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest

from tools_search_client.conversation import prompts
from tools_search_client.conversation.budget import affordable, count_search
from tools_search_client.conversation.catalog import Catalog, ToolSource
from tools_search_client.conversation.loaded_tools import LoadedTools
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.messages import (
    Compaction,
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
from tools_search_client.conversation.offered_tools import Delegate, Finding, OfferedTools
from tools_search_client.conversation.prompts import Detail
from tools_search_client.conversation.saved import SavedConversation
from tools_search_client.conversation.search_tool import search_tools
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.conversation.state import ConversationState, DiscoveryStatistics, Statistics
from tools_search_client.errors import (
    Failure,
    HostError,
    LocalError,
    ServerError,
    ToolsSearchClientError,
    UnknownToolError,
    refuse_single_name,
    require_count,
    require_kind,
    require_kinds,
    require_seconds,
)
from tools_search_client.federation.configuration import RankerName, ToolDiscovery
from tools_search_client.federation.federation import Federation, ranker_of
from tools_search_client.reranking import Reranking

_logger = logging.getLogger(__name__)

_SYNTHETIC: Final = "_synthetic"

_RANKERS: Final = WeakKeyDictionary[object, dict[tuple[RankerName, float | None], Ranker]]()
"""The rankers made for each source. Its conversations share one, and so a model, an index and token counts."""


class Conversation:
    """The tools that one conversation offers to its model.

    It does no I/O except through `source` and the functions you pass in (`delegate`, `synthetic_tools`, `reranking`).

    For each user turn, call `begin_turn`. For each request to the model, send the tools from `offer`, in order. For
    each call the model makes, call `take`, which either answers the call or returns the server's tool to call.

        new -> begun        `begin_turn`; or `restore`, which only a new conversation allows
        begun -> begun      `begin_turn` and `refresh` update the tools; `take` loads the tools that a search finds
        begun -> begun, without the found tools         `start_over`

    Args:
        source: Where tools come from: a federation's servers, or another source. With a federation, arguments you leave
            out default to its configuration and options.
        discovery: The host's settings; by default nothing is deferred.
        tool_sets: Toolsets that a turn can name.
        synthetic_tools: Tools that the host answers itself, besides `search_tools`.
        delegate: Determines before each turn which tools it needs.
        delegate_deadline: How many seconds `delegate` may take; after that, the turn begins without its searches.
        ranker: Ranks the known tools; defaults to the one named in `discovery`.
        reranking: Makes the final ordering of search results.
        count_tokens: Counts the tokens of a text; estimated by default.

    Raises:
        ConfigurationError: `discovery` requires ranking by meaning, but the extra is not installed.
        LocalError: An argument is of the wrong type, such as a configuration instead of a federation of its servers.
    """

    def __init__(
        self,
        source: ToolSource | Federation,
        discovery: ToolDiscovery | None = None,
        *,
        tool_sets: Mapping[str, Toolset] | None = None,
        synthetic_tools: Sequence[SyntheticTool] = (),
        delegate: Delegate | None = None,
        delegate_deadline: float = 10.0,
        ranker: Ranker | None = None,
        reranking: Reranking | None = None,
        count_tokens: Callable[[str], int] = estimate_tokens,
    ) -> None:
        if isinstance(source, Federation):
            source = FederationSource(source, discovery)
        if isinstance(source, FederationSource):
            ranker = ranker or (source.federation.ranker if discovery is None else None)
            discovery = discovery or source.discovery
            tool_sets = source.federation.configuration.tool_sets if tool_sets is None else tool_sets
            reranking = reranking or source.federation.reranking
        if not callable(getattr(source, "survey", None)):
            require_kind("source", source, instead="a `Federation` (see `open_federation`) or a `ToolSource`")
        self._source = source
        self._discovery = discovery or ToolDiscovery()
        require_kind("discovery", self._discovery, ToolDiscovery, instead="a `ToolDiscovery`")
        require_kind("reranking", reranking, Reranking, NoneType, instead="a `Reranking` of your function")
        require_kind(
            "delegate", delegate, Callable, NoneType, instead="an async function that returns queries for a text"
        )
        require_seconds("delegate_deadline", delegate_deadline)
        require_kind(
            "ranker", ranker, Callable, NoneType, instead="a `Ranker`; a `ToolDiscovery` takes the name of one"
        )
        require_kind("count_tokens", count_tokens, Callable, instead="a function that counts the tokens of a text")
        self._tool_sets = tool_sets or {}
        require_kind("tool_sets", self._tool_sets, Mapping, instead="a mapping of names to `Toolset`s")
        require_kinds("tool_sets", self._tool_sets.values(), Toolset, instead="a `Toolset`")
        require_kind("synthetic_tools", synthetic_tools, Sequence, instead="a sequence of `SyntheticTool`s")
        for position, tool in enumerate(synthetic_tools):
            if not callable(getattr(tool, "execute", None)):
                instead = "a `SyntheticTool`, with a name, a definition and `execute`"
                require_kind(f"synthetic_tools[{position}]", tool, instead=instead)
        self._delegate, self._delegate_deadline = delegate, delegate_deadline
        self._synthetic = {tool.name: tool for tool in synthetic_tools}
        ranker = ranker or _ranker_for(source, self._discovery)
        self._tokens = TokenCounts.shared(ranker, count_tokens)
        self._state = ConversationState(Statistics(DiscoveryStatistics() if self._discovery.enabled else None))
        self._offered = OfferedTools(
            self._state, source, self._discovery, ranker, reranking, self._tokens, reserved=len(self._synthetic)
        )
        self._loaded = LoadedTools(self._state, self._offered, self._discovery, self._synthetic)
        self.detail: Detail = "brief"
        """How to describe a found tool if the model does not say; adapters set `sentence`, because they send the
        definition.
        """
        self.statistics: Final = self._state.statistics
        self._changes = 0
        """How many changes the source knew of at the last survey."""

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The model's tools, in list order; `offer` returns the same and counts them as sent."""
        return tuple(self._state.definitions.values())

    @property
    def manifest(self) -> str:
        """What can currently be found, as the model reads it."""
        return manifest(self._offered.offers)

    @property
    def search_name(self) -> str | None:
        """The model's name for `search_tools`; `None` if it does not have that tool."""
        return self._loaded.search_name

    def definition(self, name: str) -> Definition | None:
        """Return the definition the model was sent under this name, or `None` if it has no such tool."""
        return self._state.definitions.get(name)

    def limit(self, most_tools: int | None, *, besides: int = 0) -> None:
        """Limit the number of tools offered at once, in addition to the host's `max_tools` setting.

        Adapters call this with their provider's limit. Call it before the first turn, because a longer list is started
        over. Tools that do not fit are deferred, and the least recently used found tools make room for new ones.

        Args:
            most_tools: The limit, including the host's own tools and `search_tools`; `None` means no limit.
            besides: How many tools the caller sends that are not part of this conversation.
        """
        if most_tools is not None:
            require_count("most_tools", most_tools, instead="a number of tools, or `None` for no limit")
        self._loaded.limit(most_tools, besides)

    async def begin_turn(self, text: str | None = None, *, toolset: str | Toolset | None = None) -> TurnStart:
        """Update the tools to what the servers offer now and, if enabled, find tools for the user's text.

        Args:
            text: What the user wrote.
            toolset: The toolset to use from now on; all tools by default.

        Raises:
            LocalError: There is no toolset with that name, or an argument is of the wrong type.
        """
        require_kind("text", text, str, NoneType, instead="the user's text")
        toolset = self._chosen(toolset)
        self._state.called.clear()  # from now on, they can make room for others
        self._state.counted.clear()
        await self._survey(toolset)
        await self._loaded.check_searched()
        failed = self._failed()
        loaded: list[str] = []
        fault: Exception | None = None
        if text and self._discovery.enabled:
            findings, fault = await self._offered.for_turn(text, self._delegate, self._delegate_deadline)
            for finding in findings:
                # No texts: the model reads no answer to these searches.
                added = self._loaded.load(affordable(self._offered, finding.tools, {}, by_query=True))
                count_search(self._offered)
                self.statistics.count_search(len(added))
                loaded += added
                failed |= finding.failed
                fault = fault or finding.fault
        return TurnStart(tuple(loaded), failed, self._problems(), self._take_changes(), fault)

    async def refresh(self) -> tuple[str, ...]:
        """Update the tools to what the servers offer now, in the middle of a turn. Loaded tools stay loaded.

        Returns:
            The same as `TurnStart.changed`.
        """
        await self._survey(self._state.toolset or EVERYTHING)
        await self._loaded.check_searched()
        return self._take_changes()

    async def _survey(self, toolset: Toolset) -> None:
        """Update to what the servers offer now."""
        changes = self._source.changes()
        catalog = await self._source.survey(toolset)
        await self._offered.prepare(catalog, toolset)
        self._loaded.learn(catalog, toolset)
        self._changes = changes

    def save(self) -> str:
        """Return the conversation as JSON, for `restore`. You can call it at any time, even while calls are open.

        `tools_search_client.conversation.saved` documents the format. It contains tool definitions and earlier
        searches, but no call results or messages.
        """
        return self.saved().to_text()

    def saved(self) -> SavedConversation:
        """Return the object that `save` serializes."""
        return SavedConversation.of(self._state)

    async def restore(
        self, saved: str | bytes | SavedConversation, *, toolset: str | Toolset | None = None
    ) -> TurnStart:
        """Continue a saved conversation. Call this on a new one, before the first `begin_turn`.

        The tool list is byte-for-byte the same as long as everything on it is still offered. `saved` cannot add tools:
        a tool stays only if its server offers it and the toolset shows it, and the model is notified of tools that are
        gone. A tool whose server cannot be asked stays on the list but is not called until its server offers it. All
        other changes are handled as in `refresh`.

        Args:
            saved: What `save` returned, here or on an adapter, whose transcript is ignored.
            toolset: The toolset to use from now on, as for `begin_turn`; `saved` does not determine it.

        Raises:
            SavedConversationError: `saved` cannot be read.
            LocalError: There is no toolset with that name, or the conversation has already begun.

        If it raises or is cancelled, nothing is restored.
        """
        # Parse a copy, because the state must not share objects with another conversation.
        read = SavedConversation.read(saved.to_text() if isinstance(saved, SavedConversation) else saved)
        toolset = self._chosen(toolset)
        if self._state.toolset is not None:
            raise LocalError("restore a conversation before its first turn")
        catalog = await self._source.survey(toolset)
        await self._offered.prepare(catalog, toolset)
        blank = self.save()
        try:
            read.restore(self._state)
            failed = await self._loaded.restore(catalog, toolset, read.toolset, read.catalog)
        except BaseException:  # such as a cancellation before the servers confirmed the saved tools
            SavedConversation.read(blank).restore(self._state)
            self._state.catalog, self._state.toolset = Catalog(), None
            raise
        return TurnStart((), failed | self._failed(), self._problems(), self._take_changes())

    def forget_unless(self, referred_to: Collection[str]) -> Compaction:
        """Unload found tools that the transcript no longer refers to, after the host has shortened it.

        Args:
            referred_to: Names of the tools to keep.
        """
        refuse_single_name("referred_to", referred_to)
        return self._loaded.forget_unless(referred_to)

    def start_over(self) -> None:
        """Start a new conversation for the same user: start the list over, without the found tools."""
        self._loaded.start_over()

    def offer(self) -> Offer:
        """Return what to send with the next request to the model, and count it as sent.

        Raises:
            LocalError: The conversation has not begun, so that nothing is known about its tools.
        """
        if self._state.toolset is None:
            raise LocalError("the conversation has no tools yet: call `begin_turn`, or `restore`, first")
        self._loaded.drop_removed()
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
        """Resolve the model's call: return an answer, or the server's tool to call.

        Raises:
            LocalError: `call` is not a `ToolCall`.
        """
        require_kind("call", call, ToolCall, instead="a `ToolCall`, as an adapter reads it from a response")
        if call.problem is not None:
            return Reply(call, f"Error: {call.problem}", is_error=True)
        self._loaded.drop_removed()
        definition = self._loaded.meant(call.name)
        is_loaded = call.name in self._synthetic or (definition is not None and definition.tool is not None)
        if self._state.toolset is not None and not is_loaded and self._source.changes() > self._changes:
            await self._survey(self._state.toolset)  # an earlier call of this turn can have added what it needs
            definition = self._loaded.meant(call.name)
        # First, because the host's tools take precedence over servers' tools with the same names.
        if call.name == self.search_name or call.name in self._synthetic:
            return await self._answered(call)
        if definition is None or (tool := definition.tool) is None:
            return Reply(call, self._refusal(call.name), is_error=True)
        definition, failed = await self._loaded.confirmed(definition)
        server = tool.server
        if definition.name in self._state.unconfirmed:
            return Reply(call, prompts.unconfirmed(definition.name, server), is_error=True, failed=failed)
        if definition.name in self._state.gone:
            return Reply(call, prompts.vanished(definition.name, server, self.search_name), is_error=True)
        if call.id not in self._state.counted:  # the same call can be taken again, by another process after an approval
            self.statistics.count_call(definition.name, server)
            self._state.counted.update(filter(None, [call.id]))
        return Forward(call, definition, self._loaded.called(definition) or definition.tool or tool)

    def refused(self, forward: Forward) -> Reply:
        """Return the reply to a call that the user rejected."""
        self._uncount(forward)
        return Reply(forward.call, prompts.NOT_ALLOWED, is_error=True)

    def failed(self, forward: Forward, error: ToolsSearchClientError) -> Reply:
        """Return the reply to a call that failed without a result."""
        self._uncount(forward)
        name, server = forward.definition.name, forward.tool.server
        if isinstance(error, UnknownToolError) and server not in error.failed:  # its server answered, without it
            self._loaded.lose(name)
            text = prompts.vanished(name, server, self.search_name)
        else:
            text = prompts.failed_call(name, server, error)
        failed = {server: Failure.of(error)} if isinstance(error, ServerError | HostError) else {}
        failed |= error.failed if isinstance(error, UnknownToolError) else {}
        return Reply(forward.call, text, is_error=True, failed=failed)

    def interrupted(self, call: ToolCall) -> Reply:
        """Return the reply to a call with an unknown outcome, such as one during which the host's process ended."""
        require_kind("call", call, ToolCall, instead="a `ToolCall`, such as one of an adapter's `open_calls`")
        return Reply(call, prompts.INTERRUPTED, is_error=True)

    def _uncount(self, forward: Forward) -> None:
        require_kind("forward", forward, Forward, instead="the `Forward` that `take` returned")
        self.statistics.count_call(forward.definition.name, forward.tool.server, -1)
        self._state.counted.discard(forward.call.id or "")

    async def _answered(self, call: ToolCall) -> Reply:
        """Answer a call of `search_tools` or of one of the host's own tools."""
        is_search = call.name == self.search_name
        self.statistics.count_call(call.name, _SYNTHETIC)
        try:
            if is_search:
                result, finding = await search_tools(self._loaded, call.arguments, self.detail)
            else:
                result, finding = await self._synthetic[call.name].execute(call.arguments), Finding()
                require_kind("the result of `execute`", result, SyntheticToolResult, instead="a `SyntheticToolResult`")
        except Exception as error:  # the host's own code: its errors must not end the turn
            _logger.exception("the host's tool %r failed", call.name)
            return Reply(call, prompts.failed_host_tool(call.name), is_error=True, fault=error)
        loaded = self._loaded.load(result.newly_loaded_tools)
        if is_search:
            self.statistics.count_search(len(loaded))
        return Reply(call, result.content, result.is_error, loaded, result.remarks, finding.fault, finding.failed)

    def _chosen(self, toolset: str | Toolset | None) -> Toolset:
        if isinstance(toolset, str):
            if toolset not in self._tool_sets:
                raise LocalError(f"no toolset is named {toolset!r}; {closest(toolset, self._tool_sets)}")
            return self._tool_sets[toolset]
        require_kind("toolset", toolset, Toolset, NoneType, instead="a `Toolset` or the name of one")
        return EVERYTHING if toolset is None else toolset

    def _failed(self) -> dict[str, Failure]:
        return {offer.name: offer.failure for offer in self._state.catalog.servers if offer.failure is not None}

    def _problems(self) -> tuple[str, ...]:
        return (*self._state.catalog.problems, *self._loaded.problems)

    def _refusal(self, name: str) -> str:
        """Return why a tool that is not loaded cannot be called."""
        known = self._offered.known
        unlisted = self._state.catalog.unlisted
        may_be_there = split_candidates(name.replace(":", "__", 1), unlisted)
        if (self._discovery.enabled or self.search_name) and (known.named(name) or may_be_there):
            return prompts.not_loaded_yet(name, self.search_name)
        return prompts.not_a_tool(name, known.closest(name), self.search_name)

    def _take_changes(self) -> tuple[str, ...]:
        """Return the names of the tools whose definitions changed since the last call."""
        changed = tuple(self._state.changed)
        self._state.changed.clear()
        return changed


def _ranker_for(source: ToolSource, discovery: ToolDiscovery) -> Ranker:
    origin = source.federation if isinstance(source, FederationSource) else source
    try:
        made = _RANKERS.setdefault(origin, {})
    except TypeError:  # the host's own source cannot be hashed or weakly referenced
        return ranker_of(discovery)
    named = discovery.ranker, discovery.least_confidence
    if named not in made:
        made[named] = ranker_of(discovery)
    return made[named]
