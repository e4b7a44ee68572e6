"""An inverted index of tools: which words occur in which tools, how much, and in which members.

It holds raw weighted frequencies and no statistics, so it says nothing of which tools a caller may see.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from mcp_types import Tool
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.fields import MEMBERS, fields
from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.stop_words import STOP_WORDS
from mcp_ext_tools_search.ranking.tokens import words

__all__ = ["NAME_BIT", "Postings", "index_tools", "surface"]

NAME_BIT: Final = 1 << MEMBERS.index("name")

_MOST_COUNTED: Final = 4
"""Occurrences of one word in texts of one kind that count: repeating it further gains nothing."""


def surface(word: str) -> str:
    """Return the key of `word` as it is written, which no stem can be."""
    return "=" + word


@dataclass(frozen=True, slots=True)
class Postings:
    """The index of `names`; the postings of the term numbered `t` are `starts[t]:starts[t + 1]` of three arrays."""

    names: tuple[str, ...]
    """Names of the tools in order; a tool is the number of its place here."""

    terms: Mapping[str, int]
    """Stems, and words as they are written (`surface`), each with its number."""

    starts: NDArray[np.int64]
    tools: NDArray[np.int32]
    frequencies: NDArray[np.float64]
    """Occurrences, each weighted by the field that it is in."""

    members: NDArray[np.uint8]
    """Set of `MEMBERS` in which the term occurs, as bits."""

    lengths: NDArray[np.float64]
    """Sum of the frequencies of the stems of each tool."""

    is_surface: NDArray[np.bool_]
    """Whether the term of that number is a word as it is written."""


@dataclass(slots=True)
class _Entry:
    """What is known of one term in one tool."""

    frequency: float = 0.0
    members: int = 0


def index_tools(tools: Sequence[Tool]) -> Postings:
    """Index `tools`, whose names are unique; the order in which they come does not matter."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    numbers: dict[str, int] = {}
    terms, places, frequencies, members = array("i"), array("i"), array("d"), array("B")
    lengths = array("d")
    for place, tool in enumerate(ordered):
        entries, length = _entries(tool)
        lengths.append(length)
        terms.extend([numbers.setdefault(term, len(numbers)) for term in entries])
        places.extend([place] * len(entries))
        frequencies.extend([entry.frequency for entry in entries.values()])
        members.extend([entry.members for entry in entries.values()])
    by_term = np.argsort(np.array(terms, dtype=np.int32), kind="stable")
    return Postings(
        names=tuple(tool.name for tool in ordered),
        terms=numbers,
        starts=np.searchsorted(np.array(terms, dtype=np.int32)[by_term], np.arange(len(numbers) + 1)),
        tools=np.array(places, dtype=np.int32)[by_term],
        frequencies=np.array(frequencies, dtype=np.float64)[by_term],
        members=np.array(members, dtype=np.uint8)[by_term],
        lengths=np.array(lengths, dtype=np.float64),
        is_surface=np.array([term.startswith("=") for term in numbers], dtype=np.bool_),
    )


def _entries(tool: Tool) -> tuple[dict[str, _Entry], float]:
    """Return what each term is in `tool`, and the length of the tool."""
    entries: dict[str, _Entry] = {}
    length = 0.0
    for (member, weight), counts in _counts(tool).items():
        bit = 1 << MEMBERS.index(member)
        for word, count in counts.items():
            counted = weight * min(count, _MOST_COUNTED)
            length += 0 if word in STOP_WORDS else weight * count
            for term in _terms(word):
                entry = entries.setdefault(term, _Entry())
                entry.frequency += counted
                entry.members |= bit
    return entries, length


def _counts(tool: Tool) -> dict[tuple[str, float], Counter[str]]:
    """Count the words of the fields of each kind."""
    counts: dict[tuple[str, float], Counter[str]] = {}
    for field in fields(tool):
        counts.setdefault((field.member, field.weight), Counter()).update(words(field.text))
    return counts


def _terms(word: str) -> tuple[str, ...]:
    """Return the keys of a word: a stop word is kept as it is written, for queries of nothing else."""
    return (surface(word),) if word in STOP_WORDS else (stem(word), surface(word))
