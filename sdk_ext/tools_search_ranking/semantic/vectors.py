"""The vectors of all texts in any index, made in a background thread and stored in a file.

A text has one vector, even if several indexes contain it, and no search ever waits for a tool to be embedded. Vectors
are keyed by a digest of their text.

The file must belong to this user. It is treated as untrusted: its owner, its size, its checksum and every vector are
checked, and the file is ignored if any check fails.
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
from os import PathLike
from pathlib import Path
from typing import Final
from weakref import ReferenceType, WeakValueDictionary, finalize, ref

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tools_search_ranking.private_files import replace_private_file
from tools_search_ranking.semantic.embedder import STEPS, Embedder, EmbedderError, Vectors, query_texts

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 8
"""Maximum number of texts in a batch, for which a query may have to wait."""

_YIELD_SECONDS: Final = 1.0
"""How long the thread yields to queries. The limit ensures that tools get their vectors under constant load."""

_SAVED_EVERY: Final = 1_000
"""Number of new vectors after which to save them, so that little is lost if the process ends early."""

_PROGRESS_SECONDS: Final = 10.0
"""How often to log progress."""

_CLOSING_SECONDS: Final = 2.0
"""How long the process waits at exit for a running embedding."""

_QUERIES: Final = 256
"""Number of queries whose vectors are cached, since each page of a search repeats its query."""

_SAME: Final = 0.99
"""Minimum cosine of the vectors that one model makes for the same text on two machines."""

_DIGEST_BYTES: Final = 16
_VERSION: Final = 1
_MAX_VECTORS: Final = 100_000
_MAX_FILE_BYTES: Final = 128 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 4096
_UNEVEN: Final = 0.05
"""Maximum deviation of a vector's length from 1 due to rounding."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Entry:
    """A text and, once made, its vector."""

    text: str
    digest: bytes
    row: Vectors | None = None
    is_queued: bool = False


class VectorStore:
    """Makes vectors, and stores them in a folder for the next start, if there is one."""

    def __init__(self, embedder: Embedder, folder: str | PathLike[str] | None) -> None:
        self.embedder = embedder
        self._kept = None if folder is None else VectorFile(embedder.name, folder)
        self._changed = threading.Condition()
        """Guards the attributes below, up to the next comment."""
        self._entries = WeakValueDictionary[bytes, Entry]()
        self._queue = deque[ReferenceType[Entry]]()
        self._is_working = False
        self._has_reported = False
        self._queries = OrderedDict[str, Vectors]()
        self._asking = 0
        # Only the background thread uses these.
        self._known = OrderedDict[bytes, Vectors]()
        self._unverified: dict[bytes, Vectors] | None = None
        self._unsaved = 0
        self._trusts_file = True
        # Held while calling the embedder and comparing the length of its vectors.
        self._model = threading.Lock()
        self._numbers: int | None = None
        self._closing = threading.Event()
        finalize(self, _end, self._closing, self._model)

    def entries(self, texts: Sequence[str]) -> list[Entry]:
        """Return the entries for `texts`. Those without a vector get it later."""
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
        """Return the vectors of the sentences in `query`, or `None` if the embedder fails."""
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
        """Wait until nothing is left to embed. Return `False` on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_working, seconds)

    def _work(self) -> None:
        """Embed the queued texts until none is left or the embedder fails."""
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
                for entry in list(self._entries.values()):  # texts without a vector can be queued again
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
            # Another model with the same name may have written the file, so trust it only after the embedder has
            # reproduced one of its vectors. This also loads the model before a query needs it.
            kept, self._unverified = self._unverified, {}
            own, made = kept[proof.digest], self._made(self.embedder.vectors, [proof.text])[0]
            if own.shape == made.shape and int(own.astype(int) @ made.astype(int)) >= _SAME * STEPS * STEPS:
                self._known = OrderedDict(kept | self._known)
            else:
                self._trusts_file = False
                logger.warning("ignoring stored vectors: the embedder %r makes different ones", self.embedder.name)
        missing = [entry for entry in batch if entry.digest not in self._known]
        if missing:
            rows = self._made(self.embedder.vectors, [entry.text for entry in missing])
            self._known.update((entry.digest, row) for entry, row in zip(missing, rows, strict=True))
            self._unsaved += len(missing)
        for entry in batch:
            entry.row = self._known[entry.digest]
            self._known.move_to_end(entry.digest)
            entry.text = ""  # no longer needed
        while len(self._known) > _MAX_VECTORS:
            self._known.popitem(last=False)

    def _save(self) -> None:
        if self._unsaved and self._kept is not None:
            vectors = dict(reversed(self._known.items()))  # if there are too many, keep the most recently used
            # The file may contain vectors from other processes.
            for digest, row in self._kept.load().items() if self._trusts_file else ():
                if len(row) == self._numbers:
                    vectors.setdefault(digest, row)
            self._kept.save(vectors)
            self._trusts_file = True
        self._unsaved = 0

    def _made(self, embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> Vectors:
        """Return the vectors of `texts`, which must have the same length as all earlier ones.

        Raises:
            EmbedderError: The embedder failed, or its vectors have different lengths.
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
            logger.error("ranking tools by words alone: %s", error)


