"""Ways to make one order out of the answers of many servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion
from tools_search_client.federation.merging import RememberingRanker, federated_tools, merge
from tools_search_client.found import FoundTool
from tools_search_ranking import FieldedRanker

from benchmarks.federation.servers import Answers

__all__ = ["ORDERS", "SHIPPED", "Order"]

Order: TypeAlias = Callable[[str, Answers, int], Sequence[str]]
"""Makes full names, best first and no more than asked for, of a query and its answers."""

SHIPPED: Final = "as the client does"


def _as_the_client(query: str, answers: Answers, limit: int, *, ranker: Ranker) -> Sequence[str]:
    return [tool.name for tool in merge(query, answers, limit=limit, ranker=ranker)]


def _by_ranks(query: str, answers: Answers, limit: int, *, votes: int) -> Sequence[str]:
    """Fuse the rankings of the servers and, with so many votes, the one of all that they found."""
    found = _found(answers)
    rankings = [[tool.name for tool in own] for own in found if own]
    if votes:
        rankings += [_ranked_together(query, found)] * votes
    return [name for name, _ in reciprocal_rank_fusion(rankings)][:limit]


def _ranked_again(query: str, answers: Answers, limit: int) -> Sequence[str]:
    """Forget the rankings of the servers."""
    return _ranked_together(query, _found(answers))[:limit]


def _found(answers: Answers) -> Sequence[Sequence[FoundTool]]:
    return [federated_tools(entry, found) for entry, found in answers]


def _ranked_together(query: str, found: Sequence[Sequence[FoundTool]]) -> list[str]:
    tools = [tool.tool.model_copy(update={"name": tool.name}) for own in found for tool in own]
    return [hit.name for hit in FieldedRanker()(tools).search(query)]


ORDERS: Final[Mapping[str, Order]] = {
    "rank fusion": partial(_by_ranks, votes=0),
    "ranked again": _ranked_again,
    **{f"fusion, {votes} own votes": partial(_by_ranks, votes=votes) for votes in (1, 2, 4, 8)},
    SHIPPED: partial(_as_the_client, ranker=RememberingRanker(FieldedRanker())),
}
