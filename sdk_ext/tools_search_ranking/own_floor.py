"""The matching floor of the default ranking, which almost always holds by construction.

A tool that has every term of a query has any one of them, so it is found where one of them was looked up. What is left
to see to are queries of which nothing was looked up, or whose answer was held back, and tools whose terms are no words
of the ranking, as with accents: their terms are kept beside the words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.fields import LONGEST_TEXT, MEMBERS, members_in
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.language import LONGEST_WORD, wholes, words
from mcp_ext_tools_search.ranking.terms import terms, trimmed
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.documents import Documents
from tools_search_ranking.floor import led_by
from tools_search_ranking.hits import none_of
from tools_search_ranking.term_postings import TermPostings

__all__ = ["OwnFloor", "is_plain"]

_LOOKED_AT: Final = ("name", "title", "description")
_BITS: Final = sum(1 << MEMBERS.index(member) for member in _LOOKED_AT)
_LONG_RUN: Final = re.compile(rf"[A-Za-z0-9]{{{LONGEST_WORD + 1}}}")


@dataclass(frozen=True, slots=True)
class OwnFloor:
    """What puts the floor under the answers of one index. It never changes."""

    _documents: Documents
    _others: TermPostings
    """The terms of the tools that are not plain."""

    @classmethod
    def of(cls, documents: Documents, tools: Sequence[Tool]) -> OwnFloor:
        """Return the floor of these tools, of which `documents` are made."""
        return cls(documents, TermPostings.of([tool for tool in tools if not is_plain(tool)]))

    def updated(self, documents: Documents, removed: Collection[str], added: Sequence[Tool]) -> OwnFloor:
        """Return the floor without the tools named in `removed` and with `added`, as `documents` are."""
        others = [tool for tool in added if not is_plain(tool)]
        return OwnFloor(documents, self._others.updated(removed, others))

    def under(
        self, query: str, hits: Sequence[Hit], looked_up: Container[int], visible: NDArray[np.bool_] | None
    ) -> Sequence[Hit]:
        """Return `hits` with the floor under them: the same object where nothing is missing.

        Args:
            query: What was searched.
            hits: What was found, best first.
            looked_up: Numbers of terms; all visible tools that have one of them are among the hits.
            visible: By slot, the tools that may be found.
        """
        wanted = list(dict.fromkeys(terms(query)))
        missing = dict(self._plain_having(wanted, looked_up, visible))
        if len(self._others):
            missing.update(self._others_having(wanted, hits, visible))
        if missing and (names := none_of(sorted(missing), hits)):
            score = hits[-1].score if hits else 1.0
            hits = [*hits, *(Hit(name, score, missing[name]) for name in names)]
        exact = trimmed(query)
        return led_by(exact, hits) if self._sees(visible, exact) else hits

    def _plain_having(
        self, wanted: Sequence[str], looked_up: Container[int], visible: NDArray[np.bool_] | None
    ) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return the tools that have all of these words, unless one was looked up, each with its members that match."""
        numbers: list[int] = []
        for word in chain.from_iterable(map(wholes, wanted)):
            number = self._documents.number_of(word)
            if number is None or number in looked_up:
                return ()
            numbers.append(number)
        if not numbers:
            return ()
        postings = self._documents.postings
        slots = postings.having_all(numbers)
        if visible is not None:
            slots = slots[visible[slots]]
        members = postings.members(numbers, slots) & _BITS
        whole = np.flatnonzero(members.all(axis=0))
        united = np.bitwise_or.reduce(members[:, whole], axis=0)
        names = self._documents.roster.names_of(slots[whole])
        return zip(names, map(members_in, united.tolist()), strict=True)

    def _others_having(
        self, wanted: Sequence[str], hits: Sequence[Hit], visible: NDArray[np.bool_] | None
    ) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return the tools beside `hits` that are not plain and have all of these terms, with the members of each."""
        names = none_of([name for name in self._others.having_all(wanted) if self._sees(visible, name)], hits)
        return zip(names, self._others.matched(wanted, names), strict=True) if names else ()

    def _sees(self, visible: NDArray[np.bool_] | None, name: str) -> bool:
        slot = self._documents.roster.slot(name)
        return slot is not None and (visible is None or bool(visible[slot]))


def is_plain(tool: Tool) -> bool:
    """Tell whether the terms of a tool are all among the words that the ranking reads of it."""
    return all(_has_its_terms(text) for text in (tool.name, tool.title, tool.description) if text)


def _has_its_terms(text: str) -> bool:
    if len(text) > LONGEST_TEXT:
        return False
    if text.isascii():
        return _LONG_RUN.search(text) is None
    read = frozenset(words(text))
    return all(read.issuperset(wholes(term)) for term in terms(text))
