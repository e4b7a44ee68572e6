"""The draft's matching floor, put under any ranking, and under the default one without reading a definition again.

Ranking is free, but two things hold on every server: a query that is a tool's name finds that tool first, and a tool
that has every term of the query is among the matches (draft: Order and Matching).

In the default ranking this almost always holds by construction: a tool that has every term of a query has any one of
them, so it is found where one of them was looked up. The exceptions are queries of which nothing was looked up, or
whose answer was held back, and terms that are no words of the ranking, which the index keeps next to its words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.fields import MEMBERS, members_in
from mcp_ext_tools_search.ranking.interface import FloorKeeper, Hit, Ranker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.ranking.language import wholes
from mcp_ext_tools_search.ranking.terms import terms, tool_terms, trimmed
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.hits import none_of
from tools_search_ranking.index import Documents
from tools_search_ranking.vocabulary import lookup_key, term_key

_MEMBERS: Final = sum(1 << MEMBERS.index(member) for member in ("name", "title", "description"))
"""The members that the floor looks at, as bits."""


def keep_floor(
    documents: Documents,
    query: str,
    hits: Sequence[Hit],
    looked_up: Collection[int],
    visible: NDArray[np.bool_] | None,
) -> Sequence[Hit]:
    """Return `hits` with the floor under them: the same object where nothing is missing.

    Args:
        documents: The index.
        query: The query that was searched.
        hits: The hits of the default ranking, best first.
        looked_up: Numbers of terms; all visible tools that have one of them are among the hits.
        visible: By slot, the tools that may be found.
    """
    missing = dict(_having_all(documents, dict.fromkeys(terms(query)), looked_up, visible))
    if missing and (names := none_of(sorted(missing), hits)):
        score = hits[-1].score if hits else 1.0
        hits = [*hits, *(Hit(name, score, missing[name]) for name in names)]
    exact = trimmed(query)
    slot = documents.roster.slot(exact)
    return hits if slot is None or (visible is not None and not visible[slot]) else led_by(exact, hits)


def _having_all(
    documents: Documents, wanted: Iterable[str], looked_up: Collection[int], visible: NDArray[np.bool_] | None
) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the tools that have all terms, none of them by a word that was looked up, with the members that match."""
    ways: list[list[list[int]]] = []  # for each term, the sets of words and terms that have it
    for term in wanted:
        words = _numbers(documents, map(lookup_key, wholes(term)), looked_up)
        own = _numbers(documents, [term_key(term)], looked_up)
        ways.append([numbers for numbers in (words, own) if numbers is not None])
        if not ways[-1]:
            return ()
    if not ways:
        return ()
    # From the rarest on, looking up the slots that are left: the postings of common terms are not even read.
    containing = documents.containing
    ways.sort(key=lambda own: sum(int(containing[numbers].min()) for numbers in own))
    slots = documents.postings.slots_of([min(numbers, key=containing.__getitem__) for numbers in ways[0]])
    if visible is not None:
        slots = slots[visible[slots]]
    matched = np.zeros(len(slots), dtype=np.uint8)
    for own in ways:
        bits = np.zeros(len(slots), dtype=np.uint8)
        for numbers in own:
            rows = np.array([found.members_in(slots) for found in documents.postings.of(numbers)]) & _MEMBERS
            bits |= np.where(rows.all(axis=0), np.bitwise_or.reduce(rows, axis=0), 0)
        slots, matched = slots[bits > 0], (matched | bits)[bits > 0]
    return zip(documents.roster.names_of(slots), map(members_in, matched.tolist()), strict=True)


def _numbers(documents: Documents, keys: Iterable[str], looked_up: Collection[int]) -> list[int] | None:
    """Return the numbers of terms; `None` where one is unknown, or was looked up."""
    numbers: list[int] = []
    for key in keys:
        number = documents.number_of(key)
        if number is None or number in looked_up:
            return None
        numbers.append(number)
    return numbers


def led_by(name: str, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return `hits` with the tool called `name` first, whether it was found or not."""
    if hits and hits[0].name == name and hits[0].score == 1.0 and "name" in hits[0].matched:
        return hits
    own = next((hit for hit in hits if hit.name == name), Hit(name, 1.0))
    matched = own.matched if "name" in own.matched else ("name", *own.matched)
    return [own._replace(score=1.0, matched=matched), *(hit for hit in hits if hit.name != name)]


def with_floor(query: str, tools: Sequence[Tool], hits: Sequence[Hit]) -> list[Hit]:
    """Return `hits` with the matching floor put under them.

    This reads all of `tools` at each call; for one catalog that is searched more than once, keep a `Floor`.

    Args:
        query: The query that was searched.
        tools: The tools that the caller may see, with unique names.
        hits: The hits of a ranking of them, best first.
    """
    return list(Floor(tools).under(query, hits))


def floored(ranker: Ranker) -> Ranker:
    """Return a ranker whose indexes keep the matching floor, however `ranker` orders.

    Its indexes can be updated if those of `ranker` can. A ranker that keeps the floor itself is returned as it is.
    """
    return ranker if isinstance(ranker, FloorKeeper) else lambda tools: _floored(Floor(tools), ranker(tools))


class Floor:
    """The terms of a catalog, ready to be looked up for any number of queries. It never changes.

    Args:
        tools: The tools of the catalog, with unique names.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._terms = {tool.name: tool_terms(tool) for tool in tools}

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> Floor:
        """Return the floor of a catalog without the tools named in `removed` and with `added`."""
        floor = Floor(added)
        kept = {name: own for name, own in self._terms.items() if name not in removed}
        floor._terms = kept | floor._terms
        return floor

    def under(self, query: str, hits: Sequence[Hit], *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return `hits` with the floor under them: the same object where nothing is missing.

        A tool named exactly like the trimmed query comes first; tools that have all terms of the query and were not
        found follow the last hit, ordered by name, with its score.
        """
        wanted = frozenset(terms(query))
        having = [
            name
            for name, members in self._terms.items()
            if wanted and (visible is None or name in visible) and wanted <= frozenset[str]().union(*members.values())
        ]
        if missing := none_of(sorted(having), hits):
            score = hits[-1].score if hits else 1.0
            hits = [*hits, *(Hit(name, score, self._matched(name, wanted)) for name in missing)]
        exact = trimmed(query)
        if exact in self._terms and (visible is None or exact in visible):
            return led_by(exact, hits)
        return hits

    def _matched(self, name: str, wanted: frozenset[str]) -> tuple[str, ...]:
        return tuple(member for member, own in self._terms[name].items() if not wanted.isdisjoint(own))


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
