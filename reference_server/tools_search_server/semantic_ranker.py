"""Ranking by meaning beside words, where an operator asks for it and the extra is there."""

from __future__ import annotations

from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.semantic import SemanticRanker
from mcp_ext_tools_search.semantic.minilm import MissingExtra, minilm

from tools_search_server.listing_cache import cache_folder
from tools_search_server.mendable import Mendable

__all__ = ["semantic_ranker"]


def semantic_ranker() -> Ranker:
    """Return a ranker that keeps its vectors among this user's caches; its model is loaded when it is first needed.

    Raises:
        Mendable: The extra is not installed.
    """
    try:
        return SemanticRanker(minilm(), folder=cache_folder())
    except MissingExtra as error:
        raise Mendable("--semantic", "", "cannot be served", str(error)) from None
