"""The tools that a conversation can draw on: those that are loaded from the start, and those that a search finds.

Tools at hand are searched here; servers that were never listed are asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from mcp_ext_tools_search.client import is_for_model
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank
from tools_search_hosts import SEPARATOR, qualified_name
from tools_search_hosts.names import is_pinned, pinned_within_bounds
from tools_search_hosts.toolsets import EVERYTHING, Toolset
from tools_search_ranking import never_silent

from tools_search_client.conversation.catalog import (
    MAX_BROWSED,
    Catalog,
    KnownTools,
    ServerOffer,
    SourceAnswer,
    ToolSource,
    spellings,
)
from tools_search_client.conversation.messages import TokenCounts
from tools_search_client.conversation.state import ConversationState
from tools_search_client.errors import Failure, RerankingError
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.federation.fanout import in_parallel
from tools_search_client.found import FoundTool
from tools_search_client.reranking import Reranking

Delegate: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Makes short descriptions of the tools that are needed out of what the user wrote; none where none is."""

_logger = logging.getLogger(__name__)

_TYPICAL_TOKENS: Final = 150
"""Tokens of one definition, where none is at hand: between the medians of six public sets of tools."""

_DEEPER: Final = 4
"""How many times as far a search goes whose first results are not for a model."""

_MAX_QUERY_LENGTH: Final = 1_024
"""Characters that every server has to accept (draft: Request)."""

_MIN_OF_A_WORD: Final = 10
"""A single word may be a name, and not every server puts the tool of that name first."""

_MAX_CORRECTED: Final = 5
"""Names for which the closest are looked for; that is the one thing here that takes its time."""


@dataclass(frozen=True, slots=True)
class Finding(SourceAnswer):
    """What one search found, here and at the servers, and what it did not."""

    loaded_anyway: tuple[FoundTool, ...] = ()
    """Tools that are always loaded and fit as well."""

    missing: tuple[str, ...] = ()
    """Names that no tool has."""

    by_query_instead: bool = False
    """Whether the tools are those of the query, because no tool has any of the names."""

    too_many: int | None = None
    """How many tools a server has that is too large to be loaded as a whole."""

    knows_all: bool = False
    """Whether all tools were at hand, so that no other can have the `unknown` words."""

    fault: RerankingError | None = None
    """Why the order is not that of the host's re-ranker."""