class _Progress:
    """Logs the progress of embedding, if it takes long."""

    def __init__(self) -> None:
        self._started = self._said = time.monotonic()
        self._done = 0

    def note(self, done: int, left: int) -> None:
        """Record how many texts were embedded, and how many are left."""
        self._done += done
        now = time.monotonic()
        seconds = now - self._started
        if left and now - self._said >= _PROGRESS_SECONDS:
            self._said = now
            rest = seconds * left / self._done
            logger.info("embedded %d of %d texts; about %.0f s remaining", self._done, self._done + left, rest)
        elif not left and seconds >= _PROGRESS_SECONDS:
            logger.info("embedded %d texts in %.0f s: now ranking tools by meaning", self._done, seconds)


def _end(farewell: threading.Event, model: threading.Lock) -> None:
    """Prevent new calls to the embedder, and wait for a running one: exiting inside a model's native code may abort."""
    farewell.set()
    model.acquire(timeout=_CLOSING_SECONDS)


class _Header(BaseModel):
    """The first line of a file. The digests and then the vectors follow."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    embedder: str
    count: int = Field(ge=0, le=_MAX_VECTORS)
    numbers: int = Field(ge=1, le=8192)
    sum: str


class VectorFile:
    """The file in a folder with the vectors of the embedder of this name."""

    def __init__(self, embedder: str, folder: str | PathLike[str]) -> None:
        self._embedder = embedder
        self.path = Path(folder) / f"vectors-{hashlib.sha256(embedder.encode()).hexdigest()[:32]}.bin"
        self._logged: set[str] = set()

    def load(self) -> dict[bytes, Vectors]:
        """Return the stored vectors by the digests of their texts, or none if the file is missing or untrustworthy."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise ValueError("others may have written it")
                if about.st_size > _MAX_FILE_BYTES:
                    raise ValueError("it is too large")
                header = _Header.model_validate_json(file.readline(_MAX_HEADER_BYTES))
                return self._read(header, file.read(_MAX_FILE_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            # A parser's message would repeat parts of the file.
            is_ours = type(error) is ValueError or isinstance(error, OSError)
            self._log(f"ignoring {self.path}: {error if is_ours else 'it is damaged'}")
            return {}

    def save(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Replace the stored vectors, all of one length, atomically, readable only by this user.

        If there are too many, the first are stored. If writing fails, log it once.
        """
        kept = list(vectors.items())[:_MAX_VECTORS]
        if not kept:
            return
        numbers = len(kept[0][1])
        kept = kept[: _MAX_FILE_BYTES // (2 * numbers + _DIGEST_BYTES) - 1]
        body = b"".join(digest for digest, _ in kept) + np.stack([row for _, row in kept]).astype("<i2").tobytes()
        header = _Header(version=_VERSION, embedder=self._embedder, count=len(kept), numbers=numbers, sum=_sum_of(body))
        try:
            replace_private_file(self.path, header.model_dump_json().encode() + b"\n" + body)
        except OSError as error:
            # Without the file's name, which is another one for each attempt.
            self._log(f"cannot store vectors in {self.path.parent}, so each start makes them again: {error.strerror}")

    def _log(self, fault: str) -> None:
        if fault not in self._logged:
            logger.warning("%s", fault)
        self._logged.add(fault)

    def _read(self, header: _Header, body: bytes) -> dict[bytes, Vectors]:
        if header.version != _VERSION or header.embedder != self._embedder:
            raise ValueError("it is from another version or embedder")
        ends = header.count * _DIGEST_BYTES
        if len(body) != ends + header.count * header.numbers * 2 or _sum_of(body) != header.sum:
            raise ValueError("it is damaged")
        rows = np.frombuffer(body, dtype="<i2", offset=ends).reshape(header.count, header.numbers).astype(np.int16)
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1) / STEPS
        if (np.abs(lengths - 1) > _UNEVEN).any():
            raise ValueError("it contains something other than vectors")
        return {body[at : at + _DIGEST_BYTES]: row for at, row in zip(range(0, ends, _DIGEST_BYTES), rows, strict=True)}


def _sum_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
