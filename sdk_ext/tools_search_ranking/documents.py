"""The index of the default ranking: raw frequencies and lengths, and no statistics that a hidden tool could enter.

It never changes. Adding and removing tools makes another, which costs what these tools cost and a few passes over short
arrays; it answers exactly as an index made of all its tools at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.analysis import Analysed, analyse
from tools_search_ranking.postings import Postings
from tools_search_ranking.roster import Roster
from tools_search_ranking.vocabulary import Vocabulary, lookup_key

__all__ = ["Documents"]

_LEAST_TIDIED: Final = 256
"""Unused terms that are not worth tidying up."""


_FEW: Final = 4
"""Removed tools whose terms are looked up one tool after another."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Tools as bags of weighted words."""

    vocabulary: Vocabulary
    roster: Roster
    postings: Postings
    lengths: NDArray[np.float64]
    """By slot, the sum of the weights of its words that are no stop words."""

    name_slots: NDArray[np.int32]
    name_stems: NDArray[np.int32]
    """The stems in the names, each with the slot of the tool."""

    containing: NDArray[np.int64]
    """By number of a term, how many tools have it."""

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> Documents:
        """Index `tools`, whose names are unique; the order in which they come does not matter.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        vocabulary = Vocabulary()
        ordered = sorted(tools, key=lambda tool: tool.name)
        with vocabulary.lock:
            analysed = analyse(ordered, vocabulary, 0)
        none = np.zeros(0, dtype=np.int32)
        empty = cls(
            vocabulary, Roster.of([]), Postings(stems=vocabulary.stems), np.zeros(0), none, none, none.astype(np.int64)
        )
        return empty._with(analysed, Roster.of([tool.name for tool in ordered]), removed=[])

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> Documents:
        """Return an index without the tools named in `removed` and with `added`, which may have names that are removed.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        slots = [slot for name in removed if (slot := self.roster.slot(name)) is not None]
        with self.vocabulary.lock:
            analysed = analyse(added, self.vocabulary, len(self.roster.names))
        roster = self.roster.updated(slots, [tool.name for tool in added])
        return self._with(analysed, roster, removed=slots)._tidied()

    def number_of(self, word: str) -> int | None:
        """Return the number of a word as it is written, if a tool has or had it."""
        number = self.vocabulary.numbers.get(lookup_key(word))
        return None if number is None or number >= len(self.containing) else number

    def containing_in(self, visible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return by number of a term how many of the tools in the slots of `visible`, all of them there, have it."""
        return self.postings.counts(len(self.containing), visible)

    def _with(self, analysed: Analysed, roster: Roster, *, removed: Sequence[int]) -> Documents:
        """Return an index that has what was analysed, and no longer what is in the slots `removed`."""
        containing = analysed.postings.containing(len(self.vocabulary))
        containing[: len(self.containing)] += self.containing
        if len(removed) > _FEW:
            gone = np.zeros(len(self.roster.names), dtype=np.bool_)
            gone[removed] = True
            containing[: len(self.containing)] -= self.postings.counts(len(self.containing), gone)
        else:
            for slot in removed:
                containing[self.postings.terms_of(slot)] -= 1
        return Documents(
            vocabulary=self.vocabulary,
            roster=roster,
            postings=self.postings.with_added(analysed.postings),
            lengths=np.concatenate((self.lengths, analysed.lengths)),
            name_slots=np.concatenate((self.name_slots, analysed.name_slots)),
            name_stems=np.concatenate((self.name_stems, analysed.name_stems)),
            containing=containing,
        )

    def _tidied(self) -> Documents:
        """Return the index without what is left of removed tools, once that is much.

        Whoever changes a catalog for ever, with new words each time, holds no more than half of it in vain.
        """
        terms, used = len(self.containing), int(np.count_nonzero(self.containing))
        if not self.roster.is_sparse and terms - used <= max(_LEAST_TIDIED, used // 2):
            return self
        kept = self.roster.is_present
        has_tools = self.containing > 0
        new_slots, new_terms = np.cumsum(kept) - 1, np.cumsum(has_tools) - 1
        vocabulary = self.vocabulary.only(has_tools)
        named = kept[self.name_slots]
        return Documents(
            vocabulary=vocabulary,
            roster=self.roster.compacted(),
            postings=self.postings.renumbered(new_terms, new_slots, kept, vocabulary.stems),
            lengths=self.lengths[kept],
            name_slots=new_slots[self.name_slots[named]].astype(np.int32),
            name_stems=new_terms[self.name_stems[named]].astype(np.int32),
            containing=self.containing[has_tools],
        )
