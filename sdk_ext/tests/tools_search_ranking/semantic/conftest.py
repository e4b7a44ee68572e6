from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tools_search_ranking.semantic import Embedder

_MEANINGS = {"car": 0, "limousine": 0, "mail": 1, "letter": 1, "weather": 2, "forecast": 2}
SECONDS = 30


class Meanings:
    """Embeds by counting words of a few meanings, and remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float64]:
        self.texts += texts
        rows = np.full((len(texts), 5), 0.01)
        for row, text in zip(rows, texts, strict=True):
            row[4] += len(text) / 1000
            for word in re.findall("[a-z]+", text.lower()):
                row[_MEANINGS.get(word, 3)] += 1
        return rows


@pytest.fixture
def meanings() -> Meanings:
    return Meanings()


@pytest.fixture
def embedder(meanings: Meanings) -> Embedder:
    return Embedder("meanings 1", meanings, least_cosine=0.5)
