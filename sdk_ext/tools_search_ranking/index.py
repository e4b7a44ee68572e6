"""The index of the default ranking: raw frequencies and lengths, and no statistics that a hidden tool could enter.

    Documents    tools as bags of weighted words; it never changes
    Roster       the tools by name and by slot
    _Analysis    from definitions to postings: the price of indexing

Adding and removing tools makes another `Documents`, for the price of these tools and a few passes over short arrays; it
answers exactly as an index made of all its tools at once.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import KINDS, MAX_TEXT_LENGTH, MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.language import MAX_WORD_LENGTH, runs, words, words_of
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.postings import (
    MAX_SLOTS,
    MAX_TERMS,
    TERM_BITS,
    Postings,
    Segment,
    entries_of,
    joined,
    ragged,
)
from tools_search_ranking.vocabulary import NO_STEM, Vocabulary, term_key, wholes

_NAME_BIT: Final = 1 << MEMBERS.index("name")

_MIN_TIDIED: Final = 256
"""Empty slots, or unused terms, that are not worth tidying up."""

_FEW_REMOVED: Final = 4
"""Removed tools whose terms are looked up one tool after another."""

_MAX_COUNTED: Final = 4
"""Occurrences of one word in texts of one kind that count: repeating it further gains nothing."""

_BATCH: Final = 512
"""Tools that are counted at a time: their words fit into a processor's cache."""

_LONG_RUN: Final = re.compile(rf"[A-Za-z0-9]{{{MAX_WORD_LENGTH + 1}}}")

