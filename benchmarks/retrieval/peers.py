"""Other engines as rankers, each as it is: without the draft's matching floor under it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from mcp_ext_tools_search.ranking import Hit
from mcp_types import Tool

from benchmarks.speed.engines import ENGINES, ENVIRONMENTS, Built

__all__ = ["PEERS", "Peer"]


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
