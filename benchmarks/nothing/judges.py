"""The rankings that know how sure they are, each with the weights that are shipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from mcp_ext_tools_search.ranking import ToolIndex
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.confidence import WEIGHTS, Signs
from tools_search_ranking.semantic.confidence import SemanticSigns
from tools_search_ranking.semantic.minilm import WEIGHTS as SEMANTIC_WEIGHTS

from benchmarks.retrieval.by_meaning import ByMeaning

__all__ = ["JUDGES", "Judge", "Judging", "Numbers", "Weights"]

Numbers: TypeAlias = tuple[float, ...]
Weights: TypeAlias = tuple[float, Numbers]
"""Intercept and slopes of a logistic regression."""


class Judging(ToolIndex, Protocol):
    """An index that can tell how sure it is."""

    def signs(self, query: str) -> Numbers | None:
        """Return what tells whether a tool serves `query` at all; nothing where nothing tells it."""
        ...


@dataclass(frozen=True)
class Judge:
    """A ranking."""

    index: Callable[[Sequence[Tool]], Judging]
    """Indexes tools, and holds nothing back."""

    weights: Weights
    """Those that are shipped."""

    named: Callable[[Numbers], Any]
    """Gives slopes the names of the signs."""


JUDGES: Final[Mapping[str, Judge]] = {
    "fielded": Judge(FieldedRanker(), WEIGHTS, Signs._make),
    "semantic": Judge(ByMeaning(), SEMANTIC_WEIGHTS, SemanticSigns._make),
}
"""By the names that they have in `benchmarks.retrieval`."""
