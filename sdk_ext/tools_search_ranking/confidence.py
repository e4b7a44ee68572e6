"""The default ranking's confidence that its first tool serves a request at all.

A lexical ranking finds something for any request. Whether it fits depends on how much of the request the tools cover,
and among how many. A logistic regression combines four such signs. Its weights are fitted to requests from public data
sets and for invented tools, and to requests paired with the tools of another set (`python -m benchmarks.retrieval
--fit`).
"""

from __future__ import annotations

from math import exp, log
from operator import mul
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tools_search_ranking.score import Scores

COMPARED: Final = 5
"""Number of best tools that are examined."""

_MAX_TOOLS: Final = 2_500
"""The size of the largest set that the weights were fitted to. Beyond it, the effect of more tools is unknown."""


class Signs(NamedTuple):
    """The signs that a tool serves a request."""

    score: float
    """Score of the first tool, relative to the idf of a word that no tool has."""

    shared_evidence: float
    """Mean overlap of the first tools with the request's own words: a tool that fits is rarely alone."""

    query_share: float
    """Share of the request that the first tool covers."""

    tools: float
    """Logarithm of the number of distinct tools, at most 2,500. Among more tools, more match by chance."""


WEIGHTS: Final = (0.32, Signs(score=0.685, shared_evidence=0.896, query_share=2.769, tools=-0.567))
"""Intercept and weights of the logistic regression."""


def confidence(found: tuple[float, ...] | None, weights: tuple[float, tuple[float, ...]] = WEIGHTS) -> float:
    """Return the probability that a tool serves the request, in [0, 1]; 1 if there are no signs.

    `weights` are an intercept and slopes that were fitted to these signs, which may be others than `Signs`.
    """
    if found is None:
        return 1.0
    intercept, slopes = weights
    return 1 / (1 + exp(-intercept - sum(map(mul, slopes, found))))


def signs(scores: Scores, *, with_others: bool = True) -> Signs | None:
    """Compute the signs from the scores of a query, which may have found nothing. Only visible tools count.

    The overlap of the tools after the first can only raise the confidence. Most queries are sure enough without it, at
    a fraction of the cost, so `with_others=False` skips it.

    Returns:
        `None` if there are no signs, because the query has words in a script without spaces, or no meaningful words.
    """
    query, statistics, first = scores.query, scores.statistics, scores.first
    if not query.is_judged:
        return None
    found = Signs(score=0.0, shared_evidence=0.0, query_share=0.0, tools=log(min(statistics.distinct, _MAX_TOOLS)))
    if first is None:
        return found
    ends = scores.covering.cumsum()
    own = (scores.slots[: int(scores.covering.sum())] == first).nonzero()[0]
    terms: NDArray[np.int64] = np.asarray(np.searchsorted(ends, own, side="right"), dtype=np.int64)
    found = found._replace(
        score=float(scores.total[first]) / statistics.rarest_of_distinct,
        query_share=min(float(np.array(query.covered)[terms].sum()) / (query.total_idf or 1.0), 1.0),
    )
    if not with_others:
        return found
    evidence = np.array(query.evidence).repeat(scores.covering)
    of_best = np.bincount(scores.slots[: len(evidence)], evidence, len(scores.total)).take(scores.best(COMPARED))
    return found._replace(shared_evidence=float(of_best.mean()))


def is_sure(scores: Scores, least: float) -> bool:
    """Return whether the confidence that a tool serves the scored query is at least `least`."""
    return confidence(signs(scores, with_others=False)) >= least or confidence(signs(scores)) >= least
