"""The vectors of all texts that some index holds, made in a thread of their own and kept in a file.

A text has one vector, whichever indexes hold it, and no search ever waits for a tool to be embedded. Vectors are known
by a digest of the text that they were made of.

The file belongs to this user. It is read as untrusted: checked for its owner, its size, its checksum and
every vector, and passed over otherwise.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final
from weakref import ReferenceType, WeakValueDictionary, finalize, ref

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tools_search_ranking.semantic.embedder import STEPS, Embedder, EmbedderError, Vectors, query_texts

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 8
"""Texts that are embedded together: a query waits for that many at most."""

_YIELD_SECONDS: Final = 1.0
"""How long queries take priority, so that tools get their vectors even if queries never end."""

_SAVED_EVERY: Final = 1_000
"""Vectors after which they are written to disk, so that little is lost when the process ends before all are made."""

_PROGRESS_SECONDS: Final = 10.0
"""How often the log says how far the work is."""

_CLOSING_SECONDS: Final = 2.0
"""How long the end of the process waits for what is being embedded."""

_QUERIES: Final = 256
"""Queries whose vectors are remembered: those of the pages of one search."""

_SAME: Final = 0.99
"""Least cosine of two vectors that one model made of one text, on two machines."""

_DIGEST_BYTES: Final = 16
_VERSION: Final = 1
_MAX_VECTORS: Final = 100_000
_MAX_FILE_BYTES: Final = 128 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 4096
_UNEVEN: Final = 0.05
"""How far rounding may take the length of a vector from 1."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Entry:
    """A text and, once it is made, its vector."""

    text: str
    digest: bytes
    row: Vectors | None = None
    is_queued: bool = False


