"""Converts definitions to the rows that a search reads, with the words, fields and weights of the interface package.

The rows depend only on the tool itself. Statistics over several tools (how rare a word is, how long definitions are)
are computed for each search, over the tools that its caller sees.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final
from zlib import crc32

from mcp_ext_tools_search.ranking.fields import MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.language import MAX_WORD_LENGTH, SAME_START, may_be_misspelled, runs, words_of
from mcp_ext_tools_search.ranking.query import WRITTEN, index_terms
from mcp_ext_tools_search.ranking.simple import LENGTH_PENALTY, MAX_COUNTED, SATURATION
from mcp_types import Tool

ANALYSIS: Final = 1
"""Version of this analysis. Catalogs with another version must be reindexed."""

FLOOR: Final = "~"
"""Prefix for the keys of the terms of the draft's matching floor. No word in the ranking starts with it."""

BLOCK_BITS: Final = 12
"""A row of postings contains tools whose ids differ only in this many low bits."""

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
_MAX_SMALLINT: Final = 32_767


@dataclass(frozen=True, slots=True)
class Document:
    """A tool as bags of weighted terms. Terms are ids from a vocabulary."""

    length: int
    named: list[int]
    """The stems in the name."""

    terms: dict[int, tuple[int, int]]
    """For each term, its weighted frequency in `STEPS`, and a bit for each member of the definition that has it."""

    floor: dict[int, int]
    """For each stem in name, title and description, and each term of the matching floor, the bits of the members."""

    postings: list[tuple[int, int, int]]
    """Term, level and impact."""


class Analyzer:
    """Analyzes definitions, and numbers their terms.

    Args:
        known: Ids of terms by key. New terms are added to it.
        last: The greatest id so far.
    """

    def __init__(self, known: dict[str, int] | None = None, last: int = 0) -> None:
        self.known = {} if known is None else known
        self.last = last
        self._ids_of = lru_cache(200_000)(self._ids)

    def document(self, tool: Tool) -> Document:
        """Return the data of `tool` that searches read."""
        found: dict[int, tuple[int, int]] = {}
        own = set[int]()  # the terms by which a tool is found: the stem of each word, or the word itself
        length = 0
        read = fields(tool)
        for field in read:
            bit, steps = _BITS[field.member], int(field.weight * STEPS)
            counts = Counter(chain.from_iterable(map(self._ids_of, chain.from_iterable(map(runs, field.texts)))))
            for (stem, written), count in counts.items():
                own.add(stem or written)
                length += count * steps if stem else 0
                more = min(count, MAX_COUNTED) * steps
                for term in (stem, written):
                    if term:
                        before, members = found.get(term, (0, 0))
                        found[term] = min(before + more, _MAX_SMALLINT), members | bit
        floor = {term: bits for term in own if (bits := found[term][1] & _FLOOR_BITS)}
        for member in _FLOOR_MEMBERS:
            text = getattr(tool, member) or ""
            for term in dict.fromkeys(terms(text)):
                key = self.id(floor_key(term))
                floor[key] = floor.get(key, 0) | _BITS[member]
        named = list(dict.fromkeys(stem for run in runs(read[0].texts[0]) for stem, _ in self._ids_of(run) if stem))
        impact = _impacts(length, len(named))
        return Document(length, named, found, floor, [(term, *impact(*found[term])) for term in own])

    def id(self, key: str) -> int:
        """Return the id of the term with this key, adding the term if necessary."""
        number = self.known.get(key)
        if number is None:
            self.last += 1
            number = self.known[key] = self.last
        return number

    def _ids(self, run: str) -> tuple[tuple[int, int], ...]:
        """Return for each word of a run the ids of its stem and of its written form, or 0 if it has none."""
        return tuple(self._ids_of_word(word) for word in words_of(run))

    def _ids_of_word(self, word: str) -> tuple[int, int]:
        keys = index_terms(word)
        stem = self.id(keys[0]) if not keys[0].startswith(WRITTEN) else 0
        written = self.id(keys[-1]) if keys[-1].startswith(WRITTEN) else 0
        return stem, written


def _impacts(length: int, named: int) -> Callable[[int, int], tuple[int, int]]:
    """Return a function that computes the level and impact of one tool's postings.

    An impact is the saturation in 1/1024, followed by the size of the name in the low bits.
    """
    half = SATURATION * STEPS * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length / _USUAL_LENGTH)
    size = min(max(named, 1), _MOST_IN_NAME)
    more = round(_NAME_LEVELS / size)

    def impact(steps: int, members: int) -> tuple[int, int]:
        saturation = steps / (steps + half)
        level, impact = int(saturation * _SATURATION_LEVELS), int(saturation * 1023) << 3
        return (level + more, impact | size) if members & _NAME_BIT else (level, impact)

    return impact


def floor_key(term: str) -> str:
    """Return the key of a term of the matching floor. Long terms are hashed, since index keys must be short."""
    return FLOOR + (term if len(term) <= MAX_WORD_LENGTH else f"#{hashlib.sha256(term.encode()).hexdigest()}")


def start_and_slips(key: str) -> tuple[str, list[int]] | None:
    """Return the start and hashes that find a term for a misspelled word; `None` if no word is corrected to it."""
    if key.startswith((WRITTEN, FLOOR)) or not may_be_misspelled(key) or not key.isalpha():
        return None
    return key[:SAME_START], slips(key)


def slips(word: str) -> list[int]:
    """Return hashes of `word`, and of it without each of its letters.

    Two words that differ by one typo have at least one of these in common.
    """
    return list(dict.fromkeys(map(_hashed, chain([word], _without_one_letter(word)))))


def _without_one_letter(word: str) -> Iterator[str]:
    return (word[:place] + word[place + 1 :] for place in range(len(word)))


def _hashed(text: str) -> int:
    return crc32(text.encode()) - 2**31
