"""Ranks by words and, once the tools have vectors, by meaning as well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mcp_ext_tools_search.ranking import Ranker
from mcp_types import Tool

from tools_search_ranking import FieldedRanker
from tools_search_ranking.semantic.embedder import Embedder
from tools_search_ranking.semantic.index import SemanticIndex, indexed
from tools_search_ranking.semantic.vector_store import VectorStore

__all__ = ["SemanticRanker"]


class SemanticRanker:
    """Makes indexes that rank by words and meaning.

    An index answers at once: by words alone until all tools that a caller may see have vectors, which are made in a
    thread. From then on answers differ, and a cursor from before is refused if what it has shown does. Where
    the embedder fails, or does not know the language of a query, words alone decide; a failure is logged once.

    Where the ranker by words is a `FieldedRanker` with a `least_confidence`, that bound holds for words and meaning
    together if the embedder has `weights` for it, and for words alone wherever these decide.

    Args:
        embedder: Makes the vectors.
        lexical: Ranks by words; by default `FieldedRanker()`. Where its indexes can be updated these can.
        folder: Where vectors are kept for the next start; `None` for nowhere.
    """

    is_slow: Final = True
    """A search takes as long as the model, however small the catalog is."""

    def __init__(self, embedder: Embedder, *, lexical: Ranker | None = None, folder: Path | None = None) -> None:
        self._embedder = embedder
        self._lexical = lexical or FieldedRanker()
        self._store = VectorStore(embedder, folder)

    def __call__(self, tools: Sequence[Tool], /) -> SemanticIndex:
        """Index `tools`, whose names are unique; that their vectors are made is not waited for."""
        return indexed(self._embedder, self._store, self._lexical(tools), tools)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until every tool that is indexed has its vector or the embedder has failed; return whether that came.

        Args:
            seconds: How long to wait at most; `None` for ever.
        """
        return self._store.settle(seconds)
