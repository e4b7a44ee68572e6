"""The part of rank-bm25 that this project uses; the package ships no types."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class BM25Okapi:
    idf: dict[str, float]
    def __init__(
        self,
        corpus: Sequence[Sequence[str]],
        tokenizer: None = ...,
        k1: float = ...,
        b: float = ...,
        epsilon: float = ...,
    ) -> None: ...
    def get_scores(self, query: Sequence[str]) -> NDArray[np.float64]: ...
