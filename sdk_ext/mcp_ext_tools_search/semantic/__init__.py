"""Ranking by meaning beside words: optional, with a model of your choice. Nothing else in the package imports this."""

from mcp_ext_tools_search.semantic.embedder import Embed, Embedder, EmbedderError, is_latin
from mcp_ext_tools_search.semantic.ranker import SemanticRanker

__all__ = ["Embed", "Embedder", "EmbedderError", "SemanticRanker", "is_latin"]
