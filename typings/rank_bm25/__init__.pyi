"""The part of rank-bm25 that this project uses; the package ships no types."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

class BM25Okapi:
    idf: Mapping[str, float]
    doc_len: Sequence[float]
    avgdl: float
    def __init__(
        self,
        corpus: Sequence[Sequence[str]],
        tokenizer: None = ...,
        k1: float = ...,
        b: float = ...,
        epsilon: float = ...,
    ) -> None: ...
    def get_batch_scores(self, query: Sequence[str], doc_ids: Sequence[int]) -> list[float]: ...
    def get_scores(self, query: Sequence[str]) -> NDArray[np.float64]: ...
