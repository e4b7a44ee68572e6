"""The ranking of the extra [semantic], as a server has it once the vectors are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import click
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking import FieldedRanker
from tools_search_ranking.semantic import Embed, Embedder, SemanticRanker
from tools_search_ranking.semantic.index import SemanticIndex
from tools_search_ranking.semantic.minilm import MissingExtra, minilm

__all__ = ["ByMeaning", "can_rank_by_meaning"]

_FOLDER: Final = Path.home() / ".cache" / "tools-search-benchmark"
"""Where the vectors are kept from one run to the next, so that only the first has to make them."""


def can_rank_by_meaning() -> bool:
    """Tell whether the extra is installed."""
    try:
        minilm()
    except MissingExtra:
        return False
    return True


class ByMeaning:
    """A ranker whose indexes have all their vectors, and that embeds a request once for all of them.

    Args:
        least_confidence: Where it is less likely that any tool serves a request, nothing is found.
    """

    def __init__(self, *, least_confidence: float = 0.0) -> None:
        self._least_confidence = least_confidence

    def __call__(self, tools: Sequence[Tool], /) -> SemanticIndex:
        """Index `tools` and wait until all have vectors.

        Raises:
            click.ClickException: The extra is not installed.
        """
        lexical = FieldedRanker(least_confidence=self._least_confidence)
        ranker = SemanticRanker(self._embedder, lexical=lexical, folder=_FOLDER)
        index = ranker(tools)
        ranker.settle()
        return index

    @cached_property
    def _embedder(self) -> Embedder:
        try:
            model = minilm()
        except MissingExtra as error:
            raise click.ClickException(str(error)) from None
        return replace(model, embed_queries=_once(model.embed))


def _once(embed: Embed) -> Embed:
    @cache
    def remembered(texts: tuple[str, ...]) -> NDArray[Any]:
        return embed(texts)

    return lambda texts: remembered(tuple(texts))
