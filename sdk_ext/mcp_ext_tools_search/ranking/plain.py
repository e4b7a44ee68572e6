"""A ranking to copy: rank-bm25 over names, titles and descriptions, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from mcp_types import Tool
from rank_bm25 import BM25Okapi

from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.terms import terms, tool_terms

__all__ = ["MOST_WORDS", "PlainIndex", "PlainRanker"]

MOST_WORDS: Final = 200
"""Words of a query that are looked up; rank-bm25 walks through the whole catalog for each."""


class PlainIndex:
    """Tools scored by Okapi BM25 over all their words together."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = sorted(tools, key=lambda tool: tool.name)
        self._members = [tool_terms(tool) for tool in self._tools]
        self._words = [terms(" ".join(filter(None, (tool.name, tool.title, tool.description)))) for tool in self._tools]
        self._bm25 = BM25Okapi(self._words) if any(self._words) else None

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the tools that share a word with `query`, best first."""
        if visible is not None:
            # rank-bm25 counts once, when it is built, and a hidden tool must not be counted.
            return PlainIndex([tool for tool in self._tools if tool.name in visible]).search(query)
        words = terms(query)[:MOST_WORDS]
        scores = self._scores(words)
        best = max(scores, default=0.0)
        ranked = sorted((-score, place) for place, score in enumerate(scores) if score > 0)
        return [self._hit(place, -negated / best, frozenset(words)) for negated, place in ranked]

    def _scores(self, words: Sequence[str]) -> list[float]:
        if self._bm25 is None:
            return []
        scores: list[float] = self._bm25.get_scores(words).tolist()
        if any(score > 0 for score in scores):
            return scores
        # In a small catalog every word may be in half of the tools, where this idf is zero.
        return [float(len(set(words).intersection(own))) for own in self._words]

    def _hit(self, place: int, score: float, words: frozenset[str]) -> Hit:
        matched = tuple(member for member, own in self._members[place].items() if not words.isdisjoint(own))
        return Hit(self._tools[place].name, score, matched)


class PlainRanker:
    """Makes indexes that rank by rank-bm25 alone: the baseline, and the shortest ranker that is worth having."""

    def __call__(self, tools: Sequence[Tool], /) -> PlainIndex:
        """Index `tools`, whose names are unique."""
        return PlainIndex(tools)
