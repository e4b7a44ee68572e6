"""The draft's matching floor under the default ranking, without a second index (draft: Order and Matching).

In the default ranking this almost always holds by construction: a tool that has every term of a query has any one of
them, so it is found where one of them was looked up. The exceptions are queries of which nothing was looked up, or
whose answer was held back, and terms that are no words of the ranking, which the index keeps next to its words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.fields import MEMBERS, members_in
from mcp_ext_tools_search.ranking.floor import led_by
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.language import wholes
from mcp_ext_tools_search.ranking.terms import terms, trimmed
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
