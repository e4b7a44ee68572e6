"""From the text of a request to the terms that are looked up for it, each with its weight.

A word counts by its stem, as it is written, through related words and abbreviations, and where no tool has it, through
known words that it may be a slip of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from operator import add
from typing import Final, TypeAlias

from mcp_ext_tools_search.ranking.language import (
    STOP_WORDS,
    is_character,
    is_unspaced,
    related_words,
    runs,
    spelled_out,
    stem,
    without_fillers,
    words,
)

MAX_QUERY_LENGTH: Final = 8_192
"""Characters of a query that are read."""

_MAX_WORDS: Final = 128  # distinct ones: a request needs no more, and an attack gets no more
_SHORTEST_JOINED: Final = 5

MAX_CORRECTED: Final = 12
"""Unknown words of a query for which similar ones are looked up."""

# What a term counts, where the stem of a word of the request counts 1.
_AS_WRITTEN, _RELATED, _SPELLED_OUT, _CORRECTED, _JOINED = 0.5, 0.3, 0.5, 0.8, 0.5
_BESIDE_FILLER: Final = 0.5

WRITTEN: Final = "="
"""Begins the term of a word as it is written, which no stem can be."""

AskedTerm: TypeAlias = tuple[str, float, float]
"""A term, its weight, and the part of a word of the query that it covers: 1 for a word of the query itself."""


def index_terms(word: str) -> tuple[str, ...]:
    """Return the terms by which a word of a definition is found: its stem and as it is written, or one of the two.

    A stop word has no stem: it is kept as it is written, for queries of nothing else. Nor has a character, which is
    counted in the pairs that it is in. These pairs are kept as stems alone, as nobody writes them otherwise.
    """
    if word in STOP_WORDS or is_character(word):
        return (WRITTEN + word,)
    return (word,) if is_unspaced(word) else (stem(word), WRITTEN + word)


def asked_terms(
    query: str, is_known: Callable[[str], object], nearest: Callable[[str], Sequence[tuple[str, float]]]
) -> list[AskedTerm]:
    """Return the terms to look up for `query`: its words, known or not, and what definitions may have in their place.

    Args:
        query: Any text.
        is_known: Whether a tool has a term.
        nearest: Returns known stems that an unknown one may be a slip or a form of, each with its likeness.
    """
    query = query[:MAX_QUERY_LENGTH]
    spoken = list(words(query))
    content = [word for word in spoken if word not in STOP_WORDS]
    if not query.isascii():
        content.sort(key=is_character)  # of a long request rather all pairs of characters than half of both
    kept = dict.fromkeys(islice(dict.fromkeys(content or spoken), _MAX_WORDS))
    asked = [] if content else [(WRITTEN + word, 1.0, 1.0) for word in kept if is_known(WRITTEN + word)]
    content = [word for word in content if word in kept]
    stems = _weights(list(map(stem, content)), query)
    for word, weight in stems.items():
        asked.append((word, weight, 1.0))
        asked += [(other, weight * part, 0.0) for other, part in relatives(word)]
    unknown = (word for word in stems if not is_known(word) and not is_unspaced(word))
    for word in islice(unknown, MAX_CORRECTED):
        parts = [(other, _CORRECTED * likeness) for other, likeness in nearest(word)]
        asked += [(other, stems[word] * part, part) for other, part in parts]
    asked += [(WRITTEN + word, weight * _AS_WRITTEN, 0.0) for word, weight in _weights(content, query).items()]
    # Neighbors are looked up as one word, too: a request with `log out` may mean a tool with `logout`.
    written = list(map(str.casefold, runs(query)[:_MAX_WORDS]))
    pairs = [pair for pair in map(add, written, written[1:]) if len(pair) >= _SHORTEST_JOINED]
    if joined := dict.fromkeys([stem(pair) for pair in pairs if is_known(WRITTEN + pair)]):
        others = joined.keys() - {term for term, _, _ in asked}
        asked += [(term, _JOINED, 0.0) for term in joined if term in others and is_known(term)]
    return asked


@lru_cache(1_024)
def relatives(stemmed: str) -> tuple[tuple[str, float], ...]:
    """Return the stems that definitions may have in place of one, and how much each of them counts; mostly none."""
    related = [(other, _RELATED) for other in related_words(stemmed)]
    return (*related, *((other, _SPELLED_OUT) for other in spelled_out(stemmed)))


def _weights(said: Sequence[str], query: str) -> dict[str, float]:
    """Return the weights of the words or stems that `query` says: twice is less than two (k3 = 1 of Okapi BM25).

    A word of a script without spaces that touches a filler has half of it.
    """
    weights = dict.fromkeys(said, 1.0)
    if len(weights) < len(said):
        weights = {word: 2 * count / (count + 1) for word, count in Counter(said).items()}
    if not query.isascii() and (own := frozenset(words(without_fillers(query)))):
        weights |= {word: weights[word] * _BESIDE_FILLER for word in weights if is_unspaced(word) and word not in own}
    return weights
