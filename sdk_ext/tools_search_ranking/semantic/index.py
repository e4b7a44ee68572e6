"""The ranker by words and meaning.

Both kinds of scores are converted to z-scores over the visible tools and added (Fox and Shaw's fusion by sums,
"Combination of Multiple Searches", 1994, with standard scores). So a query whose words discriminate well is ranked by
its words, and any other by its meaning. All sums are over integers, so they do not depend on the order of the tools.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import sqrt
from os import PathLike
from typing import Final, TypeAlias

import numpy as np
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.ranking.floor import floored, led_by, named
from mcp_types import Tool
from numpy.typing import NDArray

from tools_search_ranking.confidence import COMPARED, confidence
from tools_search_ranking.hits import LazyHits, names_of
from tools_search_ranking.ranker import FieldedIndex, FieldedRanker, UpdatableIndex, unknown_words
from tools_search_ranking.semantic.embedder import (
    STEPS,
    Embedder,
    SemanticSigns,
    Vectors,
    group_text,
    summary_text,
    tool_text,
)
from tools_search_ranking.semantic.vectors import Entry, VectorStore

UNIT: Final = 1 << 20
"""Steps from 0 to 1 in integer scores."""

_GROUP_PART: Final = 4
"""A tool's own cosine is increased by that of its group divided by this: without effect if all share one group."""

_NEAR: Final = 1.0
"""Standard deviations above the mean from which a tool is found that shares no word with the query."""

_ELSEWHERE: Final = 10
"""Number of nearest tools of `Embedder.others` to average."""

_Entries: TypeAlias = tuple[Entry, Entry, Entry]
"""The vectors of a tool's full text, of its summary, and of its group (or of its full text if it has none)."""


