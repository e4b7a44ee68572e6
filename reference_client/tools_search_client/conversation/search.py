"""Searches of one conversation: tools at hand are searched here, servers that were never listed are asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from mcp_ext_tools_search.client.for_models import is_for_model
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank
from tools_search_hosts import SEPARATOR, qualified_name
from tools_search_hosts.toolsets import Toolset
from tools_search_ranking import never_silent

from tools_search_client.conversation.catalog import (
    MOST_BROWSED,
    Catalog,
    KnownTools,
    ServerOffer,
    SourceAnswer,
    ToolSource,
    spellings,
)
from tools_search_client.federation.fanout import in_parallel
from tools_search_client.found import FoundTool

Delegate: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Makes short descriptions of the tools that are needed out of what the user wrote; none where none is."""

_logger = logging.getLogger(__name__)

_DEEPER: Final = 4
"""How many times as far a search goes whose first results are not for a model."""

_LONGEST_QUERY: Final = 1_024
"""Characters that every server has to accept (draft: Request)."""

_LEAST_OF_A_WORD: Final = 10
"""A single word may be a name, and not every server puts the tool of that name first."""

_MOST_CORRECTED: Final = 5
"""Names for which the closest are looked for; that is the one thing here that takes its time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one search found, and what it did not."""

    tools: tuple[FoundTool, ...] = ()
    """Best first."""

    loaded_anyway: tuple[FoundTool, ...] = ()
    """Tools that are always loaded and fit as well."""

    missing: tuple[str, ...] = ()
    """Names that no tool has."""

    closest: tuple[str, ...] = ()
    """Full names that may have been meant."""

    by_query_instead: bool = False
    """Whether the tools are those of the query, because no tool has any of the names."""

    too_many: int | None = None
    """How many tools a server has that is too large to be loaded as a whole."""

    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Servers that gave no answer, each with the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchScope:
    """What a search can find at one moment; it is replaced when anything about that changes."""

    catalog: Catalog

    toolset: Toolset

    known: KnownTools
    """Every tool whose definition is at hand, those that are loaded anyway as well."""

    deferred: frozenset[str]
    """The full names of the known tools that have to be found."""

    limit: int
    """The most tools that one query finds."""

    source: ToolSource

    ranker: Ranker

    answered: set[Hashable] = field(default_factory=set[Hashable])
    """The requests that were answered in this scope: the same again finds the same again."""

    @property
    def offers(self) -> list[ServerOffer]:
        """The servers with the tools that have to be found there."""
        offers = [
            offer
            if offer.tools is None
            else replace(offer, tools=tuple(tool for tool in offer.tools if tool.name in self.deferred))
            for offer in self.catalog.servers
        ]
        return [offer for offer in offers if offer.tools is None or offer.tools or offer.failure]

    async def by_query(self, query: str, servers: Collection[str] | None = None) -> Finding:
        """Return the best tools for `query` of these servers or of all, the one that is named exactly so first.

        The same query finds the same tools again, whether they were loaded meanwhile or not: a model that repeats
        itself reads that it does, instead of being given worse and worse tools.
        """
        wanted = query.strip()
        fits = self.known.ranked(wanted, servers=servers)[: self.limit]
        here = self.known.ranked(wanted, among=self.deferred, servers=servers)[: self.limit]
        named = [tool for tool in self.known.named(wanted, servers) if tool.name in self.deferred]
        answer = await self._searched(wanted, servers)
        found = [*named, *_called(wanted, answer.tools), *_fused(wanted, [here, answer.tools], self.ranker)]
        return Finding(
            _each_once(found)[: self.limit],
            tuple(tool for tool in fits if tool.name not in self.deferred),
            failures=answer.failures,
        )

    async def by_names(self, names: Sequence[str], servers: Collection[str] | None = None) -> Finding:
        """Return the tools that `names` mean, in that order; the bare name of several tools means all of them."""
        at_hand = {name: self.known.named(name, servers) for name in names}
        unknown = [name for name, tools in at_hand.items() if not tools]
        looked_up = await in_parallel(lambda name: self._looked_up(name, servers), unknown)
        answers = {name: SourceAnswer(tuple(tools)) for name, tools in at_hand.items()}
        answers |= dict(zip(unknown, looked_up, strict=True))
        found: list[FoundTool] = []
        missing: list[str] = []
        closest: dict[str, None] = {}
        failures: dict[str, str] = {}
        for name, answer in answers.items():
            failures |= answer.failures
            if 0 < len(answer.tools) <= self.limit:
                found += answer.tools
                continue
            missing.append(name)
            # A bare name of more tools than a search may load is answered with full ones to choose from.
            near = [tool.name for tool in answer.tools or self.known.named(name)] or list(answer.closest)
            if not near and len(missing) <= _MOST_CORRECTED:
                near = self.known.closest(name, servers)
            closest |= dict.fromkeys(near)
        return Finding(_each_once(found), missing=tuple(missing), closest=tuple(closest), failures=failures)

    async def by_server(self, server: str) -> Finding:
        """Return every tool of one server of the catalog, unless it is too large to be loaded as a whole."""
        offer = self.catalog.server(server)
        if offer is None:
            return Finding()
        if offer.failure is not None:
            return Finding(offer.tools or (), failures={server: offer.failure})
        if offer.tools is None and (offer.size or 0) > MOST_BROWSED:
            return Finding(too_many=offer.size)
        is_listed = offer.tools is not None
        answer = SourceAnswer(offer.tools or ()) if is_listed else self._shown(await self.source.browse(server))
        if len(answer.tools) > MOST_BROWSED:
            return Finding(too_many=len(answer.tools), failures=answer.failures)
        return Finding(answer.tools, failures=answer.failures)

    async def for_turn(self, text: str, delegate: Delegate | None) -> tuple[Sequence[Finding], Exception | None]:
        """Return what each search before a turn found, and what `delegate` raised; there may be no search.

        What the user wrote may hold anything. It leaves the host only for servers that are configured for that; all
        others get the short descriptions that `delegate` makes of it.
        """
        searches: list[tuple[str, Collection[str] | None]] = []
        servers_to_find = {tool.server for tool in self.catalog.tools if tool.name in self.deferred}
        switched_on = [
            offer.name
            for offer in self.catalog.servers
            if offer.delegate == "turn" and (offer.tools is None or offer.name in servers_to_find)
        ]
        if switched_on:
            searches.append((text[:_LONGEST_QUERY], switched_on))
        fault: Exception | None = None
        try:
            if delegate is not None:
                searches += [(query, None) for query in await delegate(text) if query.strip()]
        except Exception as error:  # the host's own program, such as another model: its mistakes cost no turn
            _logger.exception("the delegate failed")
            fault = error
        return await in_parallel(lambda one: self.by_query(*one), [one for one in searches if one[0].strip()]), fault

    async def _searched(self, query: str, servers: Collection[str] | None) -> SourceAnswer:
        """Return the best tools of the servers that were never listed, one that is named so among them."""
        unlisted = self._unlisted(servers)
        sendable = query.encode("utf-8", "ignore").decode()[:_LONGEST_QUERY].strip()
        if not unlisted or not sendable:
            return SourceAnswer()
        is_word = len(sendable.split()) == 1
        limit = max(self.limit, _LEAST_OF_A_WORD if is_word else 0) + len(self._hidden(unlisted))

        async def search() -> SourceAnswer:
            found = await self.source.search(sendable, servers=unlisted, limit=limit)
            if len(found.tools) >= limit and len(self._shown(found).tools) < self.limit:
                # Tools that no model may see have taken the places of others.
                found = await self.source.search(sendable, servers=unlisted, limit=_DEEPER * limit)
            return self._shown(found)

        # A full name is looked up as well: its server knows the tool by another name.
        asks = [search]
        if is_word and (SEPARATOR in sendable or ":" in sendable):
            asks.append(lambda: self._looked_up(sendable, servers))
        answer, *exact = await in_parallel(lambda ask: ask(), asks)
        named = [*_called(sendable, answer.tools), *(tool for one in exact for tool in one.tools)]
        return replace(answer, tools=_each_once([*named, *answer.tools])[: self.limit])

    async def _looked_up(self, name: str, servers: Collection[str] | None) -> SourceAnswer:
        """Return the tools of this name of the servers that were never listed."""
        unlisted = self._unlisted(servers)
        if not unlisted:
            return SourceAnswer()
        answer = self._shown(await self.source.look_up(name, servers=unlisted))
        return replace(answer, closest=tuple(name for name in answer.closest if name not in self._hidden(unlisted)))

    def _unlisted(self, servers: Collection[str] | None) -> list[str]:
        return [name for name in self.catalog.unlisted if servers is None or name in servers]

    def _hidden(self, servers: Collection[str]) -> set[str]:
        """Return the full names of the tools of these servers that the toolset leaves out."""
        rules = {server: rule for server in servers if (rule := self.toolset.rule(server)) is not None}
        return {qualified_name(server, tool) for server, rule in rules.items() if rule.excludes for tool in rule.names}

    def _shown(self, answer: SourceAnswer) -> SourceAnswer:
        """Return the answer without what the toolset hides, and without what no model may see."""
        rules = {name: self.toolset.rule(name) for name in {tool.server for tool in answer.tools}}
        shown = [tool for tool in answer.tools if (rule := rules[tool.server]) and rule.shows(tool.tool.name)]
        return replace(answer, tools=tuple(tool for tool in shown if is_for_model(tool.tool)))


def _called(name: str, tools: Iterable[FoundTool]) -> list[FoundTool]:
    return [tool for tool in tools if name in spellings(tool)]


def _fused(query: str, rankings: Sequence[Sequence[FoundTool]], ranker: Ranker) -> list[FoundTool]:
    """Return one order of what was found here and at the servers, by rank and never by score."""
    filled = [ranking for ranking in rankings if ranking]
    if len(filled) < 2:
        return [tool for ranking in filled for tool in ranking]
    tools = {tool.name: tool for ranking in filled for tool in ranking}

    def rank_together(names: Sequence[str]) -> list[str]:
        together = KnownTools((tools[name] for name in names), never_silent(ranker))
        return [tool.name for tool in together.ranked(query)]

    names = [[tool.name for tool in ranking] for ranking in filled]
    return [tools[name] for name, _ in fuse_and_rerank(names, rank_together)]


def _each_once(tools: Iterable[FoundTool]) -> tuple[FoundTool, ...]:
    return tuple({tool.name: tool for tool in tools}.values())
