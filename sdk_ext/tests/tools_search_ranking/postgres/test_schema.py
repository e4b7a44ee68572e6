"""A program update that changes the schema keeps the catalogs of a database."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, LiteralString
from unittest.mock import patch

import psycopg
import pytest
from mcp_types import Tool
from tools_search_ranking.postgres import PostgresIndex, import_catalog, migrate, schema
from tools_search_ranking.postgres.schema import NAMES

from .conftest import entries

_TOOLS = [
    Tool(name=name, description=f"{name.capitalize()} a report of the weather.", input_schema={"type": "object"})
    for name in ("read", "write", "delete")
]
_NEXT, _AFTER = "0100_next.sql", "0101_after.sql"
_LATER: Mapping[str, LiteralString] = {
    _NEXT: "alter table tool add column note text",
    _AFTER: "update tool set note = 'of an earlier version'",
}


@pytest.fixture
def connection(address: str) -> Generator[psycopg.Connection[Any]]:
    """A connection to a database with a catalog that this version has written."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop schema tools_search cascade")
        migrate(connection)
        import_catalog(connection, "catalog", entries(_TOOLS))
        yield connection


def _migrate(connection: psycopg.Connection[Any], later: Mapping[str, LiteralString]) -> None:
    """Migrate as a version of the program that has more migrations does."""
    all_migrations = {**schema.migrations(), **later}
    with patch.object(schema, "migrations", lambda: all_migrations), patch.object(schema, "NAMES", (*all_migrations,)):
        migrate(connection)


def _found(connection: psycopg.Connection[Any]) -> list[tuple[str, float]]:
    hits = PostgresIndex(connection, "catalog").first("read the weather", 10).hits
    return [(hit.name, hit.score) for hit in hits]


def test_an_update_adds_the_new_migrations_once_and_keeps_catalogs(connection: psycopg.Connection[Any]):
    found = _found(connection)
    for _ in range(2):
        _migrate(connection, _LATER)
        assert tuple(schema.read_names(connection)) == (*NAMES, *_LATER)
    assert connection.execute("select distinct note from tools_search.tool").fetchall() == [("of an earlier version",)]
    assert "update the program" in str(schema.problem_of(schema.read_names(connection)))
    connection.execute("delete from tools_search.migration where name = any (%s)", [list(_LATER)])
    assert _found(connection) == found


def test_a_migration_that_fails_leaves_the_earlier_ones_and_is_repeated(connection: psycopg.Connection[Any]):
    found = _found(connection)
    failing: Mapping[str, LiteralString] = {**_LATER, _AFTER: "drop table document cascade; select 1 / 0"}
    with pytest.raises(psycopg.errors.DivisionByZero):
        _migrate(connection, failing)
    assert tuple(schema.read_names(connection)) == (*NAMES, _NEXT)
    _migrate(connection, _LATER)
    connection.execute("delete from tools_search.migration where name = any (%s)", [list(_LATER)])
    assert _found(connection) == found
