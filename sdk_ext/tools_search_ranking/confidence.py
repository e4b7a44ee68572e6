"""The default ranking's confidence that its first tool serves a request at all.

A lexical ranking finds something for any request. Whether it fits depends on how much of the request the tools cover,
where, and with which words. A logistic regression combines eight such signs. Its weights are fitted to requests from
public data sets, and to requests paired with the tools of another set (`python -m benchmarks.retrieval --fit`).
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
"""Number of best tools that are examined."""

_MAX_TOOLS: Final = 2_500
"""The size of the largest set that the weights were fitted to. Beyond it, the effect of more tools is unknown."""

_MAX_WORDS: Final = 50
"""More than 99 % of the requests that the weights were fitted to have no more. Pasted text is usually longer."""

_LITTLE: Final = 0.1


class Signs(NamedTuple):
    """The signs that a tool serves a request. Only the request's own words count, unless stated otherwise."""

    strong_evidence: float
    """Logarithm of the first tool's overlap with the request in its name, title, first sentence and labels, or in words
    that it repeats."""

    shared_evidence: float
    """Mean overlap of the first tools with the request: a tool that fits is rarely alone."""

    score: float
    """BM25 of the first tool for the request's words, relative to the idf of a word that no tool has."""

    name_share: float
    """Share of the first tool's name that the request's words cover."""

    other_share: float
    """Share of the first tool's name that relatives of the request's words cover."""

    query_share: float
    """Share of the request that the first tool covers."""

    size: float
    """Number of words in the request, counting generic ones as half, at most 50. More words match more by chance."""

    tools: float
    """Logarithm of the number of distinct tools, at most 2,500. Among more tools, more match by chance."""


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
    # Terms that cover part of the request come first, then relatives that a name may have instead.
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
    """Return whether the confidence that a tool serves the scored query is at least `least`."""
    return confidence(signs(scores, with_others=False)) >= least or confidence(signs(scores)) >= least
