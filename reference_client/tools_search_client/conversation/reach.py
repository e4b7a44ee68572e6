"""What can be found at one moment: tools at hand, and servers that are asked because they were never listed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from mcp_ext_tools_search.for_models import is_for_model
from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import SEPARATOR, qualified_name
from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation.catalog import Catalog, SourceAnswer, ToolSource
from tools_search_client.conversation.known_tools import KnownTools, spellings
from tools_search_client.federation.fanout import in_parallel
from tools_search_client.found import FoundTool

__all__ = ["Reach", "called"]

_DEEPER: Final = 4
"""How many times as far a search goes whose first results are not for a model."""

_LONGEST_QUERY: Final = 1_024
"""Characters that every server has to accept (draft: Request)."""

_LEAST_OF_A_WORD: Final = 10
"""A single word may be a name, and not every server puts the tool of that name first."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a search can find at one moment."""

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

    async def searched(self, query: str, servers: Collection[str] | None) -> SourceAnswer:
        """Return the best tools of those of the servers that were never listed, one that is named so among them."""
        unlisted = self._unlisted(servers)
        sendable = query.encode("utf-8", "ignore").decode()[:_LONGEST_QUERY].strip()
        if not unlisted or not sendable:
            return SourceAnswer()
        is_word = len(sendable.split()) == 1
        limit = max(self.limit, _LEAST_OF_A_WORD if is_word else 0) + len(self._hidden(unlisted))

        async def search() -> SourceAnswer:
            found = await self.source.search(sendable, servers=unlisted, limit=limit)
            if len(found.tools) >= limit and len(self._shown(found).tools) < self.limit:  # by what no model may see
                found = await self.source.search(sendable, servers=unlisted, limit=_DEEPER * limit)
            return self._shown(found)

        async def look_up() -> SourceAnswer:
            return await self.looked_up(sendable, servers)

        # A full name is looked up as well: its server knows the tool by another name.
        asks = [search, look_up] if is_word and (SEPARATOR in sendable or ":" in sendable) else [search]
        answer, *exact = await in_parallel(lambda ask: ask(), asks)
        named = called(sendable, answer.tools)
        best = {tool.name: tool for tool in (*named, *(tool for one in exact for tool in one.tools), *answer.tools)}
        return replace(answer, tools=tuple(best.values())[: self.limit])

    async def looked_up(self, name: str, servers: Collection[str] | None) -> SourceAnswer:
        """Return the tools of this name of those of the servers that were never listed."""
        unlisted = self._unlisted(servers)
        if not unlisted:
            return SourceAnswer()
        answer = self._shown(await self.source.look_up(name, servers=unlisted))
        return replace(answer, closest=tuple(name for name in answer.closest if name not in self._hidden(unlisted)))

    async def browsed(self, server: str) -> SourceAnswer:
        """Return every tool of a server that was never listed."""
        return self._shown(await self.source.browse(server))

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
        shown = [tool for tool in shown if is_for_model(tool.tool)]
        return replace(answer, tools=tuple(shown))


def called(name: str, tools: Iterable[FoundTool]) -> list[FoundTool]:
    """Return those of the tools that `name` is a name of."""
    return [tool for tool in tools if name in spellings(tool)]
