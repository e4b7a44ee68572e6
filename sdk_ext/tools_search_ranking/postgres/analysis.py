"""Converts definitions to the rows that a search reads, with the words, fields and weights of the interface package.

The rows depend only on the tool itself. Statistics over several tools (how rare a word is, how long definitions are)
are computed for each search, over the tools that its caller sees.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
from mcp_ext_tools_search.ranking.fields import KINDS, MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.language import MAX_WORD_LENGTH, SAME_START, may_be_misspelled, runs, words_of
from mcp_ext_tools_search.ranking.query import WRITTEN, index_terms
from mcp_ext_tools_search.ranking.simple import LENGTH_PENALTY, MAX_COUNTED, SATURATION
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.vocabulary import term_key

Numbers: TypeAlias = NDArray[np.int64]

ANALYSIS: Final = 1
"""Version of this analysis. Catalogs with another version must be reindexed."""

BLOCK_BITS: Final = 12
"""A row of postings contains tools whose ids differ only in this many low bits."""

ID_BITS: Final = 31
IMPACT_BITS: Final = 13

_BITS: Final = {member: 1 << place for place, member in enumerate(MEMBERS)}
_NAME_BIT: Final = _BITS["name"]
_FLOOR_MEMBERS: Final = ("name", "title", "description")
_FLOOR_BITS: Final = sum(_BITS[member] for member in _FLOOR_MEMBERS)
_USUAL_LENGTH: Final = 40 * STEPS
"""Length of a definition for which impacts are exact. Only a search knows the average length of the visible tools."""
_SATURATION_LEVELS: Final = 20
_NAME_LEVELS: Final = 6
"""Levels that are added to a posting if the term is the whole name."""
_MOST_IN_NAME: Final = 7
_KIND_STEPS: Final = np.array([int(weight * STEPS) for _, weight in KINDS])
_KIND_BITS: Final = np.array([_BITS[member] for member, _ in KINDS])
_ALL_BITS: Final = (1 << len(MEMBERS)) - 1
_OWN: Final = 1 << len(MEMBERS)
"""The bit of the terms by which a tool is found: the stem of each word, or the word itself if it has none."""
_STEM: Final = 2 << len(MEMBERS)
_NAMED: Final = 1 << len(MEMBERS)
_STEPS_SHIFT: Final = len(MEMBERS) + 1
"""Of a use. Frequencies have at most 7 bits, with `MAX_COUNTED` times the sum of all weights."""
_MOST_CACHED: Final = 200_000
_MAX_ID: Final = (1 << ID_BITS) - 1


@dataclass(frozen=True, slots=True)
class AnalyzedTools:
    """Tools as bags of weighted terms. Terms are ids from a vocabulary, and tools are positions in a sequence."""

    lengths: Numbers
    """The length of each tool's texts, in `STEPS`."""

    terms: Columns
    """For each term of each tool, its use: the weighted frequency in `STEPS`, whether it is a stem in the name, and a
    bit for each member that has it."""

    floor: Columns
    """For the terms of the matching floor, the bits of the members."""

    stems: Columns
    """The stems in name, title and description."""

    postings: Columns
    """For each term by which a tool is found, its level and impact."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Terms of tools, ordered by tool, then by term, with one or more numbers for each."""

    tools: Numbers
    terms: Numbers
    values: tuple[Numbers, ...] = ()

    def where(self, chosen: NDArray[np.bool_], *values: Numbers) -> Columns:
        """Return the chosen terms, with other values."""
        return Columns(self.tools[chosen], self.terms[chosen], tuple(own[chosen] for own in values))


class Analyzer:
    """Analyzes definitions, and numbers their terms.

    Args:
        known: Ids of terms by key. New terms are added to it.
        last: The greatest id so far.
    """

    def __init__(self, known: dict[str, int] | None = None, last: int = 0) -> None:
        self.known = {} if known is None else known
        self.last = last
        self._words_of = lru_cache(_MOST_CACHED)(self._words)
        self._floor_id = lru_cache(_MOST_CACHED)(self._id_of_floor)

    def documents(self, tools: Iterable[Tool]) -> AnalyzedTools:
        """Return the data of `tools` that searches read."""
        read = list(tools)
        places, kinds, counts, words = (array("q") for _ in range(4))
        floor_places, floor_bits, floor_counts, floor_ids = (array("q") for _ in range(4))
        for place, tool in enumerate(read):
            for field in fields(tool):
                before = len(words)
                words.extend(chain.from_iterable(map(self._words_of, chain.from_iterable(map(runs, field.texts)))))
                places.append(place)
                kinds.append(field.kind)
                counts.append(len(words) - before)
            for member in _FLOOR_MEMBERS:
                before = len(floor_ids)
                floor_ids.extend(map(self._floor_id, set(terms(getattr(tool, member) or ""))))
                floor_places.append(place)
                floor_bits.append(_BITS[member])
                floor_counts.append(len(floor_ids) - before)
        lengths, found = _united_words(len(read), *map(_numbers, (places, kinds, counts, words)))
        steps, flags = found.values
        members, is_own, is_stem = flags & _ALL_BITS, flags & _OWN > 0, flags & _STEM > 0
        is_named = is_stem & (flags & _NAME_BIT > 0)
        sizes = np.bincount(found.tools[is_named], minlength=len(read))
        own = found.where(is_own, steps, members)
        impacts = _impacts(lengths[own.tools], sizes[own.tools], *own.values)
        return AnalyzedTools(
            lengths=lengths,
            terms=Columns(found.tools, found.terms, (steps << _STEPS_SHIFT | is_named * _NAMED | members,)),
            floor=_united(
                np.repeat(floor_places, floor_counts), _numbers(floor_ids), np.repeat(floor_bits, floor_counts)
            ),
            stems=found.where(is_own & (flags & _FLOOR_BITS > 0)),
            postings=Columns(own.tools, own.terms, impacts),
        )

    def id(self, key: str) -> int:
        """Return the id of the term with this key, adding the term if necessary."""
        number = self.known.get(key)
        if number is None:
            self.last += 1
            number = self.known[key] = self.last
        return number

    def _id_of_floor(self, term: str) -> int:
        return self.id(floor_key(term))

    def _words(self, run: str) -> tuple[int, ...]:
        """Return for each word of a run the ids of its stem and of its written form, or 0 if it has none, as one."""
        return tuple(self._ids_of_word(word) for word in words_of(run))

    def _ids_of_word(self, word: str) -> int:
        keys = index_terms(word)
        stem = self.id(keys[0]) if not keys[0].startswith(WRITTEN) else 0
        written = self.id(keys[-1]) if keys[-1].startswith(WRITTEN) else 0
        return stem << ID_BITS | written


