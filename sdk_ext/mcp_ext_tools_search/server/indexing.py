"""Indexing a catalogue, from scratch or from an index of one that is much like it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import Tool
from pydantic import ValidationError

from mcp_ext_tools_search.ranking import Ranker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.server.catalogue import Catalogue

__all__ = ["Indexed", "indexed"]

_MOST_CHANGED: Final = 0.5
"""Part of the tools that may differ between two catalogues for the index of one to be made from that of the other."""


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
    """What leads from an index to that of another catalogue."""

    kept: Indexed
    index: UpdatableIndex
    removed: frozenset[str]
    added: list[str]

    @property
    def size(self) -> int:
        return max(len(self.removed), len(self.added))


def indexed(catalogue: Catalogue, ranker: Ranker, others: Iterable[Indexed]) -> Indexed:
    """Index `catalogue`: for the price of the difference, where one of `others` is like it and can be updated."""
    most = _MOST_CHANGED * len(catalogue.tools)
    changes = [change for other in others if (change := _change(other, catalogue, most))]
    if not changes:
        tools = _parsed(catalogue.tools.values())
        return Indexed(ranker(tools), {tool.name: catalogue.digests[tool.name] for tool in tools})
    change = min(changes, key=lambda change: change.size)
    tools = _parsed(catalogue.tools[name] for name in change.added)
    digests = {name: digest for name, digest in change.kept.digests.items() if name not in change.removed}
    digests |= {tool.name: catalogue.digests[tool.name] for tool in tools}
    return Indexed(change.index.updated(change.removed, tools), digests)


def _change(other: Indexed, catalogue: Catalogue, most: float) -> _Change | None:
    """Return the change from `other` to `catalogue` if the index can be changed, and in less than `most` tools."""
    old, new = other.digests, catalogue.digests
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
