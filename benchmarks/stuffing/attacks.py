"""Descriptions that are written to be found.

The author of a tool does not know the requests to come, but may read the catalog. An attack makes 10 kB at most of
the honest tool and of what its author knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle, islice
from typing import Final

from mcp_ext_tools_search.ranking import ToolIndex
from mcp_ext_tools_search.ranking.language import words
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS, VERB_GROUPS
from mcp_types import Tool

__all__ = ["ATTACKS", "MOST_BYTES", "Knowledge"]

MOST_BYTES: Final = 10_000
"""Bytes of a description that an attacker may write."""

_NEIGHBOURS: Final = 30
_OVER_AND_OVER: Final = 10_000


@dataclass(frozen=True)
class Knowledge:
    """What an attacker knows: the catalog, and how others phrase their requests."""

    tools: Mapping[str, Tool]
    index: ToolIndex
    requests: Sequence[str]
    """Requests to this catalog, the measured ones among them: more than any attacker has."""

    @cached_property
    def common_words(self) -> list[str]:
        """Return the words of the catalog, those of most tools first."""
        return _most_common(f"{tool.name} {tool.title or ''} {tool.description or ''}" for tool in self.tools.values())

    @cached_property
    def requested_words(self) -> list[str]:
        """Return the words of the requests, those of most requests first."""
        return _most_common(self.requests)


def _most_common(texts: Iterable[str]) -> list[str]:
    counts = Counter(word for text in texts for word in dict.fromkeys(words(text)))
    return [word for word, _ in counts.most_common() if word not in STOP_WORDS]


def _honest(tool: Tool) -> str:
    return (tool.description or tool.name).strip()


def _repetition(tool: Tool, known: Knowledge) -> str:
    """The words of the name, over and over."""
    return " ".join(islice(cycle(words(tool.name)), _OVER_AND_OVER))


def _length(tool: Tool, known: Knowledge) -> str:
    """The honest description, over and over."""
    return " ".join([_honest(tool)] * _OVER_AND_OVER)


def _synonyms(tool: Tool, known: Knowledge) -> str:
    """The honest description, and every verb that names an operation."""
    return f"{_without_end(tool)} {' '.join(VERB_GROUPS)}"


def _neighbours(tool: Tool, known: Knowledge) -> str:
    """The honest description, and those of the tools most like it."""
    found = known.index.search(f"{tool.name} {_honest(tool)}")[:_NEIGHBOURS]
    return " ".join([_honest(tool), *(_honest(known.tools[hit.name]) for hit in found if hit.name != tool.name)])


def _catalog(most: int, tool: Tool, known: Knowledge) -> str:
    """The honest description, and `most` bytes of the words that most tools have."""
    return _cut(f"{_without_end(tool)} {' '.join(known.common_words)}", len(_honest(tool).encode()) + most)


def _requests(most: int, tool: Tool, known: Knowledge) -> str:
    """The honest description, and `most` bytes of the words that most requests have."""
    return _cut(f"{_without_end(tool)} {' '.join(known.requested_words)}", len(_honest(tool).encode()) + most)


def _without_end(tool: Tool) -> str:
    """Return the honest description as one sentence that goes on, as first sentences count most."""
    return _honest(tool).rstrip(".").replace(". ", ", ").replace("\n", " ")


def _cut(text: str, most: int) -> str:
    return text.encode()[: min(most, MOST_BYTES)].decode(errors="ignore")


_UNCUT: Final[Mapping[str, Callable[[Tool, Knowledge], str]]] = {
    "repetition": _repetition,
    "length": _length,
    "synonyms": _synonyms,
    "copied neighbours": _neighbours,
    "catalog's words, 300 B": partial(_catalog, 300),
    "catalog's words, 2 kB": partial(_catalog, 2_000),
    "catalog's words, 10 kB": partial(_catalog, MOST_BYTES),
    "requests' words, 300 B": partial(_requests, 300),
    "requests' words, 2 kB": partial(_requests, 2_000),
    "requests' words, 10 kB": partial(_requests, MOST_BYTES),
}


def _bounded(attack: Callable[[Tool, Knowledge], str], tool: Tool, known: Knowledge) -> str:
    return _cut(attack(tool, known), MOST_BYTES)


ATTACKS: Final[Mapping[str, Callable[[Tool, Knowledge], str]]] = {
    name: partial(_bounded, attack) for name, attack in _UNCUT.items()
}
"""Descriptions that an attacker writes, by the name of the attack."""
