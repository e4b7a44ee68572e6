"""Tools that are searched by words and, once they have vectors, by meaning as well."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from mcp_ext_tools_search.ranking import Hit, ToolIndex, UpdatableIndex
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.confidence import COMPARED, confidence
from tools_search_ranking.fielded import FieldedIndex
from tools_search_ranking.hits import LazyHits, names_of, scores_of
from tools_search_ranking.semantic.confidence import SemanticSigns
from tools_search_ranking.semantic.embedder import Embedder, Vectors
from tools_search_ranking.semantic.fusion import UNIT, standard_scores
from tools_search_ranking.semantic.text_vectors import TextVectors
from tools_search_ranking.semantic.texts import group_text, tool_text
from tools_search_ranking.semantic.vector_store import Entry, VectorStore

__all__ = ["SemanticIndex", "indexed"]

_WEIGHT: Final = 1.5
"""What meaning counts, where words count 1."""

_GROUP_PART: Final = 2
"""The meaning of a tool's group counts one part in so many of its own; where all have one group it changes nothing."""

_NEAR: Final = 1.0
"""Standard deviations above the mean from which on a tool is found that shares no word with the query."""

_Entries: TypeAlias = tuple[Entry, Entry]
"""Of a tool's own text, and of its group or else of its own text again."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query that is ranked by meaning."""

    shown: NDArray[np.intp]
    """Slots of the visible tools, which are in the order of names: one at least."""

    vectors: Vectors


class SemanticIndex:
    """Tools ready to be searched by words, and by meaning when their vectors are there."""

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
        asked = self._asked(query, visible)
        if asked is None:
            return self._lexical.search(query, visible=visible)
        weights = self._embedder.weights
        if weights is None or not isinstance(self._lexical, FieldedIndex):
            return self._fused(self._lexical.search(query, visible=visible), asked)[0]
        hits, found = self._judged(self._lexical, query, visible, asked)
        least = self._lexical.least_confidence
        return hits if least == 0 or confidence(found, weights) >= least else ()

    def signs(self, query: str, *, visible: Collection[str] | None = None) -> SemanticSigns | None:
        """Return what tells whether a visible tool serves `query` at all; nothing where meaning does not tell it."""
        asked = self._asked(query, visible)
        if asked is None or not isinstance(self._lexical, FieldedIndex):
            return None
        return self._judged(self._lexical, query, visible, asked)[1]

    def _asked(self, query: str, visible: Collection[str] | None) -> _Asked | None:
        """Return what to compare with the tools; nothing where words alone decide."""
        shown = self._shown(visible)
        if not len(shown) or not self._embedder.knows(query):
            return None
        # Only of the visible tools: whether others have vectors makes no difference to what a caller gets.
        if not self._own.are_ready(shown) or not self._groups.are_ready(shown):
            return None
        vectors = self._store.query_vectors(query)
        return None if vectors is None else _Asked(shown, vectors)

    def _shown(self, visible: Collection[str] | None) -> NDArray[np.intp]:
        if visible is None:
            return np.arange(len(self._names))
        return np.flatnonzero(np.fromiter(map(visible.__contains__, self._names), np.bool_, len(self._names)))

    def _judged(
        self, lexical: FieldedIndex, query: str, visible: Collection[str] | None, asked: _Asked
    ) -> tuple[Sequence[Hit], SemanticSigns | None]:
        """Return what is found where nothing is held back, and the signs of whether it serves `query` at all."""
        by_words, words = lexical.judged(query, visible=visible)
        hits, cosine = self._fused(by_words, asked)
        return hits, words and SemanticSigns(*words, cosine, len(asked.vectors))

    def _fused(self, hits: Sequence[Hit], asked: _Asked) -> tuple[Sequence[Hit], float]:
        """Return the answer from that of the words, and the nearest that one of the first tools comes to the query."""
        shown = asked.shown
        places = np.full(len(self._names), -1, dtype=np.intp)
        found = [self._slots[name] for name in names_of(hits)]
        places[found] = np.arange(len(found))
        said = np.zeros(len(self._names), dtype=np.int64)
        said[found] = np.rint(np.asarray(scores_of(hits)) * UNIT)
        own = self._own.cosines(asked.vectors, shown)
        # Of the sentences of a query, each of which may ask for another tool, the nearest counts.
        meant = standard_scores((own + self._groups.cosines(asked.vectors, shown) // _GROUP_PART).max(axis=1))
        nearest = own.max(axis=1)
        total = standard_scores(said[shown]) + _WEIGHT * meant
        fits = (places[shown] >= 0) | ((meant >= _NEAR) & (nearest >= self._embedder.least_cosine * UNIT))
        order = np.flatnonzero(fits)
        order = order[np.argsort(-total[order], kind="stable")]  # slots are in the order of names, which break ties
        if not len(order):
            return (), 0.0
        slots, least = _whole(shown[order]), float(total.min())
        spread = float(total[order[0]]) - least
        shares: list[float] = ((total[order] - least) / spread if spread else np.ones(len(order))).tolist()

        def hit(rank: int) -> Hit:
            place = int(places[slots[rank]])
            return Hit(self._names[slots[rank]], shares[rank], hits[place].matched if place >= 0 else ())

        fitting = frozenset(slots)
        answer = LazyHits(
            len(slots),
            lambda: [self._names[slot] for slot in slots],
            lambda page: [hit(rank) for rank in page],
            finds=lambda name: self._slots.get(name, -1) in fitting,
            scores=lambda: shares,
        )
        return answer, int(nearest[order[:COMPARED]].max()) / UNIT


class _UpdatableSemanticIndex(SemanticIndex):
    def __init__(
        self, embedder: Embedder, store: VectorStore, lexical: UpdatableIndex, entries: Mapping[str, _Entries]
    ) -> None:
        super().__init__(embedder, store, lexical, entries)
        self._updatable = lexical

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> SemanticIndex:
        """Return an index without the tools named in `removed` and with `added`, which alone are embedded."""
        all_entries = zip(self._names, self._own.entries, self._groups.entries, strict=True)
        kept = {name: (own, group) for name, own, group in all_entries if name not in removed}
        lexical = self._updatable.updated(removed, added)
        return _indexed(self._embedder, self._store, lexical, kept | _entries(self._store, added))


def indexed(embedder: Embedder, store: VectorStore, lexical: ToolIndex, tools: Sequence[Tool]) -> SemanticIndex:
    """Return the index of `tools`, whose words `lexical` has; it can be updated where that can."""
    return _indexed(embedder, store, lexical, _entries(store, tools))


def _indexed(
    embedder: Embedder, store: VectorStore, lexical: ToolIndex, entries: Mapping[str, _Entries]
) -> SemanticIndex:
    if isinstance(lexical, UpdatableIndex):
        return _UpdatableSemanticIndex(embedder, store, lexical, entries)
    return SemanticIndex(embedder, store, lexical, entries)


def _entries(store: VectorStore, tools: Sequence[Tool]) -> dict[str, _Entries]:
    texts = [tool_text(tool) for tool in tools]
    own = store.entries(texts)
    groups = store.entries([group_text(tool) or text for tool, text in zip(tools, texts, strict=True)])
    return {tool.name: (text, group) for tool, text, group in zip(tools, own, groups, strict=True)}


def _whole(numbers: NDArray[np.intp]) -> list[int]:
    return numbers.tolist()
