"""From definitions to postings: which words they have, how often and where.

This is what indexing costs. Words are looked up one by one, and counted many tools at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from mcp_types import Tool
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.fields import KINDS, MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.layout import MOST, entries_of, keys, members_of, slots_of, summed, terms_of
from mcp_ext_tools_search.ranking.segments import Segment, joined, ragged
from mcp_ext_tools_search.ranking.tokens import runs, words_of
from mcp_ext_tools_search.ranking.vocabulary import NO_TERM, Vocabulary

__all__ = ["NAME_BIT", "Analysed", "analyse"]

NAME_BIT: Final = 1 << MEMBERS.index("name")

_MOST_COUNTED: Final = 4
"""Occurrences of one word in texts of one kind that count: repeating it further gains nothing."""

_TOGETHER: Final = 512
"""Tools that are counted at a time: their words fit into a processor's cache."""

_WORD_BITS: Final = MOST.bit_length()
_WORD_MASK: Final = (1 << _WORD_BITS) - 1

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
        self._words: dict[str, tuple[int, int]] = {}
        self._ends = array("q")
        self._written = array("q")
        self._stems = array("q")

    def __missing__(self, run: str) -> int:
        number = self[run] = len(self)
        for word in words_of(run):
            known = self._words.get(word)
            if known is None:
                known = self._words[word] = self._vocabulary.add(word)
            self._written.append(known[0])
            self._stems.append(known[1])
        self._ends.append(len(self._written))
        return number

    def words(
        self, numbers: NDArray[np.int64], texts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the words of runs by their numbers: as written, their stems, and the text that each run stands in."""
        ends = np.concatenate(([0], np.array(self._ends, dtype=np.int64)))
        lengths = ends[numbers + 1] - ends[numbers]
        places = ragged(ends[numbers], lengths)
        written, stems = np.array(self._written, dtype=np.int64), np.array(self._stems, dtype=np.int64)
        return written[places], stems[places], np.repeat(texts, lengths)


def _counted(table: _Runs, vocabulary: Vocabulary, tools: Sequence[Tool], first: int) -> Analysed:
    """Analyse a few tools."""
    written, stems, texts = table.words(*_runs_of(table, tools))
    # One number for the tool, the kind of text and the word, so that sorting brings equal ones together.
    ordered = np.sort((texts << _WORD_BITS | (written - NO_TERM)) << _WORD_BITS | (stems - NO_TERM))
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    said, counts = ordered[starts], np.diff(starts, append=len(ordered))
    written, stems = ((said >> shift & _WORD_MASK) + NO_TERM for shift in (_WORD_BITS, 0))
    texts = said >> 2 * _WORD_BITS
    slots, kinds = first + texts // len(KINDS), texts % len(KINDS)
    steps = np.minimum(counts, _MOST_COUNTED) * _STEPS[kinds]
    has_stem = np.flatnonzero(stems != NO_TERM)
    of_words, of_stems = (keys(terms, slots, steps, _BITS[kinds]) for terms in (written, stems))
    postings = summed(np.concatenate((of_words[written != NO_TERM], of_stems[has_stem])))
    is_surface = np.frombuffer(vocabulary.is_surface[:], dtype=np.bool_)
    in_name = postings[(members_of(postings) & NAME_BIT > 0) & ~is_surface[terms_of(postings)]]
    return Analysed(
        postings=Segment.of(postings),
        lengths=np.bincount(slots[has_stem] - first, (counts * _STEPS[kinds])[has_stem], len(tools)) / STEPS,
        name_slots=slots_of(entries_of(in_name)).astype(np.int32),
        name_stems=terms_of(in_name).astype(np.int32),
    )


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
