"""The draft's matching floor, put under any ranking.

Ranking is free, but two things hold on every server: a query that is a tool's name finds that tool first, and a tool
that has every term of the query is among the matches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcp_ext_tools_search.ranking.interface import FloorKeeper, Hit, Ranker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.ranking.terms import terms, trimmed
from mcp_types import Tool

from tools_search_ranking.hits import none_of
from tools_search_ranking.term_postings import TermPostings

__all__ = ["Floor", "floored", "led_by", "with_floor"]


def with_floor(query: str, tools: Sequence[Tool], hits: Sequence[Hit]) -> list[Hit]:
    """Return `hits` with the matching floor put under them.

    This reads all of `tools` at each call; whoever searches one catalog more than once keeps a `Floor`.

    Args:
        query: The query that was searched.
        tools: The tools that the caller may see, with unique names.
        hits: What a ranking made of them, best first.
    """
    return list(Floor(tools).under(query, hits))


def floored(ranker: Ranker) -> Ranker:
    """Return a ranker whose indexes keep the matching floor, however `ranker` orders.

    Its indexes can be updated if those of `ranker` can. A ranker that keeps the floor itself is returned as it is.
    """
    if isinstance(ranker, FloorKeeper):
        return ranker
    return lambda tools: _floored(Floor(tools), ranker(tools))


class Floor:
    """The terms of a catalog, ready to be looked up for any number of queries. It never changes.

    Args:
        tools: The tools of the catalog, with unique names.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._terms = TermPostings.of(tools)

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> Floor:
        """Return the floor of a catalog without the tools named in `removed` and with `added`."""
        floor = Floor(())
        floor._terms = self._terms.updated(removed, added)
        return floor

    def under(self, query: str, hits: Sequence[Hit], *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return `hits` with the floor under them: the same object where nothing is missing.

        A tool named exactly like the trimmed query comes first; tools that have all terms of the query and were not
        found follow the last hit, ordered by name, with its score.
        """
        query_terms = list(dict.fromkeys(terms(query)))
        wanted = [name for name in self._terms.having_all(query_terms) if visible is None or name in visible]
        if missing := none_of(wanted, hits):
            score = hits[-1].score if hits else 1.0
            matched = self._terms.matched(query_terms, missing)
            hits = [*hits, *(Hit(name, score, members) for name, members in zip(missing, matched, strict=True))]
        exact = trimmed(query)
        if exact in self._terms and (visible is None or exact in visible):
            return led_by(exact, hits)
        return hits


def led_by(name: str, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return `hits` with the tool called `name` first, whether it was found or not."""
    if hits and hits[0].name == name and hits[0].score == 1.0 and "name" in hits[0].matched:
        return hits
    own = next((hit for hit in hits if hit.name == name), Hit(name, 1.0))
    matched = own.matched if "name" in own.matched else ("name", *own.matched)
    return [own._replace(score=1.0, matched=matched), *(hit for hit in hits if hit.name != name)]


class _FlooredIndex:
    def __init__(self, floor: Floor, index: ToolIndex) -> None:
        self._floor = floor
        self._index = index

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return self._floor.under(query, self._index.search(query, visible=visible), visible=visible)


class _UpdatableFlooredIndex(_FlooredIndex):
    def __init__(self, floor: Floor, index: UpdatableIndex) -> None:
        super().__init__(floor, index)
        self._updatable = index

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> ToolIndex:
        return _floored(self._floor.updated(removed, added), self._updatable.updated(removed, added))


def _floored(floor: Floor, index: ToolIndex) -> ToolIndex:
    is_updatable = isinstance(index, UpdatableIndex)
    return _UpdatableFlooredIndex(floor, index) if is_updatable else _FlooredIndex(floor, index)
