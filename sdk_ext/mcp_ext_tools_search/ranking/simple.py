"""A ranker to read and copy: BM25 over the weighted fields of each definition, with stems, synonyms and typos.

The sum over the query's terms (`query.py`) gets a bonus for names that the query mentions, and a penalty for tools that
cover little of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log1p
from typing import Final

from mcp_types import Tool

from mcp_ext_tools_search.ranking import language
from mcp_ext_tools_search.ranking.fields import MEMBERS, STEPS, fields
from mcp_ext_tools_search.ranking.interface import Hit
from mcp_ext_tools_search.ranking.query import Translator, asked_terms, index_terms
from mcp_ext_tools_search.types import require_kind

SATURATION: Final = 1.5  # k1 of BM25: how much repetitions of a word add
LENGTH_PENALTY: Final = 0.7  # b of BM25: how much long definitions reduce scores
MAX_COUNTED: Final = 4  # maximum occurrences of a word in one field that count
_SCALE: Final = (SATURATION * STEPS + 1) / (SATURATION + 1)  # BM25Okapi counts in steps
NAME_BONUS: Final = 3.0  # bonus for a tool whose whole name the query mentions
MIN_FACTOR: Final = 0.65  # factor for a tool that covers nothing of the query


class SimpleIndex:
    """An immutable index of tools, which any number of threads may search at once."""

    def __init__(self, tools: Sequence[Tool], translator: Translator | None = None) -> None:
        self._translator = translator
        for tool in tools:
            require_kind("each of the tools", tool, Tool, instead="a Tool")
        self._tools = sorted(tools, key=lambda tool: tool.name)
        documents = [_document(tool) for tool in self._tools]
        self._members = [members for _, members, _ in documents]
        self._having: dict[str, list[int]] = {}
        for place, (counts, _, _) in enumerate(documents):
            for term in counts:
                self._having.setdefault(term, []).append(place)
        self._idf = {term: self._idf_of(len(having)) for term, having in self._having.items()}
        in_names = ([term for term in members["name"] if term[0] != "="] for members in self._members)
        self._name_idf = [sum(map(self._idf.__getitem__, stems)) or 1.0 for stems in in_names]
        if self._idf:
            from rank_bm25 import BM25Okapi  # it imports numpy, which a server that is never searched does not need

            corpus = [list(counts.elements()) for counts, _, _ in documents]
            self._okapi = BM25Okapi(corpus, k1=SATURATION * STEPS, b=LENGTH_PENALTY)
            self._okapi.idf = self._idf  # in Lucene's form, not in Okapi's
            # The corpus has each word twice, as its stem and as written, but it only counts once for the length.
            self._okapi.doc_len = [length for _, _, length in documents]
            self._okapi.avgdl = sum(self._okapi.doc_len) / len(documents) or 1.0

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the visible tools that share a meaningful word with `query`, best first. The first has score 1."""
        require_kind("query", query, str, instead="text")
        if visible is not None:
            # Statistics cover the whole index, and hidden tools must not affect them.
            return SimpleIndex([tool for tool in self._tools if tool.name in visible], self._translator).search(query)
        weights, covered, named, total = self._weighed(query)
        scores, name_share, query_share = (dict.fromkeys(range(len(self._tools)), 0.0) for _ in range(3))
        for term, weight in weights.items():
            having = self._having[term]
            for place, score in zip(having, self._okapi.get_batch_scores([term], having), strict=True):
                scores[place] += weight * score
                query_share[place] += covered[term] / total
                name_share[place] += named[term] / self._name_idf[place] * (term in self._members[place]["name"])
        for place in scores:
            scores[place] += NAME_BONUS * _SCALE * min(name_share[place], 1.0)
            scores[place] *= MIN_FACTOR + (1 - MIN_FACTOR) * min(query_share[place], 1.0)
        best = max(scores.values(), default=0.0)
        # Rounded, because the last digits depend on the order of additions; equal scores are ordered by name.
        ranked = sorted((-round(score / best, 9), place) for place, score in scores.items() if score)
        return [Hit(self._tools[place].name, -score, self._matched(place, weights)) for score, place in ranked]

    def _weighed(self, query: str) -> tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float], float]:
        """Return the weights of known terms, the idf that each covers of query and name, and the idf of all words."""
        weights, covered, named = (defaultdict[str, float](float) for _ in range(3))
        total = 0.0
        nearest = partial(language.nearest, known=self._idf)
        for term, weight, covers, names in asked_terms(query, self._idf.__contains__, nearest, self._translator):
            if (idf := self._idf.get(term)) is not None:
                weights[term] += weight
                covered[term] += covers * idf
                named[term] += names * idf
            if covers == 1.0 and not (idf is None and language.is_character(term)):
                total += self._idf_of(0) if idf is None else idf
        return weights, covered, named, total or 1.0

    def _matched(self, place: int, terms: Collection[str]) -> tuple[str, ...]:
        return tuple(member for member, own in self._members[place].items() if not own.isdisjoint(terms))

    def _idf_of(self, having: int) -> float:
        """Return the inverse document frequency in Lucene's form, which is positive however common a word is."""
        return log1p((len(self._tools) - having + 0.5) / (having + 0.5))


@dataclass(frozen=True)
class SimpleRanker:
    """The port's default ranker, for catalogs of hundreds of tools. Tests compare faster rankers with it."""

    translator: Translator | None = None

    def __call__(self, tools: Sequence[Tool], /) -> SimpleIndex:
        """Index `tools`, whose names are unique."""
        return SimpleIndex(tools, self.translator)


def _document(tool: Tool) -> tuple[Counter[str], dict[str, set[str]], float]:
    """Return how often each term counts in a definition, the terms of each of its members, and its length."""
    counts, members, length = Counter[str](), {member: set[str]() for member in MEMBERS}, 0.0
    for field in fields(tool):
        steps = int(field.weight * STEPS)
        for word, count in Counter(word for text in field.texts for word in language.words(text)).items():
            terms = index_terms(word)
            members[field.member].update(terms)
            counts.update(dict.fromkeys(terms, min(count, MAX_COUNTED) * steps))
            length += count * steps if terms[0][0] != "=" else 0
    return counts, members, length
