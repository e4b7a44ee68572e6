"""Ranking by meaning beside words: optional, with a model of your choice. Nothing else in the package imports this."""

from tools_search_ranking.semantic.embedder import Embed, Embedder, EmbedderError, is_latin
from tools_search_ranking.semantic.ranker import SemanticRanker

__all__ = ["Embed", "Embedder", "EmbedderError", "SemanticRanker", "is_latin"]
