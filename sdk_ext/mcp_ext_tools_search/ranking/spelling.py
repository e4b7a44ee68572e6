"""Known words that look like an unknown one: what a typing error most likely meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mcp_ext_tools_search.ranking.segments import ragged

__all__ = ["Spelling", "is_one_slip"]

_LEAST_ALIKE: Final = 0.55
_LEAST_EXAMINED: Final = 0.2
_MOST_EXAMINED: Final = 40
_FEW: Final = 8
"""Candidates that are looked at at once: sorting out more pays."""

_MOST_CHANGED: Final = 4
"""Trigrams that one slip takes from a word at most: it swaps two letters."""

_CHARACTER_BITS: Final = 21
"""Bits of a character, of which three fit into one number."""

_RATIO: Final = 8
"""A part is made anew before those after it reach one part in so many of it."""


def is_one_slip(left: str, right: str) -> bool:
    """Tell whether one slip of a typist sets the two apart: a letter too many, too few or wrong, or two swapped."""
    shorter, longer = (left, right) if len(left) < len(right) else (right, left)
    half = max(len(shorter) - 1, 0) // 2
    if len(longer) > len(shorter) + 1 or (left[:half] != right[:half] and left[-half:] != right[-half:]):
        return False  # told for little: a slip is in one half or in the other, and leaves one of them
    same = _shared_start(shorter, longer)
    if len(longer) > len(shorter):
        return longer[same + 1 :] == shorter[same:]
    after = same + 2
    swapped = left[same:after] == right[same:after][::-1] and left[after:] == right[after:]
    return left != right and (swapped or left[same + 1 :] == right[same + 1 :])


def _shared_start(left: str, right: str) -> int:
    """Return how many characters the two have in common from the start."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


@dataclass(frozen=True, slots=True)
class _Part:
    """The trigrams of some words with consecutive numbers."""

    first: int
    count: int
    having: Mapping[int, NDArray[np.int64]]
    """By trigram, the numbers of the words that have it."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The trigrams of all words that there were when it was made."""

    parts: tuple[_Part, ...]
    lengths: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """By number, how many characters and how many different trigrams a word has."""

    def of(self, words: Sequence[str]) -> _Index:
        """Return the index of these words, of which this one has the first ones."""
        done, first, kept = len(self.sizes), len(self.sizes), list(self.parts)
        while kept and kept[-1].count < _RATIO * (len(words) - first):
            first = kept.pop().first
        trigrams, numbers = _trigrams(words[first:])
        starts = np.flatnonzero(np.diff(trigrams, prepend=-1))
        having = dict(zip(trigrams[starts].tolist(), np.split(numbers + first, starts[1:]), strict=True))
        return _Index(
            (*kept, _Part(first, len(words) - first, having)),
            np.concatenate((self.lengths, [len(word) for word in words[done:]])),
            np.concatenate((self.sizes, np.bincount(numbers + first, minlength=len(words))[done:])),
        )


