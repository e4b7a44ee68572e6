"""The draft's matching floor for any ranking (draft: Order and Matching).

Ranking is open, but two rules hold on every server: a query that is a tool's name finds that tool first, and a tool
that has every term of the query is among the matches.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from mcp_types import Tool

from mcp_ext_tools_search.ranking.interface import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.types import WHITE_SPACE

_ASCII_RUN = re.compile(r"[a-z0-9]+")


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, including repetitions (draft: Order and Matching).

    A term is a maximal run of Unicode letters, marks and digits (general categories `L*`, `M*` and `Nd`) after NFKC and
    default case folding.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():  # the same in half the time
        return _ASCII_RUN.findall(folded)
    return "".join(map(_kept_or_space, folded)).split()


def tool_terms(tool: Tool) -> dict[str, frozenset[str]]:
    """Return the terms of each member that the matching floor covers, in definition order."""
    members = {"name": tool.name, "title": tool.title, "description": tool.description}
    return {member: frozenset(terms(text)) for member, text in members.items() if text}


def trimmed(query: str) -> str:
    """Return `query` without surrounding white space, as the draft compares it with names."""
    return query.strip(WHITE_SPACE)


def named(query: str, is_name: Callable[[str], bool]) -> str | None:
    """Return the name that equals `query`, if any, as it is or without surrounding white space."""
    return next(filter(is_name, (query, trimmed(query))), None)


class Floor:
    """The terms of a catalog, whose tools must have unique names, for any number of queries."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._terms = {tool.name: tool_terms(tool) for tool in tools}
        self._having: dict[str, set[str]] = {}
        for name, members in self._terms.items():
            for term in frozenset[str]().union(*members.values()):
                self._having.setdefault(term, set()).add(name)

    def under(self, query: str, hits: Sequence[Hit], visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return `hits` with the floor applied, or the same object if nothing is missing.

        If the query is a tool's name, that tool comes first. Tools that have all terms of the query but were not found
        follow the last hit, ordered by name, with its score.
        """
        wanted = frozenset(terms(query))
        having = [self._having.get(term, set[str]()) for term in wanted]
        matching = set[str].intersection(*having) if having else set[str]()
        matching = {name for name in matching if visible is None or name in visible}
        if missing := sorted(matching.difference(hit.name for hit in hits)):
            score = hits[-1].score if hits else 1.0
            hits = [*hits, *(Hit(name, score, self._matched(name, wanted)) for name in missing)]
        exact = named(query, lambda name: name in self._terms and (visible is None or name in visible))
        return hits if exact is None else led_by(exact, hits)

    def _matched(self, name: str, wanted: frozenset[str]) -> tuple[str, ...]:
        return tuple(member for member, own in self._terms[name].items() if wanted & own)


def floored(ranker: Ranker) -> Ranker:
    """Return a ranker whose indexes implement the matching floor, whatever the order of `ranker`.

    A ranker that already implements the floor is returned unchanged. Raises `TypeError` for anything but a ranker.
    """
    if not callable(ranker) or (isinstance(ranker, type) and not hasattr(ranker, "search")):  # a class of rankers
        raise TypeError(f"ranker must be a Ranker, such as SimpleRanker(), not {ranker!r}")
    return ranker if getattr(ranker, "keeps_floor", False) else lambda tools: _FlooredIndex(Floor(tools), ranker(tools))


def led_by(name: str, hits: Sequence[Hit], member: str = "name") -> Sequence[Hit]:
    """Return `hits` with the one named `name`, which the query equals in `member`, first, found or not."""
    if hits and hits[0].name == name and hits[0].score == 1.0 and member in hits[0].matched:
        return hits
    own = next((hit for hit in hits if hit.name == name), Hit(name, 1.0))
    matched = own.matched if member in own.matched else (member, *own.matched)
    return [own._replace(score=1.0, matched=matched), *(hit for hit in hits if hit.name != name)]


class _FlooredIndex:
    def __init__(self, floor: Floor, index: ToolIndex) -> None:
        self._floor = floor
        self._index = index

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return self._floor.under(query, self._index.search(query, visible=visible), visible)


@lru_cache(maxsize=16_384)
def _kept_or_space(character: str) -> str:
    category = unicodedata.category(character)
    return character if category[0] in "LM" or category == "Nd" else " "
