"""Catalogs in PostgreSQL: the same answers as in memory, and how they scale."""