class Spelling:
    """A vocabulary that finds the nearest of its words, and that may grow while it is asked.

    Words are near that share most of their trigrams (Dice's coefficient), or that one slip of a typist sets apart. The
    cost of a look-up is bounded: few candidates are looked at closely.
    """

    def __init__(self, vocabulary: Iterable[str] = ()) -> None:
        self._words: list[str] = list(vocabulary)
        none = np.zeros(0, dtype=np.int64)
        self._index = _Index((), none, none)
        self._lock = Lock()

    def add(self, word: str) -> None:
        """Take in a word that is not there, which gets the next number from 0 on.

        It is indexed, with the others that are new, when a word is looked for.
        """
        self._words.append(word)

    def nearest(self, word: str, most: int, known: NDArray[np.bool_]) -> list[tuple[int, float]]:
        """Return the numbers of up to `most` words that are near, best first, each with its likeness in (0, 1].

        Args:
            word: What was written.
            most: How many of the nearest are returned.
            known: By number, which words may be found; none from its end on.
        """
        alike = [(_likeness(word, self._words[number], share), number) for number, share in self._alike(word, known)]
        found = [(-likeness, self._words[number], number) for likeness, number in alike if likeness >= _LEAST_ALIKE]
        return [(number, -likeness) for likeness, _, number in sorted(found)[:most]]

    def _alike(self, word: str, known: NDArray[np.bool_]) -> Iterable[tuple[int, float]]:
        """Return the numbers of the known words that may be near, few of them, each with its share of trigrams."""
        index = self._up_to_date(len(known))
        trigrams = _trigrams_of(word)
        having = [part.having[trigram] for part in index.parts for trigram in trigrams if trigram in part.having]
        if not having:
            return ()
        counts = np.bincount(np.concatenate(having))[: len(known)]
        numbers = (counts >= _least_shared(len(trigrams))).nonzero()[0]
        numbers = numbers[known.take(numbers)]
        shared, sizes = counts.take(numbers), index.sizes.take(numbers)
        shares = 2 * shared / (sizes + len(trigrams))
        if len(numbers) <= _FEW:
            return zip(numbers.tolist(), shares.tolist(), strict=True)
        # A slip makes a word longer or shorter by one letter at most, and leaves most trigrams of either.
        may_be_slip = (shares >= _LEAST_EXAMINED) & (np.abs(index.lengths.take(numbers) - len(word)) <= 1)
        may_be_slip &= shared >= np.maximum(sizes, len(trigrams)) - _MOST_CHANGED
        near = may_be_slip | (shares >= _LEAST_ALIKE)
        found = zip(shares[near].tolist(), numbers[near].tolist(), strict=True)
        best: list[tuple[float, str, int]] = [(-share, self._words[number], number) for share, number in found]
        return [(number, -share) for share, _, number in sorted(best)[:_MOST_EXAMINED]]

    def _up_to_date(self, count: int) -> _Index:
        """Return an index of the first `count` words at least."""
        if len(self._index.sizes) < count:
            with self._lock:
                if len(self._index.sizes) < count:
                    self._index = self._index.of(list(self._words))
        return self._index


def _trigrams_of(word: str) -> set[int]:
    """Return the runs of three characters of a word, its ends marked, as numbers."""
    codes = [*map(ord, f"^{word}$")]
    runs = zip(codes, codes[1:], codes[2:], strict=False)
    return {(one << _CHARACTER_BITS | two) << _CHARACTER_BITS | three for one, two, three in runs}


def _trigrams(words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the trigrams of many words, each with the place of its word: in order, and none twice."""
    codes = np.array([*map(ord, "".join([f"^{word}$" for word in words])), 0, 0], dtype=np.int64)
    runs = (codes[:-2] << _CHARACTER_BITS | codes[1:-1]) << _CHARACTER_BITS | codes[2:]
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    trigrams = runs[ragged(np.cumsum(lengths + 2) - lengths - 2, lengths)]
    owners = np.arange(len(words)).repeat(lengths)
    order = np.lexsort((owners, trigrams))
    trigrams, owners = trigrams[order], owners[order]
    new = np.ones(len(trigrams), dtype=np.bool_)
    new[1:] = (trigrams[1:] != trigrams[:-1]) | (owners[1:] != owners[:-1])
    return trigrams[new], owners[new]


def _least_shared(size: int) -> int:
    """Return how many of its `size` trigrams a word has in common with any that is near.

    Dice's coefficient is below 2 * shared / (size + shared).
    """
    return max(1, min(size - _MOST_CHANGED, ceil(size * _LEAST_ALIKE / (2 - _LEAST_ALIKE))))


def _likeness(word: str, candidate: str, shared: float) -> float:
    """Return how like two words are that share this part of their trigrams."""
    of_slip = 1 - 1 / max(len(word), len(candidate))
    may_be_slip = _LEAST_EXAMINED <= shared < of_slip
    return of_slip if may_be_slip and is_one_slip(word, candidate) else shared
