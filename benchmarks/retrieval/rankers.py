"""Rankers by name: ours as on a server, many servers merged as by a client, and other engines as they are.

Ours include the draft's matching floor; other engines do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from mcp_ext_tools_search.ranking import Hit, Ranker, SimpleRanker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker
from tools_search_ranking.extras import MissingExtraError
from tools_search_ranking.semantic import Embedder, SemanticRanker
from tools_search_ranking.semantic.index import SemanticIndex
from tools_search_ranking.semantic.minilm import minilm
from tools_search_ranking.semantic.universal import universal

from benchmarks.retrieval.federation import ORDERS, federated
from benchmarks.retrieval.fitting import Judging
from benchmarks.speed.engines import ENGINES, ENVIRONMENTS, Built

_VECTORS: Final = Path.home() / ".cache" / "tools-search-benchmark"
"""Cache folder for vectors, so that only the first run has to compute them."""


def can_rank_by_meaning() -> bool:
    """Return whether the extra is installed."""
    try:
        minilm()
    except MissingExtraError:
        return False
    return True


@cache
def _embedder(make: Callable[[], Embedder]) -> Embedder:
    try:
        model = make()
    except MissingExtraError as error:
        raise click.ClickException(str(error)) from None

    @cache
    def remembered(texts: tuple[str, ...]) -> NDArray[Any]:
        return (model.embed_queries or model.embed)(texts)

    def embed_once(texts: Sequence[str], /) -> NDArray[Any]:  # the same request goes to several indexes
        return remembered(tuple(texts))

    return replace(model, embed_queries=embed_once)


def semantic(
    least_confidence: float, model: Callable[[], Embedder] = minilm
) -> Callable[[Sequence[Tool]], SemanticIndex]:
    """Return a ranker by words and meaning whose indexes wait until all tools have vectors."""

    def index(tools: Sequence[Tool], /) -> SemanticIndex:
        ranker = SemanticRanker(
            _embedder(model), lexical=FieldedRanker(least_confidence=least_confidence), folder=_VECTORS
        )
        made = ranker(tools)
        ranker.settle()
        return made

    return index


JUDGING: Final[Mapping[str, Callable[[float], Callable[[Sequence[Tool]], Judging]]]] = {
    "fielded": lambda least: FieldedRanker(least_confidence=least),
    "semantic": semantic,
}
"""Rankers that find nothing below a confidence threshold, by threshold; without the floor."""


@dataclass(frozen=True)
class Peer:
    """Another engine's index, which returns the ten best tools."""

    engine: Built

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the engine's hits; only searches of the whole catalog are supported."""
        if visible is not None:
            raise ValueError("a peer searches the whole catalog")
        names = self.engine.search(query)
        return [Hit(name, 1 - place / len(names)) for place, name in enumerate(names)]


def _peer(make: Callable[[Sequence[Tool]], Built]) -> Ranker:
    return lambda tools: Peer(make(tools))


PEERS: Final[Mapping[str, Ranker]] = {
    name: _peer(make) for name, make in ENGINES.items() if name != "fielded" and name not in ENVIRONMENTS
}
"""The peers, by their names in `benchmarks.speed`; each is loaded on demand."""

RANKERS: Final[Mapping[str, Ranker]] = {
    **{
        name + suffix: floored(make(least))
        for name, make in JUDGING.items()
        for suffix, least in (("", DEFAULT_LEAST_CONFIDENCE), ("-never-silent", 0.0))
    },
    "multilingual-never-silent": semantic(0.0, universal),
    "simple": floored(SimpleRanker()),
    **{f"federated: {order}": federated(merge) for order, merge in ORDERS.items()},
    **PEERS,
}
