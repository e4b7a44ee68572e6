"""How sure words and meaning together may be that any tool serves a request.

Words alone cannot tell a request that says it in other words from one that does not belong here. So two signs of
meaning join those of words (`ranking/confidence.py`) in one logistic regression, fitted in the same way
(`benchmarks/nothing`). Cosines of two models are not alike, so the weights belong to a model.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["SemanticSigns", "Weights"]


class SemanticSigns(NamedTuple):
    """What tells a request that a tool serves from one that none does: first the signs of words."""

    evidence: float
    strong_evidence: float
    shared_evidence: float
    score: float
    said: float
    size: float
    tools: float

    cosine: float
    """Of the query and one of the first tools, the most that there is."""

    sentences: float
    """Number of sentences of the query that were compared: of more, one is near by chance."""


Weights: TypeAlias = tuple[float, SemanticSigns]
"""Intercept and slopes of a logistic regression."""
