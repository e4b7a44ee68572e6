"""Any number of synthetic tools made from real ones, with word frequencies like those in larger catalogs.

A tool is crossed from two real ones, which preserves text lengths. With that alone, a million tools would have the
vocabulary of five thousand, with each word in two hundred times as many tools. In real text, new words keep appearing:
their number grows as a power of the length (Heaps), and word frequency is a power of the rank (Zipf). So each word that
is rare in the real tools represents a family of words, from which one is drawn with a rank that follows such a law.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mcp_types import Tool

from benchmarks.speed.corpus import halves

_RARE: Final = 3
"""Words in at most this many tools count as rare."""

_EXPONENT: Final = 1.25
"""Exponent of the law for drawing a word from a family: `random ** -EXPONENT`."""

_MOST_IN_FAMILY: Final = 100_000
_CONSONANTS: Final = "bdfgklmnprst"
_VOWELS: Final = "aeiou"
_WORD: Final = re.compile(r"[A-Za-z]{4,}")


def synthetic(parents: Sequence[Tool], number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield `number` definitions with unique names; equal arguments give equal tools."""
    chance = random.Random(seed)  # noqa: S311 - the same catalog in every run
    texts = [f"{tool.name.replace('_', ' ')} {tool.description or ''}".lower() for tool in parents]
    having = Counter(word for text in texts for word in set(_WORD.findall(text)))
    rare = frozenset(word for word, tools in having.items() if tools <= _RARE)

    def varied(text: str) -> str:
        return _WORD.sub(lambda found: _relative(found[0], rare, chance), text)

    taken = Counter[str]()
    for _ in range(number):
        words, description, schema = halves(chance.choice(parents), chance.choice(parents))
        name = stem = varied(words)
        while name in taken:
            taken[stem] += 1
            name = f"{stem}_{taken[stem]}"
        taken[name] = 1
        yield {"name": name, "description": varied(description), "inputSchema": schema}


def _relative(word: str, rare: frozenset[str], chance: random.Random) -> str:
    """Return a word from the family of `word` if it is rare; most often the word itself."""
    if word.lower() not in rare:
        return word
    rank = min(int((1 - chance.random()) ** -_EXPONENT), _MOST_IN_FAMILY) - 1
    syllables = ""
    while rank > 0:
        rank, place = divmod(rank, len(_CONSONANTS) * len(_VOWELS))
        syllables += _CONSONANTS[place // len(_VOWELS)] + _VOWELS[place % len(_VOWELS)]
    return word + syllables
