"""The ranking engine: an index of weighted fields for thousands of tools, with language support and confidence."""

from tools_search_ranking.ranker import (
    DEFAULT_LEAST_CONFIDENCE,
    FieldedRanker,
    UpdatableIndex,
    default_ranker,
    never_silent,
    unknown_words,
)

__all__ = [
    "DEFAULT_LEAST_CONFIDENCE",
    "FieldedRanker",
    "UpdatableIndex",
    "default_ranker",
    "never_silent",
    "unknown_words",
]
