"""Vectors that were made before, kept in a file of this user's so that they need not be made again.

A file is read as what anyone may have written: checked for its owner, its size, its sum and every vector, and passed
over otherwise. Vectors are known by a digest of the text that they were made of.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tools_search_ranking.semantic.embedder import STEPS, Vectors

__all__ = ["MOST_VECTORS", "KeptVectors", "text_digest"]

logger = logging.getLogger(__name__)

_DIGEST_BYTES: Final = 16
_VERSION: Final = 1
MOST_VECTORS: Final = 50_000
_MOST_BYTES: Final = 128 * 1024 * 1024
_MOST_HEADER_BYTES: Final = 4096
_UNEVEN: Final = 0.05
"""How far rounding may take the length of a vector from 1."""


class _Header(BaseModel):
    """The first line of a file; digests and then vectors follow it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    embedder: str
    count: int = Field(ge=0, le=MOST_VECTORS)
    numbers: int = Field(ge=1, le=8192)
    sum: str


def text_digest(text: str) -> bytes:
    """Return what a text is known by."""
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


class KeptVectors:
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
                if about.st_size > _MOST_BYTES:
                    raise ValueError("it is too large")
                header = _Header.model_validate_json(file.readline(_MOST_HEADER_BYTES))
                return self._read(header, file.read(_MOST_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            logger.warning("%s is passed over: %s", self.path, _reason(error))
            return {}

    def save(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Replace what is kept, at once and for this user alone; what cannot be written is done without.

        Args:
            vectors: By digest, all of one length. Of too many the first are kept.
        """
        kept = list(vectors.items())[:MOST_VECTORS]
        if not kept:
            return
        numbers = len(kept[0][1])
        kept = kept[: _MOST_BYTES // (2 * numbers + _DIGEST_BYTES) - 1]
        body = b"".join(digest for digest, _ in kept) + np.stack([row for _, row in kept]).astype("<i2").tobytes()
        header = _Header(version=_VERSION, embedder=self._embedder, count=len(kept), numbers=numbers, sum=_sum_of(body))
        partial: Path | None = None
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self.path.parent, prefix=".", delete=False) as file:  # nobody else may read it
                partial = Path(file.name)
                file.write(json.dumps(header.model_dump()).encode() + b"\n" + body)
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
            raise ValueError("it holds what are no vectors")
        return {body[at : at + _DIGEST_BYTES]: row for at, row in zip(range(0, ends, _DIGEST_BYTES), rows, strict=True)}


def _sum_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _reason(error: Exception) -> str:
    """Return what to log, which repeats nothing of the file."""
    return "it is damaged" if type(error) is not ValueError and isinstance(error, ValueError) else str(error)
