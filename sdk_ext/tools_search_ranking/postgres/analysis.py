"""From definitions to rows: what of a tool a search reads, in the words, fields and weights of the port.

All of it belongs to the tool alone. What it means among others (how rare a word is, how long definitions are) is
counted when a caller searches, over what that caller sees.
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
"""Version of what is computed here: catalogs with another have to be indexed again."""

FLOOR: Final = "~"
"""Begins the key of a term of the draft's matching floor, which no word of the ranking does."""

BLOCK_BITS: Final = 12
"""A row of postings holds tools whose ids differ in these last bits."""

_BITS: Final = {member: 1 << place for place, member in enumerate(MEMBERS)}
_NAME_BIT: Final = _BITS["name"]
_FLOOR_MEMBERS: Final = ("name", "title", "description")
_FLOOR_BITS: Final = sum(_BITS[member] for member in _FLOOR_MEMBERS)
_USUAL_LENGTH: Final = 40 * STEPS
"""Length of a definition for which impacts are right: that of the visible tools is known to a search alone."""
_SATURATION_LEVELS: Final = 20
_NAME_LEVELS: Final = 6
"""What it adds to the level of a posting that the name is nothing but this word."""
_MOST_IN_NAME: Final = 7
_MAX_SMALLINT: Final = 32_767


@dataclass(frozen=True, slots=True)
class Document:
    """A tool as bags of weighted terms; all terms are ids of a vocabulary."""

    length: int
    named: list[int]
    """The stems in the name."""

    terms: dict[int, tuple[int, int]]
    """Of each term its weighted frequency in `STEPS`, and a bit for each member of the definition that has it."""

    floor: dict[int, int]
    """Of each stem in name, title and description, and each term of the matching floor, the bits of the members."""

    postings: list[tuple[int, int, int]]
    """Term, level and impact."""


class Analyzer:
    """Reads definitions, and numbers the terms that it meets.

    Args:
        known: Ids of terms by their keys, which it adds to.
        last: The greatest id that was given.
    """

    def __init__(self, known: dict[str, int] | None = None, last: int = 0) -> None:
        self.known = {} if known is None else known
        self.last = last
        self._ids_of = lru_cache(200_000)(self._ids)

    def document(self, tool: Tool) -> Document:
        """Return what a search reads of `tool`."""
        found: dict[int, tuple[int, int]] = {}
        own = set[int]()  # the terms that a tool is found by: a word as it is written goes with its stem
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
        """Return the id of the term with this key, a new one if need be."""
        number = self.known.get(key)
        if number is None:
            self.last += 1
            number = self.known[key] = self.last
        return number

    def _ids(self, run: str) -> tuple[tuple[int, int], ...]:
        """Return for each word of a run the ids of its stem and of itself as it is written, 0 for one it has not."""
        return tuple(self._ids_of_word(word) for word in words_of(run))

    def _ids_of_word(self, word: str) -> tuple[int, int]:
        keys = index_terms(word)
        stem = self.id(keys[0]) if not keys[0].startswith(WRITTEN) else 0
        written = self.id(keys[-1]) if keys[-1].startswith(WRITTEN) else 0
        return stem, written


def _impacts(length: int, named: int) -> Callable[[int, int], tuple[int, int]]:
    """Return what gives, for one tool, the level of a posting and its impact.

    An impact is the saturation in 1/1024, and behind it the size of the name.
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
    """Return the key of a term of the matching floor, however long that is: keys of an index are short."""
    return FLOOR + (term if len(term) <= MAX_WORD_LENGTH else f"#{hashlib.sha256(term.encode()).hexdigest()}")


def start_and_slips(key: str) -> tuple[str, list[int]] | None:
    """Return what finds a term for a misspelled word; nothing for terms that no word is corrected to."""
    if key.startswith((WRITTEN, FLOOR)) or not may_be_misspelled(key) or not key.isalpha():
        return None
    return key[:SAME_START], slips(key)


def slips(word: str) -> list[int]:
    """Return hashes of `word`, and of it without each of its letters.

    Two words that one slip sets apart have one of them in common.
    """
    return list(dict.fromkeys(map(_hashed, chain([word], _without_one_letter(word)))))


def _without_one_letter(word: str) -> Iterator[str]:
    return (word[:place] + word[place + 1 :] for place in range(len(word)))


def _hashed(text: str) -> int:
    return crc32(text.encode()) - 2**31
