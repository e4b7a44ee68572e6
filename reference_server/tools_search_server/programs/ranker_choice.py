"""What orders what a search finds, as an operator asks for it."""

from __future__ import annotations

from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import ConfigurationError
from tools_search_ranking import default_ranker
from tools_search_ranking.semantic import SemanticRanker
from tools_search_ranking.semantic.minilm import MissingExtraError, minilm

from tools_search_server.upstreams.listing_cache import cache_folder

__all__ = ["chosen_ranker"]


def chosen_ranker(*, semantic: bool, least_confidence: float | None) -> Ranker:
    """Return the default ranker, or the one by meaning, whose model is loaded when it is first needed.

    Args:
        semantic: Whether meaning counts beside words; vectors are kept among this user's caches.
        least_confidence: Where it is less likely that any tool fits, nothing is found.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    lexical = default_ranker(least_confidence)
    if not semantic:
        return lexical
    try:
        return SemanticRanker(minilm(), lexical=lexical, folder=cache_folder())
    except MissingExtraError as error:
        raise ConfigurationError("--semantic", [str(error)]) from None