class SemanticRanker:
    """Makes indexes that rank by words and meaning.

    An index answers immediately: by words alone until all tools that a caller may see have vectors, which a thread
    makes. From then on answers may differ, and an earlier cursor is refused if the hits before it have changed. If the
    embedder fails, or does not know a query's language, words alone decide. A failure is logged once.

    If the lexical ranker is a `FieldedRanker` with a `least_confidence`, this minimum applies to words and meaning
    together if the embedder has `weights`, and to words alone whenever only they decide.

    Args:
        embedder: Makes the vectors.
        lexical: Ranks by words; by default `FieldedRanker()`. If its indexes can be updated, so can these.
        folder: Folder in which to store vectors for the next start; `None` to store none.
    """

    is_slow: Final = True
    """A search takes as long as the model, even in a small catalog."""

    keeps_floor: Final = True

    def __init__(
        self, embedder: Embedder, *, lexical: Ranker | None = None, folder: str | PathLike[str] | None = None
    ) -> None:
        self.embedder: Final = embedder
        self._lexical = floored(lexical or FieldedRanker())
        self._store = VectorStore(embedder, folder)

    def __call__(self, tools: Sequence[Tool], /) -> SemanticIndex:
        """Index `tools`, whose names must be unique, without waiting for their vectors."""
        return SemanticIndex(self._store, self._lexical(tools), _entries(self._store, tools))

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until every indexed tool has its vector or the embedder has failed. Return `False` on timeout.

        Args:
            seconds: The timeout; `None` for none.
        """
        return self._store.settle(seconds)


class SemanticIndex:
    """An index of tools that is searched by words, and also by meaning once the vectors are ready.

    A tool's slot is its position in the order of names.
    """

    def __init__(self, store: VectorStore, lexical: ToolIndex, entries: Mapping[str, _Entries]) -> None:
        self._embedder = store.embedder
        self._store = store
        self._lexical = lexical
        self._entries = entries
        self._names = sorted(entries)
        self._slots = {name: slot for slot, name in enumerate(self._names)}
        self._own, self._summaries, self._groups = (
            _TextVectors([entries[name][part] for name in self._names]) for part in range(3)
        )
        if isinstance(lexical, UpdatableIndex):  # otherwise this must not have the attribute `updated`
            self.updated = partial(self._updated, lexical)

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a word with `query` or have a similar meaning, best first.

        They include the tools that the draft's matching floor requires.
        """
        shown, vectors = self._compared(query, visible)
        lexical, weights = self._lexical, self._embedder.weights
        if vectors is None:
            return lexical.search(query, visible=visible)
        if weights is not None and isinstance(lexical, FieldedIndex):
            by_words, words = lexical.judged(query, visible=visible)
            hits, near = self._fused(by_words, shown, vectors)
            found = words and SemanticSigns(*words, *near, self._elsewhere(vectors))
            least = lexical.least_confidence
            if least > 0 and (confidence(found, weights) < least or lexical.says_nothing(query)):
                return lexical.floor(query, visible=visible)
        else:
            hits, _ = self._fused(lexical.search(query, visible=visible), shown, vectors)
        exact = named(query, lambda name: name in self._slots and (visible is None or name in visible))
        return hits if exact is None else led_by(exact, hits)

    def signs(self, query: str, *, visible: Collection[str] | None = None) -> SemanticSigns | None:
        """Return the signs of whether a visible tool serves `query` at all; `None` if meaning does not count."""
        shown, vectors = self._compared(query, visible)
        if vectors is None or not isinstance(self._lexical, FieldedIndex):
            return None
        hits, words = self._lexical.judged(query, visible=visible)
        _, near = self._fused(hits, shown, vectors)
        return words and SemanticSigns(*words, *near, self._elsewhere(vectors))

    def unknown_words(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no visible tool mentions (`WordIndex`), regardless of meaning."""
        return unknown_words(self._lexical, query, visible=visible)

    def _updated(self, lexical: UpdatableIndex, removed: Collection[str], added: Sequence[Tool]) -> SemanticIndex:
        """Return an index without the tools named in `removed` and with `added`. Only the latter are embedded."""
        kept = {name: own for name, own in self._entries.items() if name not in removed}
        return SemanticIndex(self._store, lexical.updated(removed, added), kept | _entries(self._store, added))

    def _compared(self, query: str, visible: Collection[str] | None) -> tuple[NDArray[np.intp], Vectors | None]:
        """Return the slots of the visible tools, and the query's vectors: `None` if words alone decide."""
        shown = np.arange(len(self._names))
        if visible is not None:
            shown = shown[np.fromiter(map(visible.__contains__, self._names), np.bool_, len(self._names))]
        # Check only visible tools: whether others have vectors must make no difference to a caller.
        is_ready = len(shown) and all(part.are_ready(shown) for part in (self._own, self._summaries, self._groups))
        return shown, self._store.query_vectors(query) if is_ready and self._embedder.knows(query) else None

    def _elsewhere(self, vectors: Vectors) -> float:
        """Return how near the query is to the nearest tools of `Embedder.others`."""
        if self._embedder.others is None:
            return 0.0
        near = cosines(self._embedder.others().astype(np.float32), vectors).max(axis=1)
        return float(np.sort(near)[-_ELSEWHERE:].mean()) / UNIT

    def _fused(
        self, hits: Sequence[Hit], shown: NDArray[np.intp], vectors: Vectors
    ) -> tuple[Sequence[Hit], tuple[float, float]]:
        """Return the hits by words and meaning, and two cosines with the query.

        They are the highest of any of the first tools, and that of the tool that is first by words (or, if none has a
        word of the query, first of all).
        """
        found = [self._slots[name] for name in names_of(hits)]
        scores = hits.scores() if isinstance(hits, LazyHits) and hits.scores else [hit.score for hit in hits]
        places = np.full(len(self._names), -1, dtype=np.intp)
        places[found] = np.arange(len(found))
        said = np.zeros(len(self._names), dtype=np.int64)
        said[found] = np.rint(np.array(scores, dtype=np.float64) * UNIT)
        # A long description blurs the tool's purpose, which its summary states.
        own = np.maximum(self._own.cosines(vectors, shown), self._summaries.cosines(vectors, shown))
        # Each sentence of a query may ask for a different tool, so the nearest sentence counts.
        meant = standard_scores((own + self._groups.cosines(vectors, shown) // _GROUP_PART).max(axis=1))
        nearest = own.max(axis=1)
        total = standard_scores(said[shown]) + self._embedder.weight * meant
        fits = (places[shown] >= 0) | ((meant >= _NEAR) & (nearest >= self._embedder.least_cosine * UNIT))
        order = np.flatnonzero(fits)
        order = order[np.argsort(-total[order], kind="stable")]  # ties are broken by slot, and so by name
        if not len(order):
            return (), (0.0, 0.0)
        slots: list[int] = shown[order].tolist()
        least = float(total.min())
        spread = float(total[order[0]]) - least
        shares: list[float] = ((total[order] - least) / spread if spread else np.ones(len(order))).tolist()

        def hit(rank: int) -> Hit:
            place = int(places[slots[rank]])
            return Hit(self._names[slots[rank]], shares[rank], hits[place].matched if place >= 0 else ())

        answer = LazyHits(
            len(slots), lambda: [self._names[slot] for slot in slots], lambda page: [hit(rank) for rank in page]
        )
        first = int(np.searchsorted(shown, found[0])) if found else int(order[0])
        return answer, (int(nearest[order[:COMPARED]].max()) / UNIT, int(nearest[first]) / UNIT)


def _entries(store: VectorStore, tools: Sequence[Tool]) -> dict[str, _Entries]:
    texts = [tool_text(tool) for tool in tools]
    own = store.entries(texts)
    summaries = store.entries([summary_text(tool) or text for tool, text in zip(tools, texts, strict=True)])
    groups = store.entries([group_text(tool) or text for tool, text in zip(tools, texts, strict=True)])
    return dict(zip((tool.name for tool in tools), zip(own, summaries, groups, strict=True), strict=True))


class _TextVectors:
    """Entries by slot, with equal texts stored once. The texts are fixed; the vectors are added later."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        numbers = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
        self._distinct = list(numbers)
        self._which = np.array([numbers[entry] for entry in entries], dtype=np.intp)
        self._vectors: NDArray[np.float32] | None = None

    def are_ready(self, slots: NDArray[np.intp]) -> bool:
        """Return whether all of these slots have vectors."""
        if self._vectors is not None:
            return True
        wanted: list[int] = np.unique(self._which[slots]).tolist()
        return all(self._distinct[number].row is not None for number in wanted)

    def cosines(self, queries: Vectors, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return a row of cosines with `queries` for each of these slots, which must be ready."""
        which = self._which[slots]
        if self._vectors is not None:
            return cosines(self._vectors, queries)[which]
        wanted: list[int] = np.unique(which).tolist()
        rows = [self._distinct[number].row for number in wanted]
        vectors = np.stack([row for row in rows if row is not None])
        if len(wanted) == len(self._distinct):
            self._vectors = vectors.astype(np.float32)
        return cosines(vectors.astype(np.float32), queries)[np.searchsorted(wanted, which)]


def cosines(vectors: NDArray[np.float32], queries: Vectors) -> NDArray[np.int64]:
    """Return a row of cosines with `queries` for each vector, in `UNIT`: exactly the same on every machine."""
    products = vectors @ queries.T.astype(np.float32)
    return products.astype(np.int64) // (STEPS * STEPS // UNIT)


def standard_scores(scores: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many standard deviations each score is above the mean; zeros if all are equal.

    Scores must be at most a few times `UNIT`, and fewer than a million.
    """
    count, total, squares = len(scores), int(scores.sum()), int((scores * scores).sum())
    spread = count * squares - total * total
    return (scores * count - total) / sqrt(spread) if spread > 0 else np.zeros(count)