def _numbers(numbers: array[int]) -> Numbers:
    return np.array(numbers, dtype=np.int64)


def _united_words(
    tools: int, places: Numbers, kinds: Numbers, counts: Numbers, words: Numbers
) -> tuple[Numbers, Columns]:
    """Return the lengths of the tools, and for each term of each tool its frequency and its bits, with `_OWN`, `_STEM`.

    Args:
        tools: Number of tools.
        places: For each field, the position of its tool.
        kinds: For each field, its kind of text.
        counts: For each field, its number of words.
        words: The words of all fields, each as `Analyzer._words` returns it.
    """
    distinct, numbers = np.unique(words, return_inverse=True)
    fields = np.repeat(np.arange(len(places)), counts)
    keys, times = np.unique(fields * len(distinct) + numbers, return_counts=True)
    fields, numbers = np.divmod(keys, max(len(distinct), 1))
    own_places, own_kinds, words = places[fields], kinds[fields], distinct[numbers]
    stems, written = words >> ID_BITS, words & _MAX_ID
    has_stem, is_written = stems > 0, written > 0
    lengths = np.zeros(tools, dtype=np.int64)
    np.add.at(lengths, own_places, times * _KIND_STEPS[own_kinds] * has_stem)
    steps, bits = np.minimum(times, MAX_COUNTED) * _KIND_STEPS[own_kinds], _KIND_BITS[own_kinds]
    return lengths, _united(
        np.append(own_places[has_stem], own_places[is_written]),
        np.append(stems[has_stem], written[is_written]),
        np.append(bits[has_stem] | _STEM | _OWN, np.where(has_stem, bits, bits | _OWN)[is_written]),
        np.append(steps[has_stem], steps[is_written]),
    )


def _united(tools: Numbers, terms: Numbers, bits: Numbers, steps: Numbers | None = None) -> Columns:
    """Return each term of each tool once: with the sum of its frequencies, if given, and with all its bits."""
    keys = tools << ID_BITS | terms
    order = np.argsort(keys)
    keys, starts = np.unique(keys[order], return_index=True)
    sums = () if steps is None else (np.add.reduceat(steps[order], starts),)
    return Columns(keys >> ID_BITS, keys & _MAX_ID, (*sums, np.bitwise_or.reduceat(bits[order], starts)))


def _impacts(lengths: Numbers, sizes: Numbers, steps: Numbers, members: Numbers) -> tuple[Numbers, Numbers]:
    """Return the levels and impacts of postings, whose tools have these lengths and numbers of stems in their names.

    An impact is the saturation in 1/1024, followed by the size of the name in the low bits.
    """
    half = SATURATION * STEPS * (1 - LENGTH_PENALTY + LENGTH_PENALTY * lengths / _USUAL_LENGTH)
    size = np.clip(sizes, 1, _MOST_IN_NAME)
    saturation = steps / (steps + half)
    levels = (saturation * _SATURATION_LEVELS).astype(np.int64)
    impacts = (saturation * 1023).astype(np.int64) << 3
    is_named = members & _NAME_BIT > 0
    more = np.rint(_NAME_LEVELS / size).astype(np.int64)
    return levels + more * is_named, impacts | size * is_named


def floor_key(term: str) -> str:
    """Return the key of a term of the matching floor. Long terms are hashed, since index keys must be short."""
    return term_key(term if len(term) <= MAX_WORD_LENGTH else f"#{hashlib.sha256(term.encode()).hexdigest()}")


def start_and_slips(key: str) -> tuple[str, list[int]] | None:
    """Return the start and hashes that find a term for a misspelled word; `None` if no word is corrected to it."""
    return (key[:SAME_START], slips(key)) if key.isalpha() and may_be_misspelled(key) else None


def slips(word: str) -> list[int]:
    """Return hashes of `word`, and of it without each of its letters.

    Two words that differ by one typo have at least one of these in common.
    """
    shortened = (word[:place] + word[place + 1 :] for place in range(len(word)))
    return list(dict.fromkeys(crc32(text.encode()) - 2**31 for text in (word, *shortened)))
