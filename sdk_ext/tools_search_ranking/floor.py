"""The draft's matching floor for the default ranking, without a second index (draft: Order and Matching).

In the default ranking it almost always holds by construction: a tool with every term of a query is found if any of them
was looked up. The exceptions are queries without terms to look up, answers that are withheld, and terms that are not
words in the ranking. The index stores such terms along with its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.fields import MEMBERS
from mcp_ext_tools_search.ranking.floor import led_by, named
from mcp_ext_tools_search.ranking.interface import Hit
from numpy.typing import NDArray

from tools_search_ranking.postings import members_in, members_of, slots_of
from tools_search_ranking.query import Term, Weigher
from tools_search_ranking.score import Scores

_MEMBERS: Final = np.uint32(sum(1 << MEMBERS.index(member) for member in ("name", "title", "description")))
"""The members that the floor applies to, as bits."""


def hits_over_floor(query: str, scores: Scores | None, weigher: Weigher) -> Sequence[Hit]:
    """Return the hits of a ranking, followed by those that the floor requires in addition.

    `scores` are the ranking's for the query. Without them, return only the hits that the floor requires.
    """
    documents = weigher.documents
    hits: Sequence[Hit] = () if scores is None else scores.hits()
    visible = weigher.statistics.visible
    if wanted := weigher.terms_of_floor(query, ()) if scores is None else scores.query.unfound:
        members = _members_having_all(wanted, len(documents.names))
        if visible is not None:
            members *= visible
        if scores is not None:
            members *= scores.total == 0
        if slots := members.nonzero()[0].tolist():
            score = hits[-1].score if hits else 1.0
            hits = [*hits, *(Hit(documents.names[slot], score, members_in(int(members[slot]))) for slot in slots)]

    def is_visible(name: str) -> bool:
        slot = documents.slot(name)
        return slot is not None and (visible is None or bool(visible[slot]))

    exact = named(query, is_visible)
    return hits if exact is None else led_by(exact, hits)


def _members_having_all(wanted: Sequence[Sequence[Term]], count: int) -> NDArray[np.uint32]:
    """Return by slot the members that contain any of the terms, as bits; 0 for tools that do not have all terms."""
    members, has_all = np.zeros(count, dtype=np.uint32), np.ones(count, dtype=np.bool_)
    for known in wanted:
        own = np.zeros(count, dtype=np.uint32)
        for entries in (part for term in known for part in term.parts):
            own[slots_of(entries)] |= members_of(entries) & _MEMBERS
        members |= own
        has_all &= own > 0
    return members * has_all
