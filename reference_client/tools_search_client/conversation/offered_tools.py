"""The tools available to a conversation: the ones loaded from the start, and the ones a search finds.

Known tools are searched locally; never-listed servers are asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from mcp_ext_tools_search.client import is_for_model
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank
from tools_search_hosts import SEPARATOR, qualified_name
from tools_search_hosts.counts import number_of
from tools_search_hosts.names import is_pinned, pinned_within_bounds
from tools_search_hosts.toolsets import EVERYTHING, Toolset
from tools_search_ranking import never_silent

from tools_search_client.conversation.catalog import MAX_BROWSED, Catalog, ServerOffer, SourceAnswer, ToolSource
from tools_search_client.conversation.messages import Definition, TokenCounts
from tools_search_client.conversation.state import ConversationState
from tools_search_client.errors import Failure, LocalError, RerankingError
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.federation.fanout import in_parallel
from tools_search_client.found import FoundTool
from tools_search_client.known_tools import MANY, KnownTools, in_thread, known_tools, spellings
from tools_search_client.reranking import Reranking

Delegate: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Turns the user's text into short descriptions of the tools needed; empty if none are needed."""

_logger = logging.getLogger(__name__)

_TYPICAL_TOKENS: Final = 150
"""Estimated tokens per definition if none is known; within the range of the medians of six public tool sets."""

_DEEPER: Final = 4
"""Factor by which to raise the limit of a search if its first results include tools that models must not see."""

_MAX_QUERY_LENGTH: Final = 1_024
"""Query length in characters that every server must accept (draft: Request)."""

_MIN_OF_A_WORD: Final = 10
"""Minimum limit for a one-word query: it might be a name, and not every server ranks the tool with that name first."""

_MAX_CORRECTED: Final = 5
"""Maximum number of names to find close matches for, because that is slow."""


@dataclass(frozen=True, slots=True)
class Finding(SourceAnswer):
    """The result of a search, both local and on servers."""

    loaded_anyway: tuple[FoundTool, ...] = ()
    """Matching tools that are always loaded."""

    missing: tuple[str, ...] = ()
    """Names that match no tool."""

    by_query_instead: bool = False
    """Whether the tools were found by the query because no tool has any of the names."""

    too_many: int | None = None
    """The number of tools on a server that is too large to load as a whole."""

    knows_all: bool = False
    """Whether all tools were known, so that no other tool can mention the `unknown` words."""

    fault: RerankingError | None = None
    """Why the host's re-ranker did not determine the order."""


