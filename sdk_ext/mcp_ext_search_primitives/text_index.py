"""Ranks texts by their words: BM25 over the content of resources.

Texts differ from definitions: they are long, and repeat the words that matter. So every occurrence of a word counts,
and a text's length is compared only with other texts. Tool rankers count few occurrences and expect short fields, so
they rank texts worse than this index.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from math import log1p
from typing import Final

from mcp_ext_tools_search.ranking.language import STOP_WORDS, runs, words, words_of
from mcp_ext_tools_search.ranking.query import AS_WRITTEN, WRITTEN, index_terms, read

_K1: Final = 2.0  # how much a repeated word gains over a single one
_B: Final = 0.75  # how much of its score a word of a long text loses

MAX_TERMS: Final = 1 << 19
"""Maximum number of distinct terms in all texts: about twice as many as in 16 million characters of documentation.
Later terms are ignored, which limits the memory that texts of random letters take.
"""


class TextIndex:
    """Texts ready to be ranked. It never changes, so any number of threads may search it at once.

    Args:
        texts: The texts by URI.
        previous: An index of mostly the same texts, from which to build this one faster.
    """

    def __init__(self, texts: Mapping[str, str], previous: TextIndex | None = None) -> None:
        self._texts = texts
        self._uris: dict[int, str] = {}
        """The texts by number."""
        self._lengths: dict[int, int] = {}
        """The number of words of each text, by its number."""
        self._postings: dict[str, array[int]] = {}
        """For each term, pairs of a text's number and the term's frequency in that text."""
        own_arrays = set[str]() if previous is None else self._take_over(previous)
        known = set(self._uris.values())
        first = max(self._uris, default=-1) + 1
        for number, uri in enumerate(sorted(texts.keys() - known), first):
            counts, self._lengths[number] = _counted(texts[uri])
            self._uris[number] = uri
            for term, count in counts.items():
                if (own := self._postings.get(term)) is None:
                    if len(self._postings) == MAX_TERMS:
                        continue
                    own = array("I")
                elif term not in own_arrays:
                    own = own[:]
                own.extend((number, count))
                self._postings[term] = own
                own_arrays.add(term)
        average = sum(self._lengths.values()) / len(texts) if any(self._lengths.values()) else 1.0
        self._norms = {number: _K1 * (1 - _B + _B * length / average) for number, length in self._lengths.items()}

    def _take_over(self, previous: TextIndex) -> set[str]:
        """Take over what `previous` knows of texts that are the same. Return the terms with postings of this index.

        It shares the postings of other terms with `previous`, which must not change.
        """
        same = {number: uri for number, uri in previous._uris.items() if self._texts.get(uri) == previous._texts[uri]}
        gone = [uri for number, uri in previous._uris.items() if number not in same]
        # With too many terms, it depends on the order of texts which ones are ignored.
        if len(gone) >= len(same) or len(previous._postings) >= MAX_TERMS:
            return set()
        self._uris = same
        self._lengths = {number: previous._lengths[number] for number in same}
        self._postings = previous._postings.copy()
        changed = {term for uri in gone for term in _counted(previous._texts[uri])[0]}
        for term in changed:
            own = previous._postings[term]
            left = [pair for pair in zip(own[::2], own[1::2], strict=True) if pair[0] in same]
            self._postings[term] = array("I", chain.from_iterable(left))
            if not left:
                del self._postings[term]
        return changed

    @property
    def terms(self) -> Collection[str]:
        """The terms by which texts are ranked."""
        return self._postings.keys()

    def search(self, query: str) -> dict[str, float]:
        """Return the scores of texts that contain a meaningful word of `query`, by URI. The best score is 1."""
        scores = defaultdict[int, float](float)
        for term, weight in _weights(query):
            own = self._postings.get(term, ())
            value = weight * self._idf(term)
            for place, count in zip(own[::2], own[1::2], strict=True):
                scores[place] += value * count / (count + self._norms[place])
        best = max(scores.values(), default=0.0)
        return {self._uris[place]: score / best for place, score in scores.items()}

    def shares(self, query: str, definitions: Mapping[str, Collection[str]]) -> dict[str, float]:
        """Return by URI how much of `query` each set of stems covers, from 0 to 1, weighting words as in the texts."""
        values = {stem: weight * self._idf(stem) for stem, weight in read(query).stems.items()}
        total = sum(values.values()) or 1.0
        return {
            uri: sum(value for stem, value in values.items() if stem in stems) / total
            for uri, stems in definitions.items()
        }

    def _idf(self, term: str) -> float:
        having = len(self._postings.get(term, ())) // 2
        return log1p((len(self._texts) - having + 0.5) / (having + 0.5))


def stems_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the stems of the words of these texts."""
    return frozenset(index_terms(word)[0] for text in texts for word in words(text))


def _weights(query: str) -> Iterator[tuple[str, float]]:
    said = read(query)
    yield from said.stems.items()
    yield from ((WRITTEN + word, weight * AS_WRITTEN) for word, weight in said.written.items())


def _counted(text: str) -> tuple[Counter[str], int]:
    """Return the frequency of each term in a text (stems, and words as written), and the number of words."""
    counts, length = Counter[str](), 0
    for run, count in Counter(runs(text)).items():  # split each distinct run only once
        for word in words_of(run):
            if word not in STOP_WORDS:
                counts.update(dict.fromkeys(index_terms(word), count))
                length += count
    return counts, length