_KIND_BITS: Final = (len(KINDS) - 1).bit_length()
_KIND_MEMBERS: Final = np.array([1 << MEMBERS.index(member) for member, _ in KINDS], dtype=np.int64)
_KIND_STEPS: Final = np.array([weight * STEPS for _, weight in KINDS], dtype=np.int64)


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
        vocabulary, none = Vocabulary(), np.zeros(0, dtype=np.int32)
        postings = Postings(vocabulary.stems)
        empty = cls(vocabulary, Roster.of([]), postings, np.zeros(0), none, none, none.astype(np.int64))
        return empty.updated([], sorted(tools, key=lambda tool: tool.name))

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> Documents:
        """Return an index without the tools named in `removed` and with `added`, which may have names that are removed.

        Raises:
            ValueError: There are more tools, or more words, than one index can hold.
        """
        slots = [slot for name in removed if (slot := self.roster.slot(name)) is not None]
        first = len(self.roster.names)
        if first + len(added) > MAX_SLOTS:
            if slots or len(self.roster) < first:  # some of these slots may be empty
                return self.updated(removed, [])._tidied(is_full=True).updated([], added)
            raise ValueError(f"one index holds at most {MAX_SLOTS} tools")
        with self.vocabulary.lock:
            analysis = _Analysis(self.vocabulary)
            parts = [analysis.of(added[at : at + _BATCH], first + at) for at in range(0, len(added), _BATCH)]
        new = joined([part.postings for part in parts])
        known, containing = len(self.containing), new.containing(len(self.vocabulary))
        containing[:known] += self.containing
        if len(slots) > _FEW_REMOVED:
            containing[:known] -= self.containing_in(np.isin(np.arange(first), slots))
        else:
            for slot, segment in product(slots, self.postings.segments):
                containing[segment.terms_of(slot)] -= 1
        changed = Documents(
            vocabulary=self.vocabulary,
            roster=self.roster.updated(slots, [tool.name for tool in added]),
            postings=self.postings.with_added(new),
            lengths=np.concatenate((self.lengths, *(part.lengths for part in parts))),
            name_slots=np.concatenate((self.name_slots, *(part.name_slots for part in parts))),
            name_stems=np.concatenate((self.name_stems, *(part.name_stems for part in parts))),
            containing=containing,
        )
        return changed._tidied()

    def containing_in(self, visible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return by number of a term how many of the tools in the slots of `visible`, all of them there, have it."""
        containing = np.zeros(len(self.containing), dtype=np.int64)
        return sum((segment.containing(len(containing), visible) for segment in self.postings.segments), containing)

    def _tidied(self, *, is_full: bool = False) -> Documents:
        """Return the index without the rest of removed tools, once that is much or the index is full.

        A catalog that changes forever, with new words each time, so wastes no more than half of its memory.
        """
        empty, used = len(self.roster.names) - len(self.roster), int(np.count_nonzero(self.containing))
        is_sparse = empty > max(_MIN_TIDIED, len(self.roster) // 2)
        if not is_full and not is_sparse and len(self.containing) - used <= max(_MIN_TIDIED, used // 2):
            return self
        kept, has_tools = self.roster.present, self.containing > 0
        new_slots, new_terms = np.cumsum(kept) - 1, np.cumsum(has_tools) - 1
        vocabulary = self.vocabulary.subset(has_tools)
        left = joined([segment.subset(kept, new_terms, new_slots) for segment in self.postings.segments])
        named = kept[self.name_slots]
        return Documents(
            vocabulary=vocabulary,
            roster=Roster.of(self.roster.names_of(np.flatnonzero(kept))),
            postings=Postings(vocabulary.stems).with_added(left),
            lengths=self.lengths[kept],
            name_slots=new_slots[self.name_slots[named]].astype(np.int32),
            name_stems=new_terms[self.name_stems[named]].astype(np.int32),
            containing=self.containing[has_tools],
        )


@dataclass(frozen=True, slots=True)
class Roster:
    """The tools of an index by name and by slot. It never changes: a change makes another.

    Each tool has a slot, a number that is its own for good. The slot of a tool that was removed stays empty, since its
    postings are still in the index.
    """

    names: Sequence[str]
    """By slot, names of removed tools included."""

    by_name: NDArray[np.int32]
    """Slots of the tools that are there, in the order of their names."""

    ranks: NDArray[np.int32]
    """By slot, the place of the tool in that order; anything for an empty slot."""

    present: NDArray[np.bool_]
    """By slot, whether the tool is there."""

    @classmethod
    def of(cls, names: Sequence[str]) -> Roster:
        """Return the tools called `names`, in slots from 0 on."""
        none = np.zeros(0, dtype=np.int32)
        return cls([], none, none, none > 0).updated([], names)

    def __len__(self) -> int:
        return len(self.by_name)

    def slot(self, name: str) -> int | None:
        """Return the slot of the tool called `name`, if it is there."""
        place = bisect_left(self.by_name, name, key=self.names.__getitem__)
        slot = int(self.by_name[place]) if place < len(self) else None
        return slot if slot is not None and self.names[slot] == name else None

    def updated(self, removed: Sequence[int], added: Sequence[str]) -> Roster:
        """Return a roster without the tools in the slots `removed`, and with those called `added`.

        These get slots of their own, which follow the last one that was given, in their order.
        """
        names = [*self.names, *added]
        kept = np.delete(self.by_name, self.ranks[list(removed)])
        new = sorted(range(len(self.names), len(names)), key=names.__getitem__)
        by_name = np.insert(kept, [bisect_left(kept, names[slot], key=names.__getitem__) for slot in new], new)
        ranks = np.zeros(len(names), dtype=np.int32)
        ranks[by_name] = np.arange(len(by_name), dtype=np.int32)
        present = np.append(self.present, np.ones(len(added), dtype=np.bool_))
        present[list(removed)] = False
        return Roster(names, by_name, ranks, present)

    def names_of(self, slots: NDArray[np.integer]) -> list[str]:
        """Return the names of the tools in `slots`, in their order."""
        places: list[int] = slots.tolist()
        return [self.names[place] for place in places]

    def mask(self, visible: Collection[str]) -> NDArray[np.bool_]:
        """Return by slot which tools are there and named in `visible`."""
        return np.fromiter(map(visible.__contains__, self.names), np.bool_, len(self.names)) & self.present


class _Analyzed(NamedTuple):
    """A few tools whose slots follow one another, ready to be added to an index; the names are as in `Documents`."""

    postings: Segment
    lengths: NDArray[np.float64]
    name_slots: NDArray[np.int32]
    name_stems: NDArray[np.int32]


class _Analysis(dict[str, int]):
    """Numbers of the runs of letters and digits met so far, whose words are looked up once, and counted for many tools.

    Args:
        vocabulary: Takes the words; its lock is held.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._words = array("q")
        self._ends = array("q", [0])
        """Where the words of each run begin, and those of the last one end."""

    def __missing__(self, run: str) -> int:
        number = self[run] = len(self)
        if run.startswith(term_key("")):
            self._words.append(self._vocabulary.add_key(run))
        else:
            self._words.extend(map(self._vocabulary.add, words_of(run)))
        self._ends.append(len(self._words))
        return number

    def of(self, tools: Sequence[Tool], first: int) -> _Analyzed:
        """Analyze a few tools, which get the slots from `first` on.

        Raises:
            ValueError: There are more words than one index can hold.
        """
        found, texts = self._words_of(tools)
        places, kinds = np.divmod(texts, len(KINDS))
        stem_of = np.frombuffer(self._vocabulary.stems[:], dtype=np.int32)
        has_stem = stem_of[found] != NO_STEM
        # A word without a stem is grouped by itself.
        by_word = _Sums.of(places, np.where(has_stem, stem_of[found], found), found, kinds)
        by_stem = by_word.over(TERM_BITS)
        in_name = (by_stem.members & _NAME_BIT > 0) & (stem_of[by_stem.terms] != NO_STEM)
        # A posting for each word of a tool, and one more for each stem of which it has several words.
        several = by_stem.counts > 1
        owners = np.where(np.repeat(several, by_stem.counts), by_word.terms, np.repeat(by_stem.terms, by_stem.counts))
        of_words = entries_of(first + (by_word.keys >> 2 * TERM_BITS), by_word.steps, by_word.members)
        of_stems = entries_of(first + (by_stem.keys >> TERM_BITS), by_stem.steps, by_stem.members)
        united = by_stem.terms[several]
        return _Analyzed(
            postings=Segment.of(
                np.append(owners, united), np.append(by_word.terms, united), np.append(of_words, of_stems[several])
            ),
            lengths=np.bincount(places, has_stem * _KIND_STEPS[kinds], len(tools)) / STEPS,
            name_slots=(first + (by_stem.keys[in_name] >> TERM_BITS)).astype(np.int32),
            name_stems=by_stem.terms[in_name].astype(np.int32),
        )

    def _words_of(self, tools: Sequence[Tool]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words of the tools, as they are written, each with the number of its tool and kind of text."""
        numbers, texts, counts = array("q"), array("q"), array("q")
        for place, tool in enumerate(tools):
            read = [(field.kind, _runs_in(field.texts)) for field in fields(tool)]
            # The texts that the draft's matching floor looks at, each with its kind.
            for kind, text in (0, tool.name), (1, tool.title or ""), (2, tool.description or ""):
                if unread := _unread_terms(text):
                    read.append((kind, unread))
            for kind, own in read:
                before = len(numbers)
                numbers.extend(map(self.__getitem__, own))
                texts.append(place * len(KINDS) + kind)
                counts.append(len(numbers) - before)
        all_runs, ends = np.array(numbers, dtype=np.int64), np.array(self._ends, dtype=np.int64)
        lengths = ends[all_runs + 1] - ends[all_runs]
        text_of_run = np.repeat(np.array(texts, dtype=np.int64), counts)
        found = np.array(self._words, dtype=np.int64)[ragged(ends[all_runs], lengths)]
        return found, np.repeat(text_of_run, lengths)


def _runs_in(texts: Sequence[str]) -> Iterable[str]:
    together = " ".join(texts) if len(texts) != 1 else texts[0]
    # Text that is not ASCII is slow to read, so plain texts next to it are read by themselves.
    return runs(together) if together.isascii() else chain.from_iterable(map(runs, texts))


def _unread_terms(text: str) -> list[str]:
    """Return the keys of the draft's terms in `text` that are not among the words that the ranking reads of it."""
    if text.isascii() and len(text) <= MAX_TEXT_LENGTH and _LONG_RUN.search(text) is None:
        return []
    read = frozenset(words(text[:MAX_TEXT_LENGTH]))
    return [term_key(term) for term in dict.fromkeys(terms(text)) if not read.issuperset(wholes(term))]


class _Sums(NamedTuple):
    """How often and where tools have words, or stems: by key, in order."""

    keys: NDArray[np.int64]
    """The place of a tool, the number of a stem and, if these are sums of words, the number of a word of it."""

    counts: NDArray[np.int64]
    """The number of summands of each."""

    steps: NDArray[np.int64]
    """Frequencies, in `STEPS`."""

    members: NDArray[np.int64]
    """The members, as bits."""

    @classmethod
    def of(
        cls, places: NDArray[np.int64], stems: NDArray[np.int64], words: NDArray[np.int64], kinds: NDArray[np.int64]
    ) -> _Sums:
        """Return the sums of words, of which each comes with the place of its tool, its stem and its kind of text."""
        ordered = np.sort(((places << TERM_BITS | stems) << TERM_BITS | words) << _KIND_BITS | kinds)
        keys, _, counts = _distinct(ordered)
        own_kinds = keys & ((1 << _KIND_BITS) - 1)
        steps = np.minimum(counts, _MAX_COUNTED) * _KIND_STEPS[own_kinds]
        return cls(keys, counts, steps, _KIND_MEMBERS[own_kinds]).over(_KIND_BITS)

    def over(self, bits: int) -> _Sums:
        """Return the sums over all keys that differ in their last `bits` alone."""
        keys, starts, counts = _distinct(self.keys >> bits)
        return _Sums(keys, counts, np.add.reduceat(self.steps, starts), np.bitwise_or.reduceat(self.members, starts))

    @property
    def terms(self) -> NDArray[np.int64]:
        """The numbers of the words, or of the stems."""
        return self.keys & (MAX_TERMS - 1)


def _distinct(ordered: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """Return the different ones of numbers in order, where each begins, and how often it comes."""
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[starts], starts, np.diff(starts, append=len(ordered))
