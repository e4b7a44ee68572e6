"""Many servers as one ranking: each ranks its own tools, and the answers are merged.

Every server is asked for its ten best tools, and the ten best overall are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion
from mcp_ext_tools_search.types import EXTENSION_ID, HitMetadata
from mcp_types import Tool
from tools_search_client.federation.merging import RememberingRanker, merge, named_among_servers, tools_index
from tools_search_client.found import Found, FoundTool
from tools_search_hosts import qualified_name
from tools_search_ranking import FieldedRanker

_LIMIT: Final = 10

Order: TypeAlias = Callable[[str, Mapping[str, Found]], Sequence[str]]
"""Merges the servers' answers to a query into full names, best first."""
_REMEMBERING: Final = RememberingRanker(FieldedRanker())


class _Federation:
    """Servers with an index each, in one process, because only the order of the answers is measured."""

    def __init__(self, tools: Sequence[Tool], order: Order) -> None:
        self._order = order
        self._servers: dict[str, dict[str, Tool]] = {}
        self._names: dict[str, str] = {}
        for tool in tools:
            meta: Mapping[str, Any] = tool.meta or {}
            server = str(meta.get(EXTENSION_ID, {}).get("group", "server"))
            self._servers.setdefault(server, {})[tool.name] = tool.model_copy(update={"meta": None})
            self._names[qualified_name(server, tool.name)] = tool.name
        self._indexes: Mapping[str, ToolIndex] = {
            server: floored(FieldedRanker())(list(own.values())) for server, own in self._servers.items()
        }

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        if visible is not None:
            raise ValueError("a federation is searched as a whole")
        answers: dict[str, Found] = {}
        for server, index in self._indexes.items():
            hits = index.search(query)[:_LIMIT]
            own = self._servers[server]
            found = (FoundTool(hit.name, "", own[hit.name], HitMetadata(score=hit.score)) for hit in hits)
            answers[server] = named_among_servers(server, Found(tuple(found), "search"))
        names = self._order(query, answers)[:_LIMIT]
        return [Hit(self._names[name], 1 - place / len(names)) for place, name in enumerate(names)]


def federated(order: Order) -> Ranker:
    """Return a ranker that gives each group of tools to a separate server, and merges the answers."""
    return lambda tools: _Federation(tools, order)


def _ranked_together(query: str, answers: Mapping[str, Found]) -> list[str]:
    """Ignore the servers' rankings."""
    tools = [found.tool.model_copy(update={"name": found.name}) for own in answers.values() for found in own.tools]
    return [hit.name for hit in FieldedRanker()(tools).search(query)]


def _fused(query: str, answers: Mapping[str, Found], *, votes: int) -> Sequence[str]:
    """Fuse the servers' rankings and, with a weight of `votes`, the ranking of all hits together."""
    rankings = [[found.name for found in own.tools] for own in answers.values() if own.tools]
    if votes:
        rankings += [_ranked_together(query, answers)] * votes
    return [name for name, _ in reciprocal_rank_fusion(rankings)]


def _as_the_client(query: str, answers: Mapping[str, Found]) -> Sequence[str]:
    by_server = [(server, own.tools) for server, own in answers.items()]
    return [found.name for found in merge(query, by_server, limit=_LIMIT, index=tools_index(_REMEMBERING))]


ORDERS: Final[Mapping[str, Order]] = {
    "rank fusion": partial(_fused, votes=0),
    "ranked again": _ranked_together,
    **{f"fusion, {votes} own votes": partial(_fused, votes=votes) for votes in (1, 2, 4, 8)},
    "as the client does": _as_the_client,
}
