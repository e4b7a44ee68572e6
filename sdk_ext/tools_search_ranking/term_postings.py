"""Which tools have which of the draft's terms, kept up to date."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from threading import Lock
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.terms import terms
from mcp_types import Tool

from tools_search_ranking.layout import MOST, entries_of
from tools_search_ranking.postings import Postings
from tools_search_ranking.roster import Roster
from tools_search_ranking.segments import Segment, joined

__all__ = ["TermPostings"]

_MEMBERS: Final = ("name", "title", "description")
"""Members of a definition that the matching floor looks at."""

_TOGETHER: Final = 512
"""Tools that are indexed at a time: their terms fit into a processor's cache."""


class _Numbers(dict[str, int]):
    """Numbers of terms, given as the terms are met. One thread may add terms while others look them up."""

    def __init__(self, terms: Iterable[str] = ()) -> None:
        super().__init__((term, number) for number, term in enumerate(terms))
        self.lock = Lock()
        """Held by whoever adds terms."""

    def __missing__(self, term: str) -> int:
        number = len(self)
        if number >= MOST:
            raise ValueError(f"these tools have more than {MOST} different words")
        self[term] = number
        return number


@dataclass(frozen=True, slots=True)
class TermPostings:
    """The terms of some tools. It never changes: a change makes another, which shares what is there."""

    _numbers: _Numbers
    _roster: Roster
    _postings: Postings

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> TermPostings:
        """Look up the terms of `tools`, whose names are unique.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        ordered = sorted(tools, key=lambda tool: tool.name)
        roster = Roster.of([tool.name for tool in ordered])
        return cls(_Numbers(), roster, Postings())._with(ordered, first=0)

    def __len__(self) -> int:
        """Number of tools."""
        return len(self._roster)

    def __contains__(self, name: str) -> bool:
        return self._roster.slot(name) is not None

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> TermPostings:
        """Return the terms without those of the tools named in `removed` and with those of `added`.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        slots = [slot for name in removed if (slot := self._roster.slot(name)) is not None]
        roster = self._roster.updated(slots, [tool.name for tool in added])
        updated = TermPostings(self._numbers, roster, self._postings)._with(added, first=len(self._roster.names))
        return updated._tidied() if roster.is_sparse else updated

    def having_all(self, wanted: Sequence[str]) -> list[str]:
        """Return the names, in order, of the tools that have every one of the terms; none where there is no term."""
        known: list[int] = []
        for term in wanted:
            number = self._numbers.get(term)
            if number is None:
                return []
            known.append(number)
        if not known:
            return []
        slots = self._postings.having_all(known)
        if self._roster.present is not None:
            slots = slots[self._roster.present[slots]]
        return self._roster.names_of(self._roster.by_name[np.sort(self._roster.ranks[slots])])

    def matched(self, wanted: Sequence[str], names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return for each of these tools, which have all of the terms, the members in which they are."""
        slots = np.array([self._roster.slot(name) for name in names], dtype=np.int64)
        members = self._postings.members([self._numbers[term] for term in wanted], slots)
        bits = np.bitwise_or.reduce(members, axis=0)
        return [tuple(member for place, member in enumerate(_MEMBERS) if own >> place & 1) for own in bits.tolist()]

    def _with(self, tools: Sequence[Tool], *, first: int) -> TermPostings:
        """Return the same with the terms of `tools`, which are in the roster, in the slots from `first` on."""
        if len(self._roster.names) > MOST:
            raise ValueError(f"one index holds at most {MOST} tools")
        with self._numbers.lock:
            starts = range(0, len(tools), _TOGETHER)
            parts = [self._postings_of(tools[start : start + _TOGETHER], first + start) for start in starts]
        return TermPostings(self._numbers, self._roster, self._postings.with_added(joined(parts)))

    def _postings_of(self, tools: Sequence[Tool], first: int) -> Segment:
        numbers, bits, slots, counts = array("q"), array("q"), array("q"), array("q")
        for slot, tool in enumerate(tools, start=first):
            for place, text in enumerate((tool.name, tool.title, tool.description)):
                found = terms(text or "")
                numbers.extend(map(self._numbers.__getitem__, found))
                bits.append(1 << place)
                slots.append(slot)
                counts.append(len(found))
        own_slots, own_bits = (np.repeat(np.array(one, dtype=np.int64), counts) for one in (slots, bits))
        found, places = np.unique(np.array(numbers, dtype=np.int64) * MOST + own_slots, return_inverse=True)
        members = np.zeros(len(found), dtype=np.int64)
        np.bitwise_or.at(members, places, own_bits)
        own, of_slots = np.divmod(found, MOST)
        return Segment.of(own, own, entries_of(of_slots, np.zeros_like(members), members))

    def _tidied(self) -> TermPostings:
        """Return the same without what is left of removed tools."""
        kept = self._roster.is_present
        with self._numbers.lock:
            known = list(self._numbers)
        used = self._postings.counts(len(known), kept) > 0
        numbers = _Numbers(compress(known, used.tolist()))
        postings = self._postings.renumbered(np.cumsum(used) - 1, np.cumsum(kept) - 1, kept, self._postings.stems)
        return TermPostings(numbers, self._roster.compacted(), postings)
