"""From definitions to postings: which words they have, how often and where.

This is what indexing costs. Words are looked up one by one, and counted many tools at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import KINDS, MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.language import runs, words_of
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.layout import MOST, TERM_BITS, entries_of
from tools_search_ranking.segments import Segment, joined, ragged
from tools_search_ranking.vocabulary import NO_TERM, Vocabulary

__all__ = ["NAME_BIT", "Analysed", "analyse"]

NAME_BIT: Final = 1 << MEMBERS.index("name")

_MOST_COUNTED: Final = 4
"""Occurrences of one word in texts of one kind that count: repeating it further gains nothing."""

_TOGETHER: Final = 512
"""Tools that are counted at a time: their words fit into a processor's cache."""

_KIND_BITS: Final = (len(KINDS) - 1).bit_length()

_BITS: Final = np.array([1 << MEMBERS.index(member) for member, _ in KINDS], dtype=np.int64)
_STEPS: Final = np.array([weight * STEPS for _, weight in KINDS], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Analysed:
    """What is known of some tools, whose slots follow one another."""

    postings: Segment

    lengths: NDArray[np.float64]
    """By tool, the sum of the weights of its words that are no stop words."""

    name_slots: NDArray[np.int32]
    name_stems: NDArray[np.int32]
    """The stems in the names, each with the slot of the tool."""


def analyse(tools: Sequence[Tool], vocabulary: Vocabulary, first: int) -> Analysed:
    """Analyse `tools`, which get the slots from `first` on; their words are added to `vocabulary`, whose lock is held.

    Raises:
        ValueError: There are more tools, or more words, than one index can hold.
    """
    if first + len(tools) > MOST:
        raise ValueError(f"one index holds at most {MOST} tools")
    table = _Runs(vocabulary)
    starts = range(0, len(tools), _TOGETHER)
    parts = [_counted(table, vocabulary, tools[start : start + _TOGETHER], first + start) for start in starts]
    none = np.zeros(0, dtype=np.int32)
    return Analysed(
        postings=joined([part.postings for part in parts]),
        lengths=np.concatenate([np.zeros(0), *(part.lengths for part in parts)]),
        name_slots=np.concatenate([none, *(part.name_slots for part in parts)]),
        name_stems=np.concatenate([none, *(part.name_stems for part in parts)]),
    )


class _Runs(dict[str, int]):
    """Numbers of the runs of letters and digits met so far, with the words of each, which are found once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._ends = array("q")
        self._words = array("q")

    def __missing__(self, run: str) -> int:
        number = self[run] = len(self)
        self._words.extend(map(self._vocabulary.add, words_of(run)))
        self._ends.append(len(self._words))
        return number

    def words(
        self, numbers: NDArray[np.int64], texts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words of runs by their numbers, as they are written, and the text that each stands in."""
        ends = np.concatenate(([0], np.array(self._ends, dtype=np.int64)))
        lengths = ends[numbers + 1] - ends[numbers]
        return np.array(self._words, dtype=np.int64)[ragged(ends[numbers], lengths)], np.repeat(texts, lengths)


def _counted(table: _Runs, vocabulary: Vocabulary, tools: Sequence[Tool], first: int) -> Analysed:
    """Analyse a few tools."""
    words, texts = table.words(*_runs_of(table, tools))
    places, kinds = np.divmod(texts, len(KINDS))
    stems = np.frombuffer(vocabulary.stems[:], dtype=np.int32)
    has_stem = stems[words] != NO_TERM
    # What has no stem is grouped by itself.
    by_word = _Sums.of(places, np.where(has_stem, stems[words], words), words, kinds)
    by_stem = by_word.over(TERM_BITS)
    in_name = (by_stem.bits & NAME_BIT > 0) & (stems[by_stem.terms] != NO_TERM)
    return Analysed(
        postings=_postings(by_word, by_stem, first),
        lengths=np.bincount(places, has_stem * _STEPS[kinds], len(tools)) / STEPS,
        name_slots=(first + (by_stem.keys[in_name] >> TERM_BITS)).astype(np.int32),
        name_stems=by_stem.terms[in_name].astype(np.int32),
    )


def _postings(by_word: _Sums, by_stem: _Sums, first: int) -> Segment:
    """Return a posting for each word of a tool, and one more for each stem of which it has several words."""
    several = by_stem.counts > 1
    words, stems = by_word.terms, by_stem.terms
    owners = np.where(np.repeat(several, by_stem.counts), words, np.repeat(stems, by_stem.counts))
    of_words = entries_of(first + (by_word.keys >> 2 * TERM_BITS), by_word.steps, by_word.bits)
    of_stems = entries_of(first + (by_stem.keys >> TERM_BITS), by_stem.steps, by_stem.bits)
    united = stems[several]
    return Segment.of(np.append(owners, united), np.append(words, united), np.append(of_words, of_stems[several]))


class _Sums(NamedTuple):
    """How often and where tools have words, or stems: by key, in order."""

    keys: NDArray[np.int64]
    """The place of a tool, the number of a stem and, if these are sums of words, that of a word of it."""

    counts: NDArray[np.int64]
    """Of how many each is the sum."""

    steps: NDArray[np.int64]
    """Frequencies, in `STEPS`."""

    bits: NDArray[np.int64]
    """The members, as bits."""

    @classmethod
    def of(
        cls, places: NDArray[np.int64], stems: NDArray[np.int64], words: NDArray[np.int64], kinds: NDArray[np.int64]
    ) -> _Sums:
        """Return the sums of words, of which each comes with the place of its tool, its stem and its kind of text."""
        ordered = np.sort(((places << TERM_BITS | stems) << TERM_BITS | words) << _KIND_BITS | kinds)
        keys, _, counts = _distinct(ordered)
        own_kinds = keys & ((1 << _KIND_BITS) - 1)
        steps = np.minimum(counts, _MOST_COUNTED) * _STEPS[own_kinds]
        return cls(keys, counts, steps, _BITS[own_kinds]).over(_KIND_BITS)

    def over(self, bits: int) -> _Sums:
        """Return the sums over all keys that differ in their last `bits` alone."""
        keys, starts, counts = _distinct(self.keys >> bits)
        return _Sums(keys, counts, np.add.reduceat(self.steps, starts), np.bitwise_or.reduceat(self.bits, starts))

    @property
    def terms(self) -> NDArray[np.int64]:
        """The numbers of the words, or of the stems."""
        return self.keys & (MOST - 1)


def _distinct(ordered: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """Return the different ones of numbers in order, where each begins, and how often it comes."""
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[starts], starts, np.diff(starts, append=len(ordered))


def _runs_of(table: _Runs, tools: Sequence[Tool]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the runs of the tools by their numbers in `table`, each with the number of the tool and kind of text."""
    numbers, texts, counts = array("q"), array("q"), array("q")
    for place, tool in enumerate(tools):
        for kind, own in fields(tool):
            before = len(numbers)
            numbers.extend(map(table.__getitem__, _runs_in(own)))
            texts.append(place * len(KINDS) + kind)
            counts.append(len(numbers) - before)
    return np.array(numbers, dtype=np.int64), np.repeat(np.array(texts, dtype=np.int64), counts)


def _runs_in(texts: Sequence[str]) -> list[str]:
    together = " ".join(texts) if len(texts) != 1 else texts[0]
    # Text that is not plain is slow to read, so texts beside it are read by themselves.
    return runs(together) if together.isascii() else list(chain.from_iterable(map(runs, texts)))
