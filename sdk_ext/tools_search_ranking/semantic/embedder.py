"""Models that turn texts into vectors, the texts that they read, and their weights for confidence.

Words alone cannot distinguish a request in other words from one that no tool serves. So one logistic regression
combines three signs of meaning with the lexical signs (`confidence.py`). It is fitted in the same way (`python -m
benchmarks.retrieval --fit`). The weights are specific to a model, because the cosines of two models are not comparable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from mcp_ext_tools_search.types import published_metadata
from mcp_types import Tool
from numpy.typing import NDArray

STEPS: Final = 2048
"""Steps from 0 to 1 in the components of a vector.

The dot product of two vectors of length 1 in whole steps stays below 2 to the power of 24, up to which float32
represents every integer. So the result does not depend on the order of additions, the number of threads or the batch.
"""

_MAX_NUMBERS: Final = 8192
_SAMPLED_CHARS: Final = 1000

_MAX_CHARS: Final = 2_000
"""Maximum characters of a description or a query to read. Small models read about a thousand."""

_MAX_SUMMARY_CHARS: Final = 400
_MAX_NAME_CHARS: Final = 200
_MAX_SENTENCES: Final = 6
_MIN_WORDS: Final = 4
"""Minimum words in a sentence that is compared separately."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_COMPOUND: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./:]+")

Vectors: TypeAlias = NDArray[np.int16]
"""Vectors in whole steps: one vector per row, or a single row."""

Embed: TypeAlias = Callable[[Sequence[str]], NDArray[Any]]
"""Returns one row for each text. Rows of texts with the same meaning point in the same direction."""


class EmbedderError(Exception):
    """An embedder failed, or returned something other than vectors."""


class SemanticSigns(NamedTuple):
    """The signs that a tool serves a request. The lexical ones come first, as in `Signs`."""

    score: float
    shared_evidence: float
    query_share: float
    tools: float

    cosine: float
    """The highest cosine between the query and any of the first tools."""

    first_by_words: float
    """The cosine between the query and the tool that words alone rank first."""

    elsewhere: float
    """Mean of the highest cosines between the query and the tools of `Embedder.others`."""


Weights: TypeAlias = tuple[float, SemanticSigns]
"""Intercept and slopes of a logistic regression."""


def is_latin(text: str) -> bool:
    """Return whether at least four in five letters in `text` are Latin, so an English model may know the language."""
    letters = [letter for letter in text[:_SAMPLED_CHARS] if letter.isalpha()]
    latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    return bool(letters) and latin * 5 >= len(letters) * 4


@dataclass(frozen=True)
class Embedder:
    """A model, local or remote. Only one thread calls it at a time."""

    name: str
    """The model's name, with its version and everything else that its vectors depend on: the key of stored vectors."""

    embed: Embed
    """Embeds tools, a few at a time."""

    embed_queries: Embed | None = None
    """Embeds queries, if the model requires another form for them."""

    knows: Callable[[str], bool] = is_latin
    """Returns whether the model knows a query's language. If not, the query is ranked by words alone."""

    least_cosine: float = 0.0
    """Minimum cosine for finding a tool that shares no word with the query."""

    weight: float = 1.75
    """Weight of meaning, relative to words."""

    weights: Weights | None = None
    """Weights for confidence, fitted to the model's cosines. Without them, confidence is based on words alone."""

    others: Callable[[], Vectors] | None = None
    """Returns vectors of tools of every kind, for confidence: a query that a tool serves is nearer to it than to most
    of these."""

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors for texts of tools.

        Raises:
            EmbedderError: The embedder failed, or returned something other than vectors.
        """
        return self._vectors(self.embed, texts)

    def query_vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors for a query, or for its sentences. Raises the same error as `vectors`."""
        return self._vectors(self.embed_queries or self.embed, texts)

    def _vectors(self, embed: Embed, texts: Sequence[str]) -> Vectors:
        try:
            rows: NDArray[np.float64] = np.asarray(embed(texts), dtype=np.float64)
        except Exception as error:  # third-party code can raise anything
            raise EmbedderError(f"the embedder {self.name!r} failed: {type(error).__name__}: {error}") from error
        if rows.ndim != 2 or len(rows) != len(texts) or not 0 < rows.shape[1] <= _MAX_NUMBERS:
            wanted = f"{len(texts)} rows of 1 to {_MAX_NUMBERS} numbers"
            raise EmbedderError(f"the embedder {self.name!r} returned an array of shape {rows.shape}, not {wanted}")
        if not np.isfinite(rows).all():
            raise EmbedderError(f"the embedder {self.name!r} returned a number that is not finite")
        lengths: NDArray[np.float64] = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise EmbedderError(f"the embedder {self.name!r} returned a vector without a direction")
        return np.rint(rows / lengths * STEPS).astype(np.int16)


def tool_text(tool: Tool) -> str:
    """Return the name as words, the title and the description: never blank, and without lone surrogates."""
    title = tool.title or (tool.annotations.title if tool.annotations else None) or ""
    parts = (_words(tool.name), _words(title), (tool.description or "")[:_MAX_CHARS].strip())
    return _encodable(". ".join(part for part in parts if part)) or "tool"


def summary_text(tool: Tool) -> str | None:
    """Return the first sentence of the description, if there is one."""
    first = _SENTENCE_END.split((tool.description or "")[:_MAX_CHARS].strip(), maxsplit=1)[0]
    return _encodable(first[:_MAX_SUMMARY_CHARS]) or None


def group_text(tool: Tool) -> str | None:
    """Return a tool's published group as words, if there is one."""
    group = published_metadata(tool.meta).get("group")
    return (_encodable(_words(group)) or None) if isinstance(group, str) else None


def query_texts(query: str) -> list[str]:
    """Return the sentences of a query, each of which may ask for a different tool, or the whole query if it has one."""
    whole = _encodable(query[:_MAX_CHARS])
    sentences = [part for part in _SENTENCE_END.split(whole) if len(part.split()) >= _MIN_WORDS]
    return sentences[:_MAX_SENTENCES] if len(sentences) > 1 else [whole]


def _words(name: str) -> str:
    return " ".join(_COMPOUND.sub(" ", name[:_MAX_NAME_CHARS]).split())


def _encodable(text: str) -> str:
    """Return `text` without lone surrogates, which encoders reject."""
    return text.encode("utf-8", "replace").decode("utf-8")
