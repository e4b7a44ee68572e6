"""Catalogs in PostgreSQL that implement the ranking interface, for more tools than fit in one process."""

from tools_search_ranking.postgres.importing import (
    ImportingError,
    ToolEntry,
    import_catalog,
    reindex_catalog,
    update_catalog,
)
from tools_search_ranking.postgres.index import (
    Excerpt,
    PostgresIndex,
    PostgresPool,
    UnanswerableError,
    UnavailableError,
    UnknownCatalogError,
    UnreachableError,
    refusal,
)
from tools_search_ranking.postgres.meaning import embed_catalog, embedder_key, require_vectors, served_generation
from tools_search_ranking.postgres.schema import SchemaError, migrate

__all__ = [
    "Excerpt",
    "ImportingError",
    "PostgresIndex",
    "PostgresPool",
    "SchemaError",
    "ToolEntry",
    "UnanswerableError",
    "UnavailableError",
    "UnknownCatalogError",
    "UnreachableError",
    "embed_catalog",
    "embedder_key",
    "import_catalog",
    "migrate",
    "refusal",
    "reindex_catalog",
    "require_vectors",
    "served_generation",
    "update_catalog",
]
