"""Indexing a catalog, from scratch or from an index of one that is much like it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_ext_tools_search.ranking import Ranker, ToolIndex, UpdatableIndex
from mcp_types import Tool
from pydantic import ValidationError

from tools_search_ranking.catalog import CatalogSnapshot

__all__ = ["Indexed", "indexed"]

_MOST_CHANGED: Final = 0.5
"""Part of the tools that may differ between two catalogs for the index of one to be made from that of the other."""


@dataclass(slots=True)
class Indexed:
    """An index and what it was made of."""

    index: ToolIndex
    digests: Mapping[str, bytes]
    """What the content of each of its tools is known by."""

    last_seconds: float = math.inf
    """What the last search in it took of the processor."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What leads from an index to that of another catalog."""

    kept: Indexed
    index: UpdatableIndex
    removed: frozenset[str]
    added: list[str]

    @property
    def size(self) -> int:
        return max(len(self.removed), len(self.added))


def indexed(catalog: CatalogSnapshot, ranker: Ranker, others: Iterable[Indexed]) -> Indexed:
    """Index `catalog`: for the price of the difference, where one of `others` is like it and can be updated."""
    most = _MOST_CHANGED * len(catalog.tools)
    changes = [change for other in others if (change := _change(other, catalog, most))]
    if not changes:
        tools = _parsed(catalog.tools.values())
        return Indexed(ranker(tools), {tool.name: catalog.digests[tool.name] for tool in tools})
    change = min(changes, key=lambda change: change.size)
    tools = _parsed(catalog.tools[name] for name in change.added)
    digests = {name: digest for name, digest in change.kept.digests.items() if name not in change.removed}
    digests |= {tool.name: catalog.digests[tool.name] for tool in tools}
    return Indexed(change.index.updated(change.removed, tools), digests)


def _change(other: Indexed, catalog: CatalogSnapshot, most: float) -> _Change | None:
    """Return the change from `other` to `catalog` if the index can be changed, and in less than `most` tools."""
    old, new = other.digests, catalog.digests
    if not isinstance(other.index, UpdatableIndex) or abs(len(old) - len(new)) >= most:
        return None
    removed = frozenset(name for name, digest in old.items() if new.get(name) != digest)
    added = [name for name, digest in new.items() if old.get(name) != digest]
    change = _Change(other, other.index, removed, added)
    return change if change.size < most else None


def _parsed(tools: Iterable[dict[str, Any]]) -> list[Tool]:
    """Return the definitions as the ranker wants them, without those that are no valid tool."""
    parsed: list[Tool] = []
    for tool in tools:
        try:
            parsed.append(Tool.model_validate(tool, by_name=False))
        except ValidationError:
            continue
    return parsed