class VectorStore:
    """Makes vectors and hands them out.

    Args:
        embedder: Makes them.
        folder: Where they are kept for the next start; `None` for nowhere.
    """

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        self.embedder = embedder
        self._kept = None if folder is None else VectorFile(embedder.name, folder)
        self._changed = threading.Condition()
        """Guards what follows, up to the next comment."""
        self._entries = WeakValueDictionary[bytes, Entry]()
        self._queue = deque[ReferenceType[Entry]]()
        self._is_working = False
        self._has_reported = False
        self._queries = OrderedDict[str, Vectors]()
        self._asking = 0
        # These belong to the working thread.
        self._known = OrderedDict[bytes, Vectors]()
        self._unverified: dict[bytes, Vectors] | None = None
        self._unsaved = 0
        self._trusts_file = True
        # Held while the embedder is called and the length of its vectors compared.
        self._model = threading.Lock()
        self._numbers: int | None = None
        self._closing = threading.Event()
        finalize(self, _end, self._closing, self._model)

    def entries(self, texts: Sequence[str]) -> list[Entry]:
        """Return the entries of `texts`; those without a vector get theirs later."""
        found: list[Entry] = []
        with self._changed:
            for text in texts:
                digest = hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]
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
            vectors = self._made(self.embedder.query_vectors, query_texts(query))
        except EmbedderError as error:
            self._report(error)
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
        progress = _Progress()
        try:
            while not self._closing.is_set():
                with self._changed:
                    self._changed.wait_for(lambda: not self._asking, _YIELD_SECONDS)
                    wanted = [self._queue.popleft()() for _ in range(min(len(self._queue), _AT_ONCE))]
                self._embed([entry for entry in wanted if entry is not None])
                if not self._queue or self._unsaved >= _SAVED_EVERY:
                    self._save()
                with self._changed:
                    progress.note(len(wanted), len(self._queue))
                    if not self._queue:
                        self._is_working = False
                        self._changed.notify_all()
                        return
        except BaseException as error:
            is_expected = isinstance(error, EmbedderError)
            if is_expected:
                self._report(error)
            with self._changed:
                self._queue.clear()
                for entry in list(self._entries.values()):  # those given up can be queued again
                    entry.is_queued = entry.row is not None
                self._is_working = False
                self._changed.notify_all()
            if not is_expected:
                raise

    def _embed(self, batch: Sequence[Entry]) -> None:
        if self._unverified is None:
            self._unverified = {} if self._kept is None else self._kept.load()
        proof = next((entry for entry in batch if entry.digest in self._unverified), None)
        if proof is not None:
            # The file is believed once the embedder has made one of its vectors again: another model of the same name
            # may have written it. The model is then loaded before a query needs it.
            kept, self._unverified = self._unverified, {}
            own, made = kept[proof.digest], self._made(self.embedder.vectors, [proof.text])[0]
            if own.shape == made.shape and int(own.astype(int) @ made.astype(int)) >= _SAME * STEPS * STEPS:
                self._known = OrderedDict(kept | self._known)
            else:
                self._trusts_file = False
                logger.warning("kept vectors are passed over: the embedder %r makes others", self.embedder.name)
        missing = [entry for entry in batch if entry.digest not in self._known]
        if missing:
            rows = self._made(self.embedder.vectors, [entry.text for entry in missing])
            self._known.update((entry.digest, row) for entry, row in zip(missing, rows, strict=True))
            self._unsaved += len(missing)
        for entry in batch:
            entry.row = self._known[entry.digest]
            self._known.move_to_end(entry.digest)
            entry.text = ""  # which is not needed any more
        while len(self._known) > _MAX_VECTORS:
            self._known.popitem(last=False)

    def _save(self) -> None:
        if self._unsaved and self._kept is not None:
            vectors = dict(reversed(self._known.items()))  # of too many, the last ones that were used are kept
            # The file may hold what other processes have made.
            for digest, row in self._kept.load().items() if self._trusts_file else ():
                if len(row) == self._numbers:
                    vectors.setdefault(digest, row)
            self._kept.save(vectors)
            self._trusts_file = True
        self._unsaved = 0

    def _made(self, embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> Vectors:
        """Return the vectors of `texts`, which are as long as all before them.

        Raises:
            EmbedderError: There are none.
        """
        with self._model:
            vectors = embed(texts)
            numbers = vectors.shape[1]
            if self._numbers not in (None, numbers):
                lengths = f"vectors of {numbers} and of {self._numbers} numbers"
                raise EmbedderError(f"the embedder {self.embedder.name!r} returned {lengths}")
            self._numbers = numbers
        return vectors

    def _report(self, error: BaseException) -> None:
        with self._changed:
            is_first, self._has_reported = not self._has_reported, True
        if is_first:
            logger.error("tools are ranked by their words alone: %s", error)


class _Progress:
    """Logs how far the work is, if it takes long."""

    def __init__(self) -> None:
        self._started = self._said = time.monotonic()
        self._done = 0

    def note(self, done: int, left: int) -> None:
        """Take note of texts that have got their vectors, and of how many have none yet."""
        self._done += done
        now = time.monotonic()
        seconds = now - self._started
        if left and now - self._said >= _PROGRESS_SECONDS:
            self._said = now
            rest = seconds * left / self._done
            logger.info("the model has read %d of %d texts; about %.0f s more", self._done, self._done + left, rest)
        elif not left and seconds >= _PROGRESS_SECONDS:
            logger.info("the model has read %d texts in %.0f s: tools are ranked by meaning now", self._done, seconds)


def _end(farewell: threading.Event, model: threading.Lock) -> None:
    """Let no call of the embedder begin, and wait for one: a process that ends inside a model's own code may abort."""
    farewell.set()
    model.acquire(timeout=_CLOSING_SECONDS)


class _Header(BaseModel):
    """The first line of a file; digests and then vectors follow it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    embedder: str
    count: int = Field(ge=0, le=_MAX_VECTORS)
    numbers: int = Field(ge=1, le=8192)
    sum: str


class VectorFile:
    """The file of one embedder.

    Args:
        embedder: Its name.
        folder: Where the files are.
    """

    def __init__(self, embedder: str, folder: Path) -> None:
        self._embedder = embedder
        self.path = folder / f"vectors-{hashlib.sha256(embedder.encode()).hexdigest()[:32]}.bin"

    def load(self) -> dict[bytes, Vectors]:
        """Return the vectors that were kept, by the digests of their texts: none that cannot be relied on."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise ValueError("others may have written it")
                if about.st_size > _MAX_FILE_BYTES:
                    raise ValueError("it is too large")
                header = _Header.model_validate_json(file.readline(_MAX_HEADER_BYTES))
                return self._read(header, file.read(_MAX_FILE_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            # What a parser says would repeat something of the file.
            is_ours = type(error) is ValueError or isinstance(error, OSError)
            logger.warning("%s is passed over: %s", self.path, error if is_ours else "it is damaged")
            return {}

    def save(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Replace what is kept, at once and for this user alone; what cannot be written is left out.

        Args:
            vectors: By digest, all of one length. Of too many the first are kept.
        """
        kept = list(vectors.items())[:_MAX_VECTORS]
        if not kept:
            return
        numbers = len(kept[0][1])
        kept = kept[: _MAX_FILE_BYTES // (2 * numbers + _DIGEST_BYTES) - 1]
        body = b"".join(digest for digest, _ in kept) + np.stack([row for _, row in kept]).astype("<i2").tobytes()
        header = _Header(version=_VERSION, embedder=self._embedder, count=len(kept), numbers=numbers, sum=_sum_of(body))
        partial: Path | None = None
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self.path.parent, prefix=".", delete=False) as file:  # nobody else may read it
                partial = Path(file.name)
                file.write(header.model_dump_json().encode() + b"\n" + body)
            partial.replace(self.path)
        except OSError as error:
            logger.warning("vectors are not kept: %s", error)
            if partial is not None:
                partial.unlink(missing_ok=True)

    def _read(self, header: _Header, body: bytes) -> dict[bytes, Vectors]:
        if header.version != _VERSION or header.embedder != self._embedder:
            raise ValueError("it is of another version or embedder")
        ends = header.count * _DIGEST_BYTES
        if len(body) != ends + header.count * header.numbers * 2 or _sum_of(body) != header.sum:
            raise ValueError("it is damaged")
        rows = np.frombuffer(body, dtype="<i2", offset=ends).reshape(header.count, header.numbers).astype(np.int16)
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1) / STEPS
        if (np.abs(lengths - 1) > _UNEVEN).any():
            raise ValueError("it holds something other than vectors")
        return {body[at : at + _DIGEST_BYTES]: row for at, row in zip(range(0, ends, _DIGEST_BYTES), rows, strict=True)}


def _sum_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
