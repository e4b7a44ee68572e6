"""From the text of a request to the terms to look up, each with its weight.

A word matches by its stem, as written, through related words and abbreviations, and if no tool has it, through known
words of which it may be a misspelling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final, NamedTuple, TypeAlias

from mcp_ext_tools_search.ranking import language
from mcp_ext_tools_search.ranking.language import STOP_WORDS, is_character, is_unspaced, relatives, runs, stem

MAX_QUERY_LENGTH: Final = 8_192  # characters of a query that are read
MAX_CORRECTED: Final = 12  # unknown words of a query for which similar ones are looked up
_MAX_WORDS: Final = 128  # distinct ones: a request needs no more, and an attack gets no more
_SHORTEST_JOINED: Final = 5

# Weights of terms, relative to the stem of a word of the query.
AS_WRITTEN, CORRECTED, JOINED = 0.5, 0.8, 0.5
OF_UNKNOWN: Final = 3.0  # factor for relatives of a word that no tool has
_OF_SHORT, _SHORT = 2.0, 8  # factor of up to 2 for relatives in queries of fewer than 8 words, which say little else
OF_TRANSLATED: Final = 3.0  # factor for relatives of a translation, for which tools often use another word
_BESIDE_FILLER: Final = 0.5

WRITTEN: Final = "="
"""Prefix of terms for words as written, which no stem has."""

AskedTerm: TypeAlias = tuple[str, float, float, float]
"""A term, its weight, and the shares that it covers of a word of the query (1 for the word itself) and of a name."""

Runs: TypeAlias = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Runs of letters and digits, case folded, each with its words and their stems, without stop words."""


class Translation(NamedTuple):
    """A query in another language, in the words of definitions."""

    runs: Runs  # with the English translations of each, and without function words
    foreign: frozenset[str]  # stems of words that have translations; they only count if a tool has them
    english: Mapping[str, float]  # words and stems of translations, with their weight relative to the original


Translator: TypeAlias = Callable[[Runs], Translation | None]  # `None` in English, or if it does not know the language


class Request(NamedTuple):
    """A parsed query, independent of any index."""

    runs: Runs
    stems: Mapping[str, float]  # with their weights
    written: Mapping[str, float]  # words with their weights; stop words only if there are no others
    pairs: Sequence[str]  # neighbors written as one word: `log out` may mean a tool with `logout`
    related: Mapping[str, float]  # the stems and pairs, with the weights of their relatives
    foreign: frozenset[str]  # as in the translation


def index_terms(word: str) -> tuple[str, ...]:
    """Return the terms that find a word of a definition: its stem, the word as written, or both.

    A stop word is only indexed as written, for queries that have no other words. So is a single character, which also
    counts in pairs with its neighbors. These pairs are only indexed as stems, because they have no other spelling.
    """
    if word in STOP_WORDS or is_character(word):
        return (WRITTEN + word,)
    return (stem(word), WRITTEN + word) if word.isascii() or not is_unspaced(word) else (word,)


def asked_terms(
    query: str,
    is_known: Callable[[str], object],
    nearest: Callable[[str], Sequence[tuple[str, float]]],
    translator: Translator | None = None,
) -> list[AskedTerm]:
    """Return the terms to look up for `query`: its words, known or not, and words that definitions may use instead.

    Args:
        query: Any text.
        is_known: Whether a tool has a term.
        nearest: Returns known stems that are similar to an unknown one, each with its similarity.
        translator: For queries in other languages than the definitions.
    """
    _, stems, written, pairs, related, foreign = read(query, translator)
    own = {word: stems[word] for word in stems if word not in foreign or is_known(word)} if foreign else stems
    asked = [] if stems else [(WRITTEN + word, 1.0, 1.0, 1.0) for word in written if is_known(WRITTEN + word)]
    asked += [(word, weight, 1.0, 1.0) for word, weight in own.items()]
    for word, weight in related.items():
        worth = weight if is_known(word) else weight * OF_UNKNOWN
        asked += [(other, worth * part, 0.0, 1.0) for other, part in relatives(word)]
    unknown = (word for word in own if not is_known(word) and not is_unspaced(word))
    for word in islice(unknown, MAX_CORRECTED):
        asked += [(other, stems[word] * (part := CORRECTED * near), part, part) for other, near in nearest(word)]
    if stems:
        asked += [(WRITTEN + word, weight * AS_WRITTEN, 0.0, 0.0) for word, weight in written.items()]
    joined = dict.fromkeys([stem(pair) for pair in pairs if is_known(WRITTEN + pair)])
    found = {term for term, *_ in asked}
    return asked + [(term, JOINED, 0.0, 0.0) for term in joined if term not in found and is_known(term)]


@lru_cache(64)  # several indexes read the same query, and again for each page
def read(query: str, translator: Translator | None = None) -> Request:
    """Parse `query`."""
    query = query[:MAX_QUERY_LENGTH]
    found: Runs = list(map(_plain_run if query.isascii() else _run, runs(query)))
    found, foreign, english = (translator and translator(found)) or Translation(found, frozenset(), {})
    said = [word for _, own in found for word in own]
    if not query.isascii():
        said.sort(key=lambda word: is_character(word[0]))  # pairs first, so that the limit cuts single characters
    if len(said) > _MAX_WORDS:
        kept = frozenset(islice(dict.fromkeys(said), _MAX_WORDS))
        said = [word for word in said if word in kept]
    written = [word for word, _ in said] or list(islice(dict.fromkeys(language.words(query)), _MAX_WORDS))
    pairs = [a + b for (a, _), (b, _) in pairwise(found[:_MAX_WORDS]) if len(a + b) >= _SHORTEST_JOINED]
    stems = _weights([root for _, root in said], query, english)
    counted = {**dict.fromkeys(pairs, 1.0), **stems} if stems else {}
    share = min(max(_SHORT / max(len(stems), 1), 1.0), _OF_SHORT)
    return Request(
        runs=found,
        stems=stems,
        written=_weights(written, query, english),
        pairs=pairs,
        related={word: weight * (OF_TRANSLATED if word in english else share) for word, weight in counted.items()},
        foreign=foreign,
    )


def _run(run: str) -> tuple[str, Sequence[tuple[str, str]]]:
    return run.casefold(), [(word, stem(word)) for word in language.words_of(run) if word not in STOP_WORDS]


_plain_run: Final = lru_cache(4_096)(_run)  # ASCII runs are short enough to be cached


def _weights(said: Sequence[str], query: str, english: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the words or stems in `query`. Repetitions add less than 1 each (k3 = 1 of Okapi BM25).

    A word in a script without spaces counts half if it touches a filler. A translation has its relative weight.
    """
    weights = dict.fromkeys(said, 1.0)
    if len(weights) < len(said):
        weights = {word: 2 * count / (count + 1) for word, count in Counter(said).items()}
    if not query.isascii() and (own := frozenset(language.words(language.without_fillers(query)))):
        weights |= {word: weights[word] * _BESIDE_FILLER for word in weights if is_unspaced(word) and word not in own}
    return {word: weight * english.get(word, 1.0) for word, weight in weights.items()} if english else weights
