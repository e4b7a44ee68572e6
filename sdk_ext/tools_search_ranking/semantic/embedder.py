"""What turns texts into vectors, and what vectors have to be to be of use."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.semantic.confidence import Weights

__all__ = ["STEPS", "Embed", "Embedder", "EmbedderError", "Vectors", "is_latin"]

STEPS: Final = 2048
"""Steps from 0 to 1 in the numbers of a vector.

Vectors of length 1 in whole steps have products whose sums stay below 2 to the power of 24, up to which a float32 holds
every integer. So a product is the same in any order of adding, with any number of threads and in any batch.
"""

_MOST_NUMBERS: Final = 8192
_SAMPLED: Final = 1000

Vectors: TypeAlias = NDArray[np.int16]
"""Numbers of vectors in whole steps: one vector per row, or a single row."""

Embed: TypeAlias = Callable[[Sequence[str]], NDArray[Any]]
"""Returns one row of numbers for each text; texts that mean the same have rows that point the same way."""


class EmbedderError(Exception):
    """An embedder failed, or returned what are no vectors."""


def is_latin(text: str) -> bool:
    """Tell whether at least four in five letters of `text` are Latin: what a model of English has a chance to know."""
    letters = [letter for letter in text[:_SAMPLED] if letter.isalpha()]
    latin = sum(letter.isascii() or unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    return bool(letters) and latin * 5 >= len(letters) * 4


@dataclass(frozen=True)
class Embedder:
    """A model, however it runs. It is called by one thread at a time."""

    name: str
    """Names the model, its version, and whatever else its vectors depend on: they are kept under this name."""

    embed: Embed
    """Embeds tools, a few at a time."""

    embed_queries: Embed | None = None
    """Embeds queries, where the model wants them said in another way."""

    knows: Callable[[str], bool] = is_latin
    """Tells whether the model knows the language of a query; any other is ranked by words alone."""

    least_cosine: float = 0.0
    """Cosine from which on a tool may be found that shares no word with the query."""

    weights: Weights | None = None
    """What its cosines say of whether any tool fits, fitted to them; without it words alone tell that."""

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of the texts of tools.

        Raises:
            EmbedderError: There are none.
        """
        return self._vectors(self.embed, texts)

    def query_vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of a query, or of its sentences.

        Raises:
            EmbedderError: There are none.
        """
        return self._vectors(self.embed_queries or self.embed, texts)

    def _vectors(self, embed: Embed, texts: Sequence[str]) -> Vectors:
        try:
            rows: NDArray[np.float64] = np.asarray(embed(texts), dtype=np.float64)
        except Exception as error:  # it is anyone's code
            raise EmbedderError(f"the embedder {self.name!r} failed: {type(error).__name__}: {error}") from error
        if rows.ndim != 2 or len(rows) != len(texts) or not 0 < rows.shape[1] <= _MOST_NUMBERS:
            wanted = f"{len(texts)} rows of 1 to {_MOST_NUMBERS} numbers"
            raise EmbedderError(f"the embedder {self.name!r} returned an array of shape {rows.shape}, not {wanted}")
        if not np.isfinite(rows).all():
            raise EmbedderError(f"the embedder {self.name!r} returned a number that is not finite")
        lengths: NDArray[np.float64] = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise EmbedderError(f"the embedder {self.name!r} returned a vector without a direction")
        return np.rint(rows / lengths * STEPS).astype(np.int16)
