"""One order out of what is indexed here and what other servers have found; pure.

By rank, as the scores of two servers cannot be compared. Since ranks alone say nothing about whose first tool fits
better, the best of all are ranked once more together, and that ranking has two votes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion
from mcp_ext_tools_search.ranking.terms import trimmed
from mcp_types import Tool
from tools_search_ranking import with_floor
from tools_search_ranking.hits import LazyHits, names_of

__all__ = ["fused"]

_HEAD: Final = 100
"""Local hits that take part; those behind them stay behind."""

_RANKED_TOGETHER: Final = 50
_VOTES: Final = 2


def fused(
    query: str, local: Sequence[Hit], remote: Sequence[Sequence[Hit]], tools: Mapping[str, Tool], ranker: Ranker
) -> Sequence[Hit]:
    """Return all hits in one order, with scores of one scale.

    Args:
        query: What was searched.
        local: The hits of the index, best first.
        remote: Those of each other server, best first; no name occurs twice.
        tools: The definitions of the remote hits and of the first hundred local ones.
        ranker: Ranks the best of all together.
    """
    heads = [list(local[:_HEAD]), *map(list, remote)]
    rankings = [[hit.name for hit in head] for head in heads if head]
    candidates = [tools[name] for ranking in rankings for name in ranking[:_RANKED_TOGETHER]]
    together = ranker(candidates).search(query)
    order = reciprocal_rank_fusion([*rankings, *[list(names_of(together))] * _VOTES])
    own = {hit.name: hit for hit in together} | {hit.name: hit for head in heads for hit in head if hit.matched}
    best = order[0][1]
    hits = [own.get(name, Hit(name, 0.0))._replace(score=weight / best) for name, weight in order]
    exact = tools.get(trimmed(query))
    if exact is not None:
        hits = with_floor(query, [exact], hits)
    return _followed(hits, local)


def _followed(head: Sequence[Hit], local: Sequence[Hit]) -> Sequence[Hit]:
    """Return `head` with the local hits that took no part behind it, in their order."""
    if len(local) <= _HEAD:
        return head
    least, highest = head[-1].score, local[_HEAD - 1].score or 1.0

    def names() -> list[str]:
        return [hit.name for hit in head] + list(names_of(local))[_HEAD:]

    def hits_at(places: range) -> list[Hit]:
        behind = local[max(places.start - len(head), 0) + _HEAD : max(places.stop - len(head), 0) + _HEAD]
        return [
            *head[places.start : places.stop],
            *(hit._replace(score=least * hit.score / highest) for hit in behind),
        ]

    return LazyHits(len(head) + len(local) - _HEAD, names, hits_at)
