"""The vectors of all texts that some index holds, made in a thread of their own.

A text has one vector, whichever indexes hold it. Whoever asks never waits for a tool to be embedded.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from weakref import ReferenceType, WeakValueDictionary, finalize, ref

from tools_search_ranking.semantic.embedder import STEPS, Embedder, EmbedderError, Vectors
from tools_search_ranking.semantic.kept_vectors import MOST_VECTORS, KeptVectors, text_digest
from tools_search_ranking.semantic.texts import query_texts

__all__ = ["Entry", "VectorStore"]

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 8
"""Texts that are embedded together: a query waits for that many at most."""

_POLITE_SECONDS: Final = 1.0
"""How long queries are let go first, so that tools get their vectors even if queries never end."""

_SAVED_EVERY: Final = 1_000
"""Vectors after which they are written to disk, so that little is lost when the process ends before all are made."""

_FAREWELL_SECONDS: Final = 2.0
"""How long the end of the process waits for what is being embedded."""

_QUERIES: Final = 256
"""Queries whose vectors are remembered: those of the pages of one search."""

_SAME: Final = 0.99
"""Least cosine of two vectors that one model made of one text, on two machines."""


class Entry:
    """A text and, once it is made, its vector."""

    __slots__ = ("__weakref__", "digest", "is_queued", "row", "text")

    def __init__(self, text: str, digest: bytes) -> None:
        self.text = text
        self.digest = digest
        self.row: Vectors | None = None
        self.is_queued = False


class VectorStore:
    """Makes vectors and hands them out.

    Args:
        embedder: Makes them.
        folder: Where they are kept for the next start; `None` for nowhere.
    """

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        self._embedder = embedder
        self._kept = None if folder is None else KeptVectors(embedder.name, folder)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._entries = WeakValueDictionary[bytes, Entry]()
        self._queue = deque[ReferenceType[Entry]]()
        self._is_working = False
        self._has_complained = False
        self._queries = OrderedDict[str, Vectors]()
        self._asking = 0
        # These belong to the working thread.
        self._known = OrderedDict[bytes, Vectors]()
        self._unproved: dict[bytes, Vectors] | None = None
        self._unsaved = 0
        self._trusts_file = True
        # Whoever holds this calls the embedder, and compares the length of its vectors.
        self._model = threading.Lock()
        self._numbers: int | None = None
        self._farewell = threading.Event()
        finalize(self, _end, self._farewell, self._model)

    def entries(self, texts: Sequence[str]) -> list[Entry]:
        """Return the entries of `texts`; those without a vector get theirs later."""
        found: list[Entry] = []
        with self._lock:
            for text in texts:
                digest = text_digest(text)
                entry = self._entries.get(digest)
                if entry is None:
                    entry = self._entries[digest] = Entry(text, digest)
                if entry.row is None and not entry.is_queued:
                    entry.is_queued = True
                    self._queue.append(ref(entry))
                found.append(entry)
            if self._queue and not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="embedding of tools", daemon=True).start()
        return found

    def query_vectors(self, query: str) -> Vectors | None:
        """Return the vectors of the sentences of `query`, or `None` where the embedder fails."""
        with self._changed:
            if query in self._queries:
                self._queries.move_to_end(query)
                return self._queries[query]
            self._asking += 1
        try:
            with self._model:
                vectors = self._even(self._embedder.query_vectors(query_texts(query)))
        except EmbedderError as error:
            self._complain(error)
            return None
        finally:
            with self._changed:
                self._asking -= 1
                self._changed.notify_all()
        with self._changed:
            self._queries[query] = vectors
            if len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        return vectors

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until nothing is left to embed, and return whether that has come."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_working, seconds)

    def _work(self) -> None:
        """Give each queued text its vector, until none is left or the embedder fails."""
        try:
            while not self._farewell.is_set():
                batch = self._next()
                self._give(batch)
                if not batch or self._unsaved >= _SAVED_EVERY:
                    self._save()
                if not batch and self._ended():
                    return
        except EmbedderError as error:
            self._complain(error)
            self._ended(gave_up=True)
        except BaseException:
            self._ended(gave_up=True)
            raise

    def _next(self) -> list[Entry]:
        """Return a few entries that are still wanted, or nothing where no more are."""
        batch: list[Entry] = []
        with self._changed:
            self._changed.wait_for(lambda: not self._asking, _POLITE_SECONDS)
            while self._queue and len(batch) < _AT_ONCE:
                entry = self._queue.popleft()()
                if entry is not None:
                    batch.append(entry)
        return batch

    def _ended(self, *, gave_up: bool = False) -> bool:
        """Say that the work is over, unless more has come; what was given up is queued again by the next index."""
        with self._changed:
            if gave_up:
                self._queue.clear()
                for entry in list(self._entries.values()):
                    entry.is_queued = entry.row is not None
            if not self._queue:
                self._is_working = False
                self._changed.notify_all()
            return not self._is_working

    def _give(self, batch: Sequence[Entry]) -> None:
        self._prove(batch)
        rows = {entry.digest: self._known[entry.digest] for entry in batch if entry.digest in self._known}
        missing = [entry for entry in batch if entry.digest not in rows]
        if missing:
            with self._model:
                made = self._even(self._embedder.vectors([entry.text for entry in missing]))
            rows |= {entry.digest: row for entry, row in zip(missing, made, strict=True)}
            self._unsaved += len(missing)
        for entry in batch:
            entry.row = self._known[entry.digest] = rows[entry.digest]
            self._known.move_to_end(entry.digest)
            entry.text = ""  # which is not needed any more
        while len(self._known) > MOST_VECTORS:
            self._known.popitem(last=False)

    def _prove(self, batch: Sequence[Entry]) -> None:
        """Take over what was kept on disk once the embedder has made one of its vectors again.

        That tells a file that another model of the same name wrote, and has the model loaded before a query needs it.
        """
        if self._unproved is None:
            self._unproved = {} if self._kept is None else self._kept.load()
        entry = next((entry for entry in batch if entry.digest in self._unproved), None)
        if entry is None:
            return
        kept, self._unproved = self._unproved, {}
        with self._model:
            made = self._even(self._embedder.vectors([entry.text]))[0]
        own = kept[entry.digest]
        if own.shape == made.shape and int(own.astype(int) @ made.astype(int)) >= _SAME * STEPS * STEPS:
            self._known = OrderedDict(kept | self._known)
        else:
            self._trusts_file = False
            logger.warning("kept vectors are passed over: the embedder %r makes others", self._embedder.name)

    def _save(self) -> None:
        if self._unsaved and self._kept is not None:
            vectors = dict(reversed(self._known.items()))
            if self._trusts_file:  # it may hold what other processes have made
                others = {digest: row for digest, row in self._kept.load().items() if len(row) == self._numbers}
                vectors |= {digest: row for digest, row in others.items() if digest not in vectors}
            self._kept.save(vectors)
            self._trusts_file = True
        self._unsaved = 0

    def _even(self, vectors: Vectors) -> Vectors:
        """Return `vectors` if they are as long as all before them."""
        numbers = vectors.shape[1]
        if self._numbers not in (None, numbers):
            name = self._embedder.name
            raise EmbedderError(f"the embedder {name!r} returned vectors of {numbers} and of {self._numbers} numbers")
        self._numbers = numbers
        return vectors

    def _complain(self, error: EmbedderError) -> None:
        with self._lock:
            is_first, self._has_complained = not self._has_complained, True
        if is_first:
            logger.error("tools are ranked by their words alone: %s", error)


def _end(farewell: threading.Event, model: threading.Lock) -> None:
    """Let no call of the embedder begin, and wait for one: a process that ends inside a model's own code may abort."""
    farewell.set()
    model.acquire(timeout=_FAREWELL_SECONDS)
