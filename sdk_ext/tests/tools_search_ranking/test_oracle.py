"""Without fields, stems and everything else that it adds, the default engine scores as rank-bm25 does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.fields import STEPS
from mcp_ext_tools_search.ranking.terms import terms
from mcp_types import Tool
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi
from tools_search_ranking.postings import MOST, Entries, Postings, Segment
from tools_search_ranking.query import WeighedQuery
from tools_search_ranking.score import MIN_FACTOR, score
from tools_search_ranking.statistics import SATURATION, Statistics

_WORD = st.sampled_from(["get", "list", "user", "file", "weather", "café", "天气", "v2", "report", "mail"])
_B = 0.75
"""That of rank-bm25."""

_TEXT = st.lists(_WORD, min_size=1, max_size=12).map(" ".join)


@given(texts=st.lists(_TEXT, min_size=3, max_size=10), query=_TEXT, parts=st.integers(1, 3))
def test_the_plain_engine_is_rank_bm25(texts: Sequence[str], query: str, parts: int):
    tools = [Tool(name=f"t{place}", description=text, input_schema={}) for place, text in enumerate(texts)]
    words = [terms(f"{tool.name} {tool.description}") for tool in tools]
    okapi = BM25Okapi(words, b=_B)
    # Where most words are in most tools Okapi's idf is negative, and everything is upside down.
    assume(all(idf > 0 for idf in okapi.idf.values()))
    scores = _scores(words, okapi.idf, terms(query), parts)
    assert scores == pytest.approx(okapi.get_scores(terms(query)), rel=1e-6)


def _scores(
    words: Sequence[Sequence[str]], idf: Mapping[str, float], query: Sequence[str], parts: int
) -> NDArray[np.float64]:
    """Return what the engine makes of documents whose words all count 1, its index made in some parts."""
    numbers = {term: number for number, term in enumerate(idf)}
    postings = Postings(range(MOST))
    for slots in np.array_split(np.arange(len(words)), parts):
        texts = words[slots[0] : slots[-1] + 1]
        counted = [
            (numbers[word], slot, count)
            for slot, text in zip(slots, texts, strict=True)
            for word, count in Counter(text).items()
        ]
        own, having, counts = np.array(counted, dtype=np.int64).T
        postings = postings.with_added(Segment.of(own, own, Entries.of(having, counts * STEPS, np.zeros_like(own))))
    counts = Counter(word for word in query if word in numbers)
    if not counts:
        return np.zeros(len(words))
    looked_up = [numbers[word] for word in counts]
    weighed = WeighedQuery(looked_up, [count * idf[word] for word, count in counts.items()])
    all_lengths = np.array([len(own) for own in words], dtype=np.float64)
    saturations = STEPS * SATURATION * (1 - _B + _B * all_lengths / all_lengths.mean())
    statistics = Statistics(None, np.zeros(0), 0.0, len(words), 0.0, saturations, np.ones(len(words)))
    # A tool that covers nothing of a query has a constant part of its score.
    return score(postings.of(looked_up), statistics, weighed).total / MIN_FACTOR
