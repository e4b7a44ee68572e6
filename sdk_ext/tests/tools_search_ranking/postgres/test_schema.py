"""A catalog that an earlier version of this program has written is, once it is migrated, like one imported today."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from random import Random
from typing import Any, Final, LiteralString
from unittest.mock import patch
from urllib.parse import urlsplit

import psycopg
import pytest
from mcp_types import Tool
from psycopg import sql
from tools_search_ranking.postgres import PostgresIndex, import_catalog, migrate, schema, update_catalog
from tools_search_ranking.postgres.schema import NAMES

from .conftest import SECONDS, entries

_WORDS = """
    list read write delete user file report calendar mail invoice repository weather forecast city
    """
_CALLERS: Sequence[Sequence[str] | None] = (None, (), ["red"], ["green", "blue"])
_QUERIES = ("read file", "delete the report of a user", "wether forecast", "tool_7", "list", "zeppelin")
_FIRST_WITH_READERS, _FIRST_PACKED, _FIRST_ORDERED = 3, 4, 5

_COPIED: Final[Mapping[str, LiteralString]] = {
    "tool": "generation, id, name, audience, digest, definition, answer",
    "document": "generation, tool, name, audience, length, terms, uses, floor, floor_members",
    "term": "generation, id, key, tools, audiences, counts, start, slips",
    "posting": "generation, term, level, block, postings",
}
_UNPACKED: Final[Mapping[str, LiteralString]] = {
    **_COPIED,
    "document": """generation, tool, name, audience, length, terms, floor, floor_members,
        array(select term from unnest(terms, uses) own (term, used) where used & 64 > 0) as named,
        array(select used >> 7 from unnest(uses) with ordinality own (used, place) order by place) as steps,
        array(select used & 63 from unnest(uses) with ordinality own (used, place) order by place) as members""",
    "posting": """generation, term, level, block,
        array(select (one & 2147483647)::int from unnest(postings) with ordinality own (one, n) order by n) as tools,
        array(select one >> 31 & 8191 from unnest(postings) with ordinality own (one, n) order by n) as impacts,
        array(select (one >> 44)::int from unnest(postings) with ordinality own (one, n) order by n) as audiences""",
}
"""The columns before they were packed, from the tables of today."""

_OF_SCHEMA: Final[Mapping[str, LiteralString]] = {
    "columns": """select relname, attname, atttypid::regtype::text, attnotnull, coalesce(attstattarget, -1)
        from pg_attribute join pg_class on pg_class.oid = attrelid
        where relnamespace = 'tools_search'::regnamespace and relkind in ('r', 'p') and attnum > 0
            and not attisdropped""",
    "tables": """select relname, relkind, relrowsecurity, coalesce(relacl, acldefault('r', relowner))::text
        from pg_class where relnamespace = 'tools_search'::regnamespace and relkind in ('r', 'p')""",
    "indexes": """select indrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid
        from pg_index join pg_class on pg_class.oid = indrelid
        where relnamespace = 'tools_search'::regnamespace""",
    "functions": """select oid::regprocedure::text, pg_get_functiondef(oid),
            coalesce(proacl, acldefault('f', proowner))::text
        from pg_proc where pronamespace = 'tools_search'::regnamespace""",
    "policies": """select tablename, policyname, roles::text, cmd, qual from pg_policies
        where schemaname = 'tools_search'""",
    "analyzed columns": """select starelid::regclass::text, attname
        from pg_statistic join pg_class on pg_class.oid = starelid
        join pg_attribute on attrelid = starelid and attnum = staattnum
        where relnamespace = 'tools_search'::regnamespace and relname ~ '^(document|term|posting)_1$'""",
    "analyzed expressions": """select count(*) from pg_statistic join pg_class on pg_class.oid = starelid
        where relnamespace = 'tools_search'::regnamespace and relkind = 'i' and relname ~ '_1_'""",
}
_OF_CATALOG: Final[Mapping[str, LiteralString]] = {
    "catalog": "select id, name, generation, revision from tools_search.catalog",
    "generation": "select id, catalog, analysis, facts::text, last_tool, last_term from tools_search.generation",
    "audience": "select * from tools_search.audience",
    "reader": "select role::text, catalog from tools_search.reader",
    "tool": "select * from tools_search.tool",
    "document": "select generation, tool, name, audience, length, terms, uses, floor, floor_members "
    "from tools_search.document",
    "term": "select * from tools_search.term",
    "posting": "select generation, term, level, block, postings from tools_search.posting",
}


def _tools() -> tuple[list[Tool], list[list[str]]]:
    chance, words = Random(1), _WORDS.split()  # noqa: S311
    groups = [[], ["red"], ["blue", "green"]]
    tools = [
        Tool(
            name=f"tool_{place}",
            description=" ".join(chance.choices(words, k=8)),
            input_schema={"type": "object", "properties": {chance.choice(words): {}}},
        )
        for place in range(300)
    ]
    return tools, [groups[place // 100] for place in range(300)]


@contextmanager
def _database(server: str, name: str) -> Generator[Any]:
    """Connect to an empty database, whose readers get the role `upgraded`."""
    with psycopg.connect(server, autocommit=True) as superuser:
        superuser.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(name)))
        superuser.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        if not superuser.execute("select from pg_roles where rolname = 'upgraded'").fetchall():
            superuser.execute("create role upgraded login")
    with psycopg.connect(urlsplit(server)._replace(path=f"/{name}").geturl(), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def fresh(server: str) -> Generator[Any]:
    """A connection to a database with a catalog that this version has written."""
    with _database(server, "fresh") as connection:
        migrate(connection)
        import_catalog(connection, "catalog", entries(*_tools()))
        connection.execute("select tools_search.allow('upgraded', 'catalog')")
        yield connection


def _migrate_to(connection: Any, version: int) -> None:
    earlier = dict(islice(schema.migrations().items(), version))
    with patch.object(schema, "migrations", lambda: earlier):
        migrate(connection)


def _write_as(connection: Any, version: int, fresh: Any) -> None:
    """Write the catalog of `fresh` as the program with this version of the schema did."""
    _migrate_to(connection, version)
    for table in "catalog", "generation", "audience":
        _copy(fresh, connection, table, "*")
    for table in "catalog", "generation":
        connection.execute("select setval(pg_get_serial_sequence(%s, 'id'), 1)", [f"tools_search.{table}"])
    for table, columns in (_COPIED if version >= _FIRST_PACKED else _UNPACKED).items():
        parent, part = sql.Identifier("tools_search", table), sql.Identifier("tools_search", f"{table}_1")
        connection.execute(
            sql.SQL("create table {} (like {} including defaults including storage)").format(part, parent)
        )
        if table == "tool" and version >= _FIRST_WITH_READERS:
            connection.execute(
                sql.SQL(
                    "alter table {} " + ", ".join(f"alter {one} set statistics 0" for one in columns.split(", "))
                ).format(part)
            )
        _copy(fresh, connection, f"{table}_1", columns, order="block, term, level" if table == "posting" else "1, 2")
        connection.execute(sql.SQL("alter table {} attach partition {} for values in (1)").format(parent, part))
        connection.execute(sql.SQL("analyze {}").format(part))
    if version >= _FIRST_WITH_READERS:
        connection.execute("select tools_search.allow('upgraded', 'catalog')")


def _copy(source: Any, target: Any, table: str, columns: LiteralString, *, order: LiteralString = "1") -> None:
    own, read = sql.Identifier("tools_search", table), sql.SQL(columns)
    rows = sql.SQL("select {} from {} order by {}").format(read, own, sql.SQL(order))
    described = source.execute(sql.SQL("{} limit 0").format(rows)).description
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in described)
    with (
        source.cursor().copy(sql.SQL("copy ({}) to stdout").format(rows)) as reading,
        target.cursor().copy(sql.SQL("copy {} ({}) from stdin").format(own, names)) as writing,
    ):
        for row in reading:
            writing.write(row)


def _found(connection: Any) -> list[Any]:
    return [
        PostgresIndex(connection, "catalog", groups=groups).first(query, 500, definitions=range(3))
        for groups in _CALLERS
        for query in _QUERIES
    ]


def _rows(connection: Any, statements: Mapping[str, str]) -> dict[str, list[Any]]:
    return {
        name: sorted(re.sub(r"INDEX \w+", "INDEX", repr(row)) for row in connection.execute(statement).fetchall())
        for name, statement in statements.items()
    }


@pytest.mark.parametrize("version", range(1, len(NAMES)))
def test_a_catalog_of_any_earlier_schema_becomes_like_one_that_is_imported_today(server: str, fresh: Any, version: int):
    with _database(server, f"of_version_{version}") as connection:
        _write_as(connection, version, fresh)
        if version >= _FIRST_PACKED:
            assert _found(connection) == _found(fresh)  # what is migrated is a catalog that could be searched
        migrate(connection)
        if version < _FIRST_WITH_READERS:
            connection.execute("select tools_search.allow('upgraded', 'catalog')")
        assert _found(connection) == _found(fresh)
        with psycopg.connect(connection.info.dsn, user="upgraded", autocommit=True) as reader:
            assert _found(reader) == _found(fresh)
        assert _rows(connection, _OF_CATALOG) == _rows(fresh, _OF_CATALOG)
        assert _rows(connection, _OF_SCHEMA) == _rows(fresh, _OF_SCHEMA)
        if version < _FIRST_ORDERED:
            stored = "select term, level, block from tools_search.posting_1"
            rows = connection.execute(f"{stored} order by ctid").fetchall()
            assert rows == sorted(connection.execute(stored).fetchall())
        changes = entries([Tool(name="zeppelin", description="Steers.", input_schema={"type": "object"})])
        update_catalog(connection, "catalog", ["tool_7"], changes)
        assert [hit.name for hit in PostgresIndex(connection, "catalog").search("zeppelin")] == ["zeppelin"]


def test_a_migration_whose_text_was_revised_is_not_made_again(server: str):
    with _database(server, "revised") as connection:
        migrate(connection)
        for former in schema.REVISED:
            connection.execute(
                "update tools_search.migration set name = %s where name like %s", [former, f"{former[:4]}%"]
            )
        assert schema.problem_of(schema.read_names(connection)) is None
        migrate(connection)


def test_searches_go_on_while_an_index_is_built_again_and_a_backup_runs(server: str, fresh: Any):
    waits = "select count(*)::int from pg_stat_activity where pid = %s and wait_event in ('PgSleep', 'relation')"
    with _database(server, "indexed_again") as connection, ThreadPoolExecutor() as threads:
        _write_as(connection, 5, fresh)
        with psycopg.connect(connection.info.dsn) as backup, psycopg.connect(connection.info.dsn) as searching:
            searching.autocommit = True
            backup.execute("select from tools_search.document limit 0")
            migrating = threads.submit(migrate, connection)
            while searching.execute(waits, [connection.info.backend_pid]).fetchone() != (1,):
                assert not migrating.done()
            for _ in range(20):
                assert _found(searching)
            assert not migrating.done()
            backup.rollback()
            migrating.result(SECONDS)
        assert _found(connection) == _found(fresh)


def test_a_migration_that_fails_leaves_the_earlier_ones_and_is_repeated(server: str, fresh: Any):
    with _database(server, "interrupted") as connection:
        _write_as(connection, 3, fresh)
        failing = dict(schema.migrations())
        failing[NAMES[-1]] += "select 1 / 0"
        with (
            patch.object(schema, "migrations", lambda: failing),
            pytest.raises(psycopg.errors.DivisionByZero),
        ):
            migrate(connection)
        assert tuple(schema.read_names(connection)) == NAMES[:-1]
        assert _found(connection) == _found(fresh)
        migrate(connection)
        assert _rows(connection, _OF_SCHEMA) == _rows(fresh, _OF_SCHEMA)
