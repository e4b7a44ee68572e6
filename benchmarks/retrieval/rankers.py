"""Rankers by name: ours, ours with meaning, and other engines as they are, without the matching floor of the draft."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import click
from mcp_ext_tools_search.ranking import Hit
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking import FieldedRanker
from tools_search_ranking.semantic import Embed, Embedder, SemanticRanker
from tools_search_ranking.semantic.index import SemanticIndex
from tools_search_ranking.semantic.minilm import MissingExtraError, minilm

from benchmarks.speed.engines import ENGINES, ENVIRONMENTS, Built

_FOLDER: Final = Path.home() / ".cache" / "tools-search-benchmark"
"""Where the vectors are kept from one run to the next, so that only the first has to make them."""


def can_rank_by_meaning() -> bool:
    """Return whether the extra is installed."""
    try:
        minilm()
    except MissingExtraError:
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
        except MissingExtraError as error:
            raise click.ClickException(str(error)) from None
        return replace(model, embed_queries=_once(model.embed))


def _once(embed: Embed) -> Embed:
    @cache
    def remembered(texts: tuple[str, ...]) -> NDArray[Any]:
        return embed(texts)

    return lambda texts: remembered(tuple(texts))


class Peer:
    """An index of another engine.

    Args:
        engine: The engine, with its catalog; it answers with the ten best.
    """

    def __init__(self, engine: Built) -> None:
        self._engine = engine

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return what the engine finds; only a whole catalog is searched here."""
        if visible is not None:
            raise ValueError("a peer searches the whole catalog")
        names = self._engine.search(query)
        return [Hit(name, 1 - place / len(names)) for place, name in enumerate(names)]


def _ranker(make: Callable[[Sequence[Tool]], Built]) -> Callable[[Sequence[Tool]], Peer]:
    return lambda tools: Peer(make(tools))


PEERS: Final[Mapping[str, Callable[[Sequence[Tool]], Peer]]] = {
    name: _ranker(make) for name, make in ENGINES.items() if name != "fielded" and name not in ENVIRONMENTS
}
"""By the names that they have in `benchmarks.speed`, once each; each is loaded when it is asked for."""
