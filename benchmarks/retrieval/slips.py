"""Requests with typing errors, the same in every run."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from string import ascii_lowercase
from typing import Final

from benchmarks.retrieval.datasets import Dataset

__all__ = ["mistyped", "with_slips"]

_LONG_WORD: Final = re.compile(r"[A-Za-z]{5,}")
_SHARE: Final = 0.3
"""Part of the long words that have an error."""


def with_slips(dataset: Dataset) -> Dataset:
    """Return the dataset with requests as someone types them in a hurry."""
    slipped = [query.model_copy(update={"query": mistyped(query.query, query.id)}) for query in dataset.queries]
    return replace(dataset, queries=slipped)


def mistyped(text: str, seed: str) -> str:
    """Return `text` with one edit in each of 30 % of its words of five letters or more, drawn by `seed`.

    An edit leaves a letter out, adds one, puts another in its place, or swaps two neighbours (Damerau, 1964).
    """
    random = Random(seed)  # noqa: S311  # the same in every run
    return _LONG_WORD.sub(lambda word: _edited(word[0], random) if random.random() < _SHARE else word[0], text)


def _edited(word: str, random: Random) -> str:
    place, letter = random.randrange(len(word) - 1), random.choice(ascii_lowercase)
    before, here, after = word[:place], word[place], word[place + 1 :]
    return random.choice(
        [
            before + after,
            before + letter + here + after,
            before + letter + after,
            before + after[0] + here + after[1:],
        ]
    )
