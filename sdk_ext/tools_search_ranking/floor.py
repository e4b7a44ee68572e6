"""The draft's matching floor under the default ranking, without a second index (draft: Order and Matching).

In the default ranking this almost always holds by construction: a tool that has every term of a query has any one of
them, so it is found where one of them was looked up. The exceptions are queries of which nothing was looked up, or
whose answer was held back, and terms that are not words of the ranking, which the index keeps next to its words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.fields import MEMBERS
from mcp_ext_tools_search.ranking.floor import led_by, terms, trimmed
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.query import index_terms
from numpy.typing import NDArray

from tools_search_ranking.index import Documents
from tools_search_ranking.postings import members_in, slots_of
from tools_search_ranking.score import Scores
from tools_search_ranking.vocabulary import term_key, wholes

_MEMBERS: Final = sum(1 << MEMBERS.index(member) for member in ("name", "title", "description"))
"""The members that the floor looks at, as bits."""

_NO_TERM: Final = -1
"""Stands where the index has no such term, or one that was looked up already."""


def hits_over_floor(
    documents: Documents, query: str, scores: Scores | None, visible: NDArray[np.bool_] | None
) -> Sequence[Hit]:
    """Return the hits of a ranking, if there is one, with the floor under them.

    Args:
        documents: The index.
        query: The query that was searched.
        scores: What the ranking made of it; nothing where it is held back.
        visible: By slot, the tools that may be found.
    """
    hits: Sequence[Hit] = () if scores is None else scores.hits()
    if ways := _ways(documents, query, () if scores is None else scores.query.terms):
        slots, members = _having_all(documents, ways)
        is_missing = np.ones(len(slots), np.bool_) if scores is None else scores.total[slots] == 0
        if visible is not None:
            is_missing &= visible[slots]
        if is_missing.any():
            score = hits[-1].score if hits else 1.0
            names, bits = documents.roster.names_of(slots[is_missing]), members[is_missing].tolist()
            hits = [*hits, *sorted(Hit(name, score, members_in(own)) for name, own in zip(names, bits, strict=True))]
    exact = trimmed(query)
    slot = documents.roster.slot(exact)
    return hits if slot is None or (visible is not None and not visible[slot]) else led_by(exact, hits)


def _ways(documents: Documents, query: str, looked_up: Collection[int]) -> list[list[list[int]]]:
    """Return for each term of a query the sets of words and terms of which a tool that has all has the term.

    Nothing where a term has none: no tool has it, but by a word that was looked up.
    """

    def number_of(key: str) -> int:
        number = documents.vocabulary.numbers.get(key, _NO_TERM)
        return _NO_TERM if number >= len(documents.containing) or number in looked_up else number

    ways: list[list[list[int]]] = []
    # From the last one on, which was looked up in most queries, while many begin with stop words.
    for term in reversed(dict.fromkeys(terms(query))):
        words = [index_terms(word)[-1] for word in wholes(term)]
        sets = [list(map(number_of, keys)) for keys in (words, [term_key(term)])]
        known = [numbers for numbers in sets if _NO_TERM not in numbers]
        if not known:
            return []
        ways.append(known)
    return ways


def _having_all(
    documents: Documents, ways: Sequence[Sequence[Sequence[int]]]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the slots that have each of one or more terms in one of its ways, with the members that have them."""
    # From the rarest on, looking up the slots that are left: the postings of common terms are not even read.
    containing = documents.containing
    rarest, *_ = ways = sorted(ways, key=lambda own: sum(int(containing[numbers].min()) for numbers in own))
    found = documents.postings.of([min(numbers, key=containing.__getitem__) for numbers in rarest])
    parts = [slots_of(part) for own in found for part in own.parts]
    slots = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    members = np.zeros(len(slots), dtype=np.uint32)
    for own in ways:
        bits = np.zeros(len(slots), dtype=np.uint32)
        for numbers in own:
            rows = np.array([one.members_in(slots) for one in documents.postings.of(numbers)]) & _MEMBERS
            bits |= np.where(rows.all(axis=0), np.bitwise_or.reduce(rows, axis=0), 0)
        slots, members = slots[bits > 0], (members | bits)[bits > 0]
    return slots, members