@dataclass(eq=False, slots=True)
class OfferedTools:
    """What is offered to one conversation, as its state has it."""

    state: ConversationState
    source: ToolSource
    discovery: ToolDiscovery
    ranker: Ranker
    """Ranks the tools at hand."""
    reranking: Reranking | None
    """The last say over what a query finds."""
    tokens: TokenCounts
    reserved: int
    """Definitions of the host's own that are always sent."""
    known: KnownTools = field(init=False)
    """Every tool whose definition is at hand, those that are loaded from the start as well."""
    listed: tuple[int, int] = field(default=(0, 0), init=False)
    """How many definitions and tokens the whole catalog is; servers that were never listed are estimated."""
    _indexed: tuple[FoundTool, ...] = field(default=(), init=False)
    _deferred: frozenset[str] = field(default=frozenset(), init=False)
    """The full names of the known tools that have to be found."""

    def __post_init__(self) -> None:
        self.known = KnownTools((), self.ranker)

    def learn(self, catalog: Catalog, toolset: Toolset) -> bool:
        """Take in what is offered now, and return whether anything changed.

        A server that fails for the moment is taken to offer what it offered before. What no model may see is left out.
        """
        state, catalog = self.state, catalog.for_model
        if toolset == state.toolset:
            before = {offer.name: offer for offer in state.catalog.servers}
            servers = (
                offer if offer.failure is None else replace(before.get(offer.name, offer), failure=offer.failure)
                for offer in catalog.servers
            )
            catalog = replace(catalog, servers=tuple(servers))
        if (catalog, toolset) == (state.catalog, state.toolset):
            return False
        state.catalog, state.toolset = catalog, toolset
        known = [self.tokens.of_tool(tool) for tool in catalog.tools]
        unseen = sum(offer.size or 0 for offer in catalog.servers if offer.tools is None)
        typical = sum(known) / len(known) if known else _TYPICAL_TOKENS
        self.listed = (len(known) + unseen, sum(known) + round(unseen * typical))
        return True

    def eager(self) -> tuple[FoundTool, ...]:
        """Return the tools that need not be found, in the order of the configuration and of each server.

        Servers that pin others from turn to turn do not get more of them loaded than their bound until the list is
        begun again.
        """
        for tool in self.state.catalog.tools:
            if is_pinned(tool.tool):
                self.state.pins.setdefault(tool.name, tool.server)
        return self._within(self.state.most)

    def defer_all_but(self, loaded: Collection[str]) -> None:
        """Make everything but the tools `loaded` from the start something that a search finds."""
        tools = self.state.catalog.tools
        if tools != self._indexed:
            self._indexed, self.known = tools, KnownTools(tools, self.ranker, before=self.known)
        self._deferred = frozenset(tool.name for tool in tools if tool.name not in loaded)
        self.state.answered.clear()

    @property
    def offers(self) -> list[ServerOffer]:
        """The servers with the tools that have to be found there."""
        offers = [
            offer
            if offer.tools is None
            else replace(offer, tools=tuple(tool for tool in offer.tools if tool.name in self._deferred))
            for offer in self.state.catalog.servers
        ]
        return [offer for offer in offers if offer.tools is None or offer.tools or offer.failure]

    @property
    def excess(self) -> int:
        """How many tools have to be found only because so many are not sent at once."""
        most = self.state.most
        return 0 if most is None else len(self._within(None)) - len(self._within(most))

    @property
    def needs_search(self) -> bool:
        """Whether there is anything that has to be found."""
        if not self.discovery.enabled:
            return self.excess > 0
        return bool(self._deferred or self.state.catalog.unlisted)

    async def still_offered(self, tools: Sequence[FoundTool]) -> tuple[dict[str, FoundTool], set[str]]:
        """Return which of `tools`, for which nobody vouches, are offered now.

        Returns:
            Those that are, by name and as they are offered now, and the names of those that cannot be asked for at the
            moment: their servers fail, or are hidden.
        """

        async def ask(tool: FoundTool) -> tuple[FoundTool | None, bool]:
            offer, known = self.state.catalog.server(tool.server), self.known.get(tool.name)
            if known is not None or tool.name != qualified_name(tool.server, tool.tool.name):
                return known, False
            if offer is None or not self.shows(tool):
                return None, True
            if offer.tools is not None and offer.failure is None:
                return None, False
            answer = self._shown(await self.source.look_up(tool.name, servers=[tool.server]))
            found = next((one for one in answer.tools if one.name == tool.name), None)
            return found, found is None and bool(offer.failure or answer.failed)

        answers = dict(zip((tool.name for tool in tools), await in_parallel(ask, tools), strict=True))
        offered = {name: tool for name, (tool, _) in answers.items() if tool is not None}
        return offered, {name for name, (_, cannot_be_asked) in answers.items() if cannot_be_asked}

    def has_lost(self, tool: FoundTool) -> bool:
        """Return whether a tool is gone: its server has left the catalog or was listed without it.

        A server that fails keeps its tools: a call of one is sent, and fails, until the server is listed again.
        """
        offer = self.state.catalog.server(tool.server)
        is_known = offer is None or (offer.tools is not None and offer.failure is None)
        return is_known and self.known.get(tool.name) is None

    def _within(self, most: int | None) -> tuple[FoundTool, ...]:
        """Return the tools that are loaded from the start where at most so many definitions are sent."""
        catalog, discovery = self.state.catalog, self.discovery
        eager = catalog.tools
        is_small = self.listed[1] <= discovery.context_share * discovery.context_window
        if discovery.enabled and not (discovery.auto and not catalog.unlisted and is_small):
            # Automatic deferral has to defer something where the configuration does not say what.
            defers_all = discovery.defer_all or (
                discovery.auto and not any(offer.defer_loading for offer in catalog.servers)
            )
            pinned = pinned_within_bounds((server, name) for name, server in self.state.pins.items())
            deferred = [offer for offer in catalog.servers if defers_all or offer.defer_loading]
            loaded = [tool for offer in catalog.servers if offer not in deferred for tool in offer.tools or ()]
            kept = [tool for offer in deferred for tool in offer.tools or () if tool.name in pinned]
            eager = (*loaded, *catalog.unassigned, *kept)
        if most is None:
            return eager
        room = most - self.reserved
        if len(eager) == len(catalog.tools) and not catalog.unlisted and len(eager) <= room:
            return eager
        # The last ones are deferred as well, so that there is room for `search_tools` and for what a search finds.
        return eager[: max(0, room - 1 - self.discovery.max_search_results)]

    async def by_query(self, query: str, servers: Collection[str] | None = None) -> Finding:
        """Return the best tools for `query` of these servers or of all, the one that is named exactly so first.

        The same query finds the same tools again, whether they were loaded meanwhile or not: a model that repeats
        itself reads that it does, instead of being given worse and worse tools.
        """
        wanted, limit = query.strip(), self.discovery.max_search_results
        fits = self.known.ranked(wanted, servers=servers)[:limit]
        most = limit * (self.reranking.pool if self.reranking else 1)
        here = self.known.ranked(wanted, among=self._deferred, servers=servers)[:most]
        named = [tool for tool in self.known.named(wanted, servers) if tool.name in self._deferred]
        answer = await self._searched(wanted, servers, most)
        called = [tool for tool in answer.tools if wanted in spellings(tool)]
        found: Sequence[FoundTool] = _fused(wanted, here, answer.tools, self.ranker)[:most]
        fault: RerankingError | None = None
        if self.reranking is not None:
            found, fault = await self.reranking.order(wanted, found)
        found = _each_once([*named, *called, *found])[:limit]
        loaded_anyway = tuple(tool for tool in fits if tool.name not in self._deferred)
        unknown, knows_all = self.known.unknown_words(wanted, servers), not self._unlisted(servers)
        if not knows_all:
            unknown = [word for word in answer.unknown if word in unknown]
        return Finding(
            tuple(found),
            failed=answer.failed,
            unknown=tuple(unknown),
            loaded_anyway=loaded_anyway,
            knows_all=knows_all,
            fault=fault,
        )

    async def by_names(self, names: Sequence[str], servers: Collection[str] | None = None) -> Finding:
        """Return the tools that `names` mean, in that order; the bare name of several tools means all of them."""
        answers = {name: SourceAnswer(tuple(self.known.named(name, servers))) for name in names}
        unknown = [name for name, answer in answers.items() if not answer.tools]
        looked_up = await in_parallel(lambda name: self._looked_up(name, servers), unknown)
        answers |= dict(zip(unknown, looked_up, strict=True))
        found: list[FoundTool] = []
        missing: list[str] = []
        closest: dict[str, None] = {}
        failed: dict[str, Failure] = {}
        for name, answer in answers.items():
            failed |= answer.failed
            if 0 < len(answer.tools) <= self.discovery.max_search_results:
                found += answer.tools
                continue
            missing.append(name)
            # A bare name of more tools than a search may load is answered with full ones to choose from.
            near = [tool.name for tool in answer.tools or self.known.named(name)] or list(answer.closest)
            if not near and len(missing) <= _MAX_CORRECTED:
                near = self.known.closest(name, servers)
            closest |= dict.fromkeys(near)
        return Finding(_each_once(found), missing=tuple(missing), closest=tuple(closest), failed=failed)

    async def by_server(self, server: str) -> Finding:
        """Return every tool of one server of the catalog, unless it is too large to be loaded as a whole."""
        offer = self.state.catalog.server(server)
        if offer is None:
            return Finding()
        if offer.failure is not None:
            return Finding(offer.tools or (), failed={server: offer.failure})
        if offer.tools is None and (offer.size or 0) > MAX_BROWSED:
            return Finding(too_many=offer.size)
        is_listed = offer.tools is not None
        answer = SourceAnswer(offer.tools or ()) if is_listed else self._shown(await self.source.browse(server))
        if len(answer.tools) > MAX_BROWSED:
            return Finding(too_many=len(answer.tools), failed=answer.failed)
        return Finding(answer.tools, failed=answer.failed)

    async def for_turn(self, text: str, delegate: Delegate | None) -> tuple[Sequence[Finding], Exception | None]:
        """Return what each search before a turn found, and what `delegate` raised; there may be no search.

        What the user wrote may hold anything. It leaves the host only for servers that are configured for that; all
        others get the short descriptions that `delegate` makes of it.
        """
        searches: list[tuple[str, Collection[str] | None]] = []
        switched_on = [offer.name for offer in self.offers if offer.delegate == "turn" and offer.tools != ()]
        if switched_on:
            searches.append((text[:_MAX_QUERY_LENGTH], switched_on))
        fault: Exception | None = None
        try:
            if delegate is not None:
                searches += [(query, None) for query in await delegate(text)]
        except Exception as error:  # the host's own program, such as another model: its mistakes cost no turn
            _logger.exception("the delegate failed")
            fault = error
        return await in_parallel(lambda one: self.by_query(*one), [one for one in searches if one[0].strip()]), fault

    async def _searched(self, query: str, servers: Collection[str] | None, most: int) -> SourceAnswer:
        """Return the best tools of the servers that were never listed, those that are named so first."""
        unlisted = self._unlisted(servers)
        sendable = query.encode("utf-8", "ignore").decode()[:_MAX_QUERY_LENGTH].strip()
        if not unlisted or not sendable:
            return SourceAnswer()
        is_word = len(sendable.split()) == 1
        limit = max(most, _MIN_OF_A_WORD if is_word else 0) + len(self._hidden(unlisted))

        async def search() -> SourceAnswer:
            found = await self.source.search(sendable, servers=unlisted, limit=limit)
            if len(found.tools) >= limit and len(self._shown(found).tools) < most:
                # Tools that no model may see have taken the places of others.
                found = await self.source.search(sendable, servers=unlisted, limit=_DEEPER * limit)
            return self._shown(found)

        asks = [search]
        if is_word and (SEPARATOR in sendable or ":" in sendable):
            # A full name is looked up as well: its server knows the tool by another name.
            asks.append(lambda: self._looked_up(sendable, servers))
        answer, *exact = await in_parallel(lambda ask: ask(), asks)
        named = [tool for tool in answer.tools if sendable in spellings(tool)]
        tools = _each_once([*named, *(tool for one in exact for tool in one.tools), *answer.tools])
        return replace(answer, tools=tools[:most])

    async def _looked_up(self, name: str, servers: Collection[str] | None) -> SourceAnswer:
        """Return the tools of this name of the servers that were never listed."""
        unlisted = self._unlisted(servers)
        if not unlisted:
            return SourceAnswer()
        answer = self._shown(await self.source.look_up(name, servers=unlisted))
        return replace(answer, closest=tuple(name for name in answer.closest if name not in self._hidden(unlisted)))

    def _unlisted(self, servers: Collection[str] | None) -> list[str]:
        return [name for name in self.state.catalog.unlisted if servers is None or name in servers]

    def _hidden(self, servers: Collection[str]) -> set[str]:
        """Return the full names of the tools of these servers that the toolset leaves out."""
        toolset = self.state.toolset or EVERYTHING
        rules = {server: rule for server in servers if (rule := toolset.rule(server)) is not None}
        return {qualified_name(server, tool) for server, rule in rules.items() if rule.excludes for tool in rule.names}

    def shows(self, tool: FoundTool) -> bool:
        """Return whether the toolset shows a tool."""
        rule = (self.state.toolset or EVERYTHING).rule(tool.server)
        return rule is not None and rule.shows(tool.tool.name)

    def _shown(self, answer: SourceAnswer) -> SourceAnswer:
        """Return the answer without what the toolset hides, and without what no model may see."""
        tools = tuple(tool for tool in answer.tools if self.shows(tool) and is_for_model(tool.tool))
        # What hidden tools mention is not known here.
        return replace(answer, tools=tools, unknown=answer.unknown if len(tools) == len(answer.tools) else ())


def _fused(query: str, here: Sequence[FoundTool], there: Sequence[FoundTool], ranker: Ranker) -> Sequence[FoundTool]:
    """Return one order of what was found here and at the servers, by rank and never by score."""
    if not here or not there:
        return here or there
    tools = {tool.name: tool for tool in (*here, *there)}

    def rank_together(names: Sequence[str]) -> list[str]:
        together = KnownTools((tools[name] for name in names), never_silent(ranker))
        return [tool.name for tool in together.ranked(query)]

    rankings = [[tool.name for tool in ranking] for ranking in (here, there)]
    return [tools[name] for name, _ in fuse_and_rerank(rankings, rank_together)]


def _each_once(tools: Iterable[FoundTool]) -> tuple[FoundTool, ...]:
    return tuple({tool.name: tool for tool in tools}.values())