@dataclass(eq=False, slots=True)
class OfferedTools:
    """The tools offered to one conversation, from its state."""

    state: ConversationState
    source: ToolSource
    discovery: ToolDiscovery
    ranker: Ranker
    """Ranks the known tools."""
    reranking: Reranking | None
    """Makes the final ordering of a query's results."""
    tokens: TokenCounts
    reserved: int
    """Number of the host's own definitions, which are always sent."""
    known: KnownTools = field(init=False)
    """Every tool whose definition is known, including those loaded from the start."""
    listed: tuple[int, int] = field(default=(0, 0), init=False)
    """The whole catalog's definitions and tokens; estimated for never-listed servers."""
    _deferred: frozenset[str] = field(default=frozenset(), init=False)
    """The full names of the known tools that must be found by search."""
    _prepared: KnownTools | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.known = KnownTools((), self.ranker)

    async def prepare(self, catalog: Catalog, toolset: Toolset) -> None:
        """Index the tools of a catalog, which is learned next, in a thread if there are many."""
        tools = self._completed(catalog, toolset).tools
        if len(tools) >= MANY:
            self._prepared = await in_thread(partial(known_tools, tools, self.ranker, self.known))

    def learn(self, catalog: Catalog, toolset: Toolset) -> bool:
        """Update to what is offered now, and return whether anything changed.

        A failing server is assumed to offer what it offered before. Tools that models must not see are left out.
        """
        state, catalog = self.state, self._completed(catalog, toolset)
        if (catalog, toolset) == (state.catalog, state.toolset):
            return False
        state.catalog, state.toolset = catalog, toolset
        number, tokens = len(catalog.tools), self.tokens.of(map(Definition.of, catalog.tools))
        self.tokens.keep({*state.definitions, *(tool.name for tool in catalog.tools)})
        unseen = sum(offer.size or 0 for offer in catalog.servers if offer.tools is None)
        typical = tokens / number if number else _TYPICAL_TOKENS
        self.listed = (number + unseen, tokens + round(unseen * typical))
        return True

    def _completed(self, catalog: Catalog, toolset: Toolset) -> Catalog:
        """Return what models may see, with what failing servers offered before."""
        state, catalog = self.state, catalog.for_model
        if toolset != state.toolset:
            return catalog
        before = {offer.name: offer for offer in state.catalog.servers}
        servers = (
            offer if offer.failure is None else _as_before(before.get(offer.name, offer), offer)
            for offer in catalog.servers
        )
        return replace(catalog, servers=tuple(servers))

    def eager(self) -> tuple[FoundTool, ...]:
        """Return the tools loaded from the start, in the order of the configuration and of each server.

        A server that pins other tools each turn cannot exceed its limit of pinned tools until the list is started over.
        """
        # The earlier ones first. The rest of them is not kept, because a server can pin others at each turn.
        pins = self.state.pins | {tool.name: tool.server for tool in self.state.catalog.tools if is_pinned(tool.tool)}
        within = pinned_within_bounds((server, name) for name, server in pins.items())
        self.state.pins = {name: pins[name] for name in within}
        return self._within(self.state.most)

    def defer_all_but(self, loaded: Collection[str]) -> None:
        """Defer all tools except those `loaded` from the start."""
        tools = self.state.catalog.tools
        self.known, self._prepared = known_tools(tools, self.ranker, self._prepared or self.known), None
        self._deferred = frozenset(tool.name for tool in tools if tool.name not in loaded)
        self.state.answered.clear()

    @property
    def offers(self) -> list[ServerOffer]:
        """The servers, each with its deferred tools."""
        offers = [offer.only(lambda tool: tool.name in self._deferred) for offer in self.state.catalog.servers]
        return [offer for offer in offers if offer.tools is None or offer.tools or offer.failure]

    @property
    def excess(self) -> int:
        """How many tools are deferred only because of the limit on definitions."""
        most = self.state.most
        return 0 if most is None else len(self._within(None)) - len(self._within(most))

    @property
    def needs_search(self) -> bool:
        """Whether any tools must be found by search."""
        if not self.discovery.enabled:
            return self.excess > 0
        return bool(self._deferred or self.state.catalog.unlisted)

    async def still_offered(
        self, tools: Sequence[FoundTool]
    ) -> tuple[dict[str, FoundTool], dict[str, Mapping[str, Failure]]]:
        """Return which of `tools`, which come from an untrusted source, are offered now.

        Returns:
            The offered tools by name, in their current form, and the names of the tools that cannot be checked now
            because their servers are hidden or fail, with the failures.
        """

        async def ask(tool: FoundTool) -> tuple[FoundTool | None, Mapping[str, Failure] | None]:
            offer, known = self.state.catalog.server(tool.server), self.known.get(tool.name)
            if known is not None or tool.name != qualified_name(tool.server, tool.tool.name):
                return known, None  # no server would be found to have a tool of another name
            if offer is None or not self.shows(tool):
                return None, {}
            if offer.tools is not None and offer.failure is None:
                return None, None
            answer = self._shown(await self.source.look_up(tool.name, servers=[tool.server]))
            found = next((other for other in answer.tools if other.name == tool.name), None)
            stated = {} if offer.failure is None else {tool.server: offer.failure}
            return found, (found is None and (answer.failed or stated)) or None

        answers = dict(zip((tool.name for tool in tools), await in_parallel(ask, tools), strict=True))
        offered = {name: tool for name, (tool, _) in answers.items() if tool is not None}
        return offered, {name: failed for name, (_, failed) in answers.items() if failed is not None}

    def has_lost(self, tool: FoundTool) -> bool:
        """Return whether a tool is gone: its server left the catalog or was listed without it.

        A failing server keeps its tools: calls are sent, and fail, until the server is listed again.
        """
        offer = self.state.catalog.server(tool.server)
        is_known = offer is None or (offer.tools is not None and offer.failure is None)
        return is_known and self.known.get(tool.name) is None

    def _within(self, most: int | None) -> tuple[FoundTool, ...]:
        """Return the tools to load from the start if at most `most` definitions are sent."""
        catalog, discovery = self.state.catalog, self.discovery
        eager = catalog.tools
        is_small = self.listed[1] <= discovery.context_share * discovery.context_window
        if discovery.enabled and not (discovery.auto and not catalog.unlisted and is_small):
            # Automatic deferral must defer something even if the configuration does not say what.
            defers_all = discovery.defer_all or (
                discovery.auto and not any(offer.defer_loading for offer in catalog.servers)
            )
            deferred = [offer for offer in catalog.servers if defers_all or offer.defer_loading]
            loaded = [tool for offer in catalog.servers if offer not in deferred for tool in offer.tools or ()]
            kept = [tool for offer in deferred for tool in offer.tools or () if tool.name in self.state.pins]
            eager = (*loaded, *catalog.unassigned, *kept)
        if most is None:
            return eager
        room = most - self.reserved
        if len(eager) == len(catalog.tools) and not catalog.unlisted and len(eager) <= room:
            return eager
        # Defer the last ones too, to leave room for `search_tools` and for found tools.
        return eager[: max(0, room - 1 - self.discovery.max_search_results)]

    async def by_query(self, query: str, servers: Collection[str] | None) -> Finding:
        """Return the best tools for `query` on these servers (`None` means all), exact name matches first.

        Repeating a query finds the same tools, even if they have been loaded since. A model that repeats itself is told
        so, instead of getting worse and worse tools.
        """
        wanted, limit = query.strip(), self.discovery.max_search_results
        # Among all known tools too, because the answer names those that fit and are loaded anyway.
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
        # Names come before any ranking, the host's too: a query that is a tool's name must find that tool.
        found = _each_once([*named, *called, *found])[:limit]
        loaded_anyway = tuple(tool for tool in fits if tool.name not in self._deferred)
        unknown, knows_all = self.known.unknown_words(wanted, servers), not self._unlisted(servers)
        if not knows_all:  # a word is only unknown if neither a known tool nor a tool found on a server mentions it
            unknown = [word for word in answer.unknown if word in unknown]
        return Finding(
            tuple(found),
            failed=answer.failed,
            unknown=tuple(unknown),
            loaded_anyway=loaded_anyway,
            knows_all=knows_all,
            fault=fault,
        )

    async def by_names(self, names: Sequence[str], servers: Collection[str] | None) -> Finding:
        """Return the tools that `names` refer to, in that order; a bare name shared by several tools refers to all."""
        answers = {name: SourceAnswer(tuple(self.known.named(name, servers))) for name in names}
        # Never-listed servers can have further tools with a bare name.
        unknown = [
            name
            for name, answer in answers.items()
            if all(name == tool.tool.name != tool.name for tool in answer.tools)
        ]
        looked_up = await in_parallel(lambda name: self._looked_up(name, servers), unknown)
        answers |= {
            name: replace(answer, tools=(*answers[name].tools, *answer.tools))
            for name, answer in zip(unknown, looked_up, strict=True)
        }
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
            # If a bare name matches more tools than a search can load, offer the full names to choose from.
            near = [tool.name for tool in answer.tools or self.known.named(name)] or list(answer.closest)
            if not near and len(missing) <= _MAX_CORRECTED:
                near = self.known.closest(name, servers)
            closest |= dict.fromkeys(near)
        return Finding(_each_once(found), missing=tuple(missing), closest=tuple(closest), failed=failed)

    async def by_server(self, server: str) -> Finding:
        """Return all tools on one of the catalog's servers, unless it is too large to load as a whole."""
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

    async def for_turn(
        self, text: str, delegate: Delegate | None, deadline: float
    ) -> tuple[Sequence[Finding], Exception | None]:
        """Run the searches before a turn, if any; return their results and any exception from `delegate`.

        The user's text can contain anything. It is sent only to servers that are configured to receive it; all others
        get the short descriptions that `delegate` derives from it.
        """
        searches: list[tuple[str, Collection[str] | None]] = []
        switched_on = [offer.name for offer in self.offers if offer.delegate == "turn" and offer.tools != ()]
        if switched_on:
            searches.append((text[:_MAX_QUERY_LENGTH], switched_on))
        fault: Exception | None = None
        queries: Any = ()
        try:
            if delegate is not None:
                with anyio.move_on_after(deadline) as scope:
                    queries = await delegate(text)
                if scope.cancelled_caught:
                    raise TimeoutError(f"`delegate` took longer than {number_of(deadline, 'second')}")
                # A text is, to Python, a sequence of its letters.
                if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
                    raise LocalError("`delegate` must return a list of queries")
                searches += [(query, None) for query in queries]
        except Exception as error:  # the host's own code, such as another model: its errors must not end the turn
            _logger.exception("the delegate failed")
            fault = error
        return await in_parallel(
            lambda search: self.by_query(*search), [search for search in searches if search[0].strip()]
        ), fault

    async def _searched(self, query: str, servers: Collection[str] | None, most: int) -> SourceAnswer:
        """Return the best tools from never-listed servers, exact name matches first."""
        unlisted = self._unlisted(servers)
        # Models write unpaired surrogates too, which no request can carry.
        sendable = query.encode("utf-8", "ignore").decode()[:_MAX_QUERY_LENGTH].strip()
        if not unlisted or not sendable:
            return SourceAnswer()
        is_word = len(sendable.split()) == 1
        # The server also finds the tools that the toolset hides.
        limit = max(most, _MIN_OF_A_WORD if is_word else 0) + len(self._hidden(unlisted))

        async def search() -> SourceAnswer:
            found = await self.source.search(sendable, servers=unlisted, limit=limit)
            if len(found.tools) >= limit and len(self._shown(found).tools) < most:
                # Tools that models must not see took the places of others.
                found = await self.source.search(sendable, servers=unlisted, limit=_DEEPER * limit)
            return self._shown(found)

        asks = [search]
        if is_word and (SEPARATOR in sendable or ":" in sendable):
            # Look up a full name too, because its server knows the tool by another name.
            asks.append(lambda: self._looked_up(sendable, servers))
        answer, *exact = await in_parallel(lambda ask: ask(), asks)
        named = [tool for tool in answer.tools if sendable in spellings(tool)]
        tools = _each_once([*named, *(tool for found in exact for tool in found.tools), *answer.tools])
        failed = {name: failure for found in (*exact, answer) for name, failure in found.failed.items()}
        return replace(answer, tools=tools[:most], failed=failed)

    async def _looked_up(self, name: str, servers: Collection[str] | None) -> SourceAnswer:
        """Return the tools with this name on never-listed servers."""
        unlisted = self._unlisted(servers)
        if not unlisted:
            return SourceAnswer()
        answer = self._shown(await self.source.look_up(name, servers=unlisted))
        return replace(answer, closest=tuple(name for name in answer.closest if name not in self._hidden(unlisted)))

    def _unlisted(self, servers: Collection[str] | None) -> list[str]:
        return [name for name in self.state.catalog.unlisted if servers is None or name in servers]

    def _hidden(self, servers: Collection[str]) -> set[str]:
        """Return the full names of these servers' tools that the toolset excludes."""
        toolset = self.state.toolset or EVERYTHING
        rules = {server: rule for server in servers if (rule := toolset.rule(server)) is not None}
        return {qualified_name(server, tool) for server, rule in rules.items() if rule.excludes for tool in rule.names}

    def shows(self, tool: FoundTool) -> bool:
        """Return whether the toolset shows a tool."""
        rule = (self.state.toolset or EVERYTHING).rule(tool.server)
        return rule is not None and rule.shows(tool.tool.name)

    def _shown(self, answer: SourceAnswer) -> SourceAnswer:
        """Return the answer without tools that the toolset hides or that models must not see."""
        tools = tuple(tool for tool in answer.tools if self.shows(tool) and is_for_model(tool.tool))
        # The unknown words are only valid if no tool was hidden.
        return replace(answer, tools=tools, unknown=answer.unknown if len(tools) == len(answer.tools) else ())


def _as_before(before: ServerOffer, failing: ServerOffer) -> ServerOffer:
    """Return what a failing server offered before, with the tools that it has listed before it failed."""
    if before.tools is None or not failing.tools:
        return replace(before, failure=failing.failure)
    tools = {tool.name: tool for tool in (*before.tools, *failing.tools)}
    return replace(failing, tools=tuple(tools.values()))


def _fused(query: str, here: Sequence[FoundTool], there: Sequence[FoundTool], ranker: Ranker) -> Sequence[FoundTool]:
    """Merge the local and the servers' results by rank, never by score."""
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
