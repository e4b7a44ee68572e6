"""Ranks by words and, once the tools have vectors, by meaning as well."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from mcp_types import Tool
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking import FieldedRanker, Hit, Ranker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.ranking.hits import LazyHits, names_of, scores_of
from mcp_ext_tools_search.semantic.embedder import Embedder, Vectors
from mcp_ext_tools_search.semantic.fusion import UNIT, standard_scores
from mcp_ext_tools_search.semantic.text_vectors import TextVectors
from mcp_ext_tools_search.semantic.texts import group_text, tool_text
from mcp_ext_tools_search.semantic.vector_store import Entry, VectorStore

__all__ = ["SemanticRanker"]

_WEIGHT: Final = 1.5
"""What meaning counts, where words count 1."""

_GROUP_PART: Final = 2
"""The meaning of a tool's group counts one part in so many of its own; where all have one group it changes nothing."""

_NEAR: Final = 1.0
"""Standard deviations above the mean from which on a tool is found that shares no word with the query."""


class SemanticRanker:
    """Makes indexes that rank by words and meaning.

    An index answers at once: by words alone until all tools that a caller may see have vectors, which are made in a
    thread. From then on answers differ, and a cursor from before is refused if what it has shown does. Where
    the embedder fails, or does not know the language of a query, words alone decide; a failure is logged once.

    Args:
        embedder: Makes the vectors.
        lexical: Ranks by words; by default `FieldedRanker()`. Where its indexes can be updated these can.
        folder: Where vectors are kept for the next start; `None` for nowhere.
    """

    is_slow: Final = True
    """A search takes as long as the model, however small the catalogue is."""

    def __init__(self, embedder: Embedder, *, lexical: Ranker | None = None, folder: Path | None = None) -> None:
        self._embedder = embedder
        self._lexical = lexical or FieldedRanker()
        self._store = VectorStore(embedder, folder)

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        """Index `tools`, whose names are unique; that their vectors are made is not waited for."""
        return _indexed(self._embedder, self._store, self._lexical(tools), _entries(self._store, tools))

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until every tool that is indexed has its vector or the embedder has failed; return whether that came.

        Args:
            seconds: How long to wait at most; `None` for ever.
        """
        return self._store.settle(seconds)


_Entries: TypeAlias = tuple[Entry, Entry]
"""Of a tool's own text, and of its group or else of its own text again."""


class _SemanticIndex:
    def __init__(
        self, embedder: Embedder, store: VectorStore, lexical: ToolIndex, entries: Mapping[str, _Entries]
    ) -> None:
        self._embedder = embedder
        self._store = store
        self._lexical = lexical
        self._names = sorted(entries)
        self._slots = {name: slot for slot, name in enumerate(self._names)}
        self._own = TextVectors([entries[name][0] for name in self._names])
        self._groups = TextVectors([entries[name][1] for name in self._names])

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a word with `query`, and those that mean much the same, best first."""
        hits = self._lexical.search(query, visible=visible)
        shown = self._shown(visible)
        if not len(shown) or not self._embedder.knows(query):
            return hits
        # Only of the visible tools: whether others have vectors makes no difference to what a caller gets.
        if not self._own.are_ready(shown) or not self._groups.are_ready(shown):
            return hits
        asked = self._store.query_vectors(query)
        return hits if asked is None else self._fused(hits, shown, asked)

    def _shown(self, visible: Collection[str] | None) -> NDArray[np.intp]:
        """Return the slots of the visible tools, which are in the order of names."""
        if visible is None:
            return np.arange(len(self._names))
        return np.flatnonzero(np.fromiter(map(visible.__contains__, self._names), np.bool_, len(self._names)))

    def _fused(self, hits: Sequence[Hit], shown: NDArray[np.intp], asked: Vectors) -> Sequence[Hit]:
        """Return the answer from that of the words and the vectors of the visible tools."""
        places = np.full(len(self._names), -1, dtype=np.intp)
        found = [self._slots[name] for name in names_of(hits)]
        places[found] = np.arange(len(found))
        said = np.zeros(len(self._names), dtype=np.int64)
        said[found] = np.rint(np.asarray(scores_of(hits)) * UNIT)
        own = self._own.cosines(asked, shown)
        # Of the sentences of a query, each of which may ask for another tool, the nearest counts.
        meant = standard_scores((own + self._groups.cosines(asked, shown) // _GROUP_PART).max(axis=1))
        total = standard_scores(said[shown]) + _WEIGHT * meant
        fits = (places[shown] >= 0) | ((meant >= _NEAR) & (own.max(axis=1) >= self._embedder.least_cosine * UNIT))
        order = np.flatnonzero(fits)
        order = order[np.argsort(-total[order], kind="stable")]  # slots are in the order of names, which break ties
        if not len(order):
            return ()
        slots, least = _whole(shown[order]), float(total.min())
        spread = float(total[order[0]]) - least
        shares: list[float] = ((total[order] - least) / spread if spread else np.ones(len(order))).tolist()

        def hit(rank: int) -> Hit:
            place = int(places[slots[rank]])
            return Hit(self._names[slots[rank]], shares[rank], hits[place].matched if place >= 0 else ())

        fitting = frozenset(slots)
        return LazyHits(
            len(slots),
            lambda: [self._names[slot] for slot in slots],
            lambda page: [hit(rank) for rank in page],
            finds=lambda name: self._slots.get(name, -1) in fitting,
            scores=lambda: shares,
        )


class _UpdatableSemanticIndex(_SemanticIndex):
    def __init__(
        self, embedder: Embedder, store: VectorStore, lexical: UpdatableIndex, entries: Mapping[str, _Entries]
    ) -> None:
        super().__init__(embedder, store, lexical, entries)
        self._updatable = lexical

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> ToolIndex:
        """Return an index without the tools named in `removed` and with `added`, which alone are embedded."""
        all_entries = zip(self._names, self._own.entries, self._groups.entries, strict=True)
        kept = {name: (own, group) for name, own, group in all_entries if name not in removed}
        entries = kept | _entries(self._store, added)
        return _indexed(self._embedder, self._store, self._updatable.updated(removed, added), entries)


def _indexed(embedder: Embedder, store: VectorStore, lexical: ToolIndex, entries: Mapping[str, _Entries]) -> ToolIndex:
    if isinstance(lexical, UpdatableIndex):
        return _UpdatableSemanticIndex(embedder, store, lexical, entries)
    return _SemanticIndex(embedder, store, lexical, entries)


def _entries(store: VectorStore, tools: Sequence[Tool]) -> dict[str, _Entries]:
    texts = [tool_text(tool) for tool in tools]
    own = store.entries(texts)
    groups = store.entries([group_text(tool) or text for tool, text in zip(tools, texts, strict=True)])
    return {tool.name: (text, group) for tool, text, group in zip(tools, own, groups, strict=True)}


def _whole(numbers: NDArray[np.intp]) -> list[int]:
    return numbers.tolist()
