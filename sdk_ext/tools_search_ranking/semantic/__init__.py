"""Optional ranking by meaning in addition to words, with any model. Only the vectors in PostgreSQL need it too."""

from tools_search_ranking.semantic.embedder import Embed, Embedder, EmbedderError, is_latin
from tools_search_ranking.semantic.index import SemanticRanker

__all__ = ["Embed", "Embedder", "EmbedderError", "SemanticRanker", "is_latin"]
