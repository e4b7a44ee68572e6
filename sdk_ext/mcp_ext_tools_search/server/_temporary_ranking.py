"""Stands in until the ranking package has its default ranker."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcp_types import Tool

from mcp_ext_tools_search.ranking import Hit

__all__ = ["FieldedRanker", "with_floor"]


class _Index:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        terms = set(query.casefold().split())
        hits: list[Hit] = []
        for tool in self._tools:
            text = f"{tool.name} {tool.title or ''} {tool.description or ''}".casefold()
            found = sum(term in text for term in terms)
            if found and (visible is None or tool.name in visible):
                hits.append(Hit(tool.name, found / len(terms), ("description",)))
        return sorted(hits, key=lambda hit: (-hit.score, hit.name))


class FieldedRanker:
    """Ranks by the share of terms found."""

    def __call__(self, tools: Sequence[Tool], /) -> _Index:
        """Index `tools`."""
        return _Index(tools)


def with_floor(query: str, tools: Sequence[Tool], hits: Sequence[Hit]) -> list[Hit]:
    """Put the exact name first."""
    name = query.strip()
    exact = [Hit(tool.name, 1.0, ("name",)) for tool in tools if tool.name == name][:1]
    return exact + [hit for hit in hits if not exact or hit.name != name]
