"""The confidence of the default ranking that its first tool serves a request at all.

Every lexical ranking finds something for any request. Whether it fits shows in how much of the request the tools cover,
where, and with which words: a logistic regression of seven such signs. Its weights are fitted to requests of public
sets, and to requests that were put to another set's tools (`python -m benchmarks.retrieval --fit`).
"""

from __future__ import annotations

from math import exp, log
from operator import mul
from typing import Final, NamedTuple

import numpy as np
from mcp_ext_tools_search.ranking.fields import STEPS

from tools_search_ranking.postings import steps_of
from tools_search_ranking.score import Scores

COMPARED: Final = 5
"""Best tools that are looked at."""

_MAX_TOOLS: Final = 2_500
"""The size of the largest set that the weights are fitted to: beyond it the effect of more tools is not known."""

_MAX_WORDS: Final = 50
"""More than 99 % of the requests have that the weights are fitted to. Text that is pasted into one is mostly longer."""

_LITTLE: Final = 0.1
_WHOLE: Final = 1 - 1e-9


class Signs(NamedTuple):
    """The signs that a tool serves a request."""

    evidence: float
    """Logarithm of the most that one of the first tools has in common with the request."""

    strong_evidence: float
    """The same for the first tool, of its name, title, first sentence and labels, or of words that it repeats."""

    shared_evidence: float
    """Mean of the evidence of the first tools: a tool that fits is rarely alone."""

    score: float
    """Score of the first tool, in the idf of a word that no tool has."""

    name_share: float
    """Part of the first tool's name that the request says."""

    size: float
    """Number of words of the request, generic ones for half, 50 at most: of more words, more is found by chance."""

    tools: float
    """Logarithm of the number of tools that are not alike, 2,500 at most: among many, more is found by chance."""


WEIGHTS: Final = (
    1.82,
    Signs(
        evidence=0.222,
        strong_evidence=0.341,
        shared_evidence=1.679,
        score=0.981,
        name_share=1.024,
        size=-0.12,
        tools=-0.748,
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


def signs(scores: Scores, *, with_evidence: bool = True) -> Signs | None:
    """Read the signs in the scores of a query, which may have found nothing; only visible tools count.

    Evidence speaks for a tool if anything, and most queries are sure enough without it, for a fraction of the cost.

    Returns:
        Nothing where the signs cannot be read, or need not be: the query has words of a script without spaces or mere
        stop words, or a tool has all of its words, so that the matching floor may hold it.
    """
    query, statistics, first = scores.query, scores.statistics, scores.first
    if query.size is None:
        return None
    least = Signs(
        evidence=log(_LITTLE),
        strong_evidence=log(_LITTLE),
        shared_evidence=0.0,
        score=0.0 if first is None else float(scores.total[first]) / statistics.rarest_of_distinct,
        name_share=0.0 if first is None else float(scores.name_share[first]),
        size=min(query.size, _MAX_WORDS),
        tools=log(min(statistics.distinct, _MAX_TOOLS)),
    )
    if first is None or not with_evidence:
        return least
    covered = scores.query_share if statistics.visible is None else scores.query_share[statistics.visible]
    if covered.max() >= _WHOLE:
        return None
    evidence = np.array(query.evidence).repeat(scores.covering)
    slots = scores.slots[: len(evidence)]
    own = np.flatnonzero(slots == first)
    strong = own[steps_of(scores.postings[own]) >= STEPS]
    of_best = np.bincount(slots, evidence, len(scores.total)).take(scores.best(COMPARED))
    return least._replace(
        evidence=log(_LITTLE + float(of_best.max())),
        strong_evidence=log(_LITTLE + float(evidence.take(strong).sum())),
        shared_evidence=float(of_best.mean()),
    )


def is_sure(scores: Scores, least: float) -> bool:
    """Return whether it is at least so likely that a tool serves the query that was scored."""
    return confidence(signs(scores, with_evidence=False)) >= least or confidence(signs(scores)) >= least
