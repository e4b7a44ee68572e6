"""The confidence of the default ranking that its first tool serves a request at all.

Every lexical ranking finds something for any request. Whether it fits shows in how much of the request the tools cover,
where, and with which words: a logistic regression of eight such signs. Its weights are fitted to requests of public
sets, and to requests that were put to another set's tools (`python -m benchmarks.retrieval --fit`).
"""

from __future__ import annotations

from math import exp, log
from operator import mul
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import STEPS
from mcp_ext_tools_search.ranking.simple import SATURATION
from numpy.typing import NDArray

from tools_search_ranking.postings import IN_NAME, steps_of
from tools_search_ranking.score import Scores

COMPARED: Final = 5
"""Best tools that are looked at."""

_MAX_TOOLS: Final = 2_500
"""The size of the largest set that the weights are fitted to: beyond it the effect of more tools is not known."""

_MAX_WORDS: Final = 50
"""More than 99 % of the requests have that the weights are fitted to. Text that is pasted into one is mostly longer."""

_LITTLE: Final = 0.1


class Signs(NamedTuple):
    """The signs that a tool serves a request. Other words than those of the request count where it is said."""

    strong_evidence: float
    """Logarithm of what the first tool has in common with the request in its name, title, first sentence and labels, or
    in words that it repeats."""

    shared_evidence: float
    """Mean of what the first tools have in common with the request: a tool that fits is rarely alone."""

    score: float
    """BM25 of the first tool by the words of the request, in the idf of a word that no tool has."""

    name_share: float
    """Part of the first tool's name that the request itself says."""

    other_share: float
    """Part of the first tool's name that other words for those of the request say."""

    query_share: float
    """Part of the request that the first tool covers."""

    size: float
    """Number of words of the request, generic ones for half, 50 at most: of more words, more is found by chance."""

    tools: float
    """Logarithm of the number of tools that are not alike, 2,500 at most: among many, more is found by chance."""


WEIGHTS: Final = (
    0.129,
    Signs(
        strong_evidence=0.263,
        shared_evidence=1.634,
        score=0.697,
        name_share=1.082,
        other_share=1.739,
        query_share=2.814,
        size=-0.086,
        tools=-0.541,
    ),
)
"""Intercept and weights of the logistic regression."""


def confidence(found: tuple[float, ...] | None, weights: tuple[float, tuple[float, ...]] = WEIGHTS) -> float:
    """Return in [0, 1] how likely it is that a tool serves the request; 1 where there are no signs.

    Args:
        found: The signs, which need not be these.
        weights: Intercept and slopes that were fitted to such signs.
    """
    if found is None:
        return 1.0
    intercept, slopes = weights
    return 1 / (1 + exp(-intercept - sum(map(mul, slopes, found))))


def signs(scores: Scores, *, with_others: bool = True) -> Signs | None:
    """Read the signs in the scores of a query, which may have found nothing; only visible tools count.

    What the tools after the first have in common with the request speaks for them if anything, and most queries are
    sure enough without it, for a fraction of the cost.

    Returns:
        Nothing where the signs cannot be read: the query has words of a script without spaces, or none that says
        anything.
    """
    query, statistics, first = scores.query, scores.statistics, scores.first
    if query.size is None:
        return None
    found = Signs(
        strong_evidence=log(_LITTLE),
        shared_evidence=0.0,
        score=0.0,
        name_share=0.0,
        other_share=0.0,
        query_share=0.0,
        size=min(query.size, _MAX_WORDS),
        tools=log(min(statistics.distinct, _MAX_TOOLS)),
    )
    if first is None:
        return found
    # Terms that cover a part of the request come first, then others that a name may have in their place.
    ends = scores.counts[: len(query.naming)].cumsum()
    own = (scores.slots[: int(ends[-1]) if len(ends) else 0] == first).nonzero()[0]
    terms: NDArray[np.int64] = np.asarray(np.searchsorted(ends, own, side="right"), dtype=np.int64)
    postings, is_said = scores.postings[own], terms < len(query.covered)
    names = np.array(query.naming)[terms] * (postings & IN_NAME > 0) / statistics.name_idf[first]
    name_share = min(float(names[is_said].sum()), 1.0)
    postings, terms = postings[is_said], terms[is_said]
    steps = steps_of(postings).astype(np.float64)
    by_term = np.array(query.values)[terms] * (SATURATION + 1) * steps / (steps + statistics.saturation[first])
    found = found._replace(
        strong_evidence=log(_LITTLE + float(np.array(query.evidence)[terms[steps >= STEPS]].sum())),
        score=float(by_term.sum()) / statistics.rarest_of_distinct,
        name_share=name_share,
        other_share=min(float(names.sum()), 1.0) - name_share,
        query_share=min(float(np.array(query.covered)[terms].sum()) / (query.total_idf or 1.0), 1.0),
    )
    if not with_others:
        return found
    evidence = np.array(query.evidence).repeat(scores.covering)
    of_best = np.bincount(scores.slots[: len(evidence)], evidence, len(scores.total)).take(scores.best(COMPARED))
    return found._replace(shared_evidence=float(of_best.mean()))


def is_sure(scores: Scores, least: float) -> bool:
    """Return whether it is at least so likely that a tool serves the query that was scored."""
    return confidence(signs(scores, with_others=False)) >= least or confidence(signs(scores)) >= least
