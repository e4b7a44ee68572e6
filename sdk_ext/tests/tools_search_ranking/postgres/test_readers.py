"""Who may read what: a role searches the catalogs that it was allowed and sees nothing of others, however it asks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest
from mcp_types import Tool
from psycopg import errors, sql
from tools_search_ranking.postgres import (
    PostgresIndex,
    SchemaError,
    UnknownCatalogError,
    embed_catalog,
    import_catalog,
    migrate,
)
from tools_search_ranking.semantic import Embedder

from .conftest import entries

_OWN = "own"
_FOREIGN = "foreign"
_SECRET = "zeppelin"  # noqa: S105
_TABLES = ("catalog", "generation", "audience", "tool", "document", "term", "posting", "reader", "migration")


def _tools(word: str) -> list[Tool]:
    return [Tool(name=f"{word}_tool", description=f"Steers a {word}.", input_schema={"type": "object"})]


@pytest.fixture(scope="module")
def catalogs(address: str) -> str:
    """An address with two catalogs, of which the role `tenant` may read one."""
    with psycopg.connect(address, autocommit=True) as owner:
        import_catalog(owner, _OWN, entries(_tools("boat")))
        import_catalog(owner, _FOREIGN, entries(_tools(_SECRET)))
        with suppress(SchemaError):  # a database without the extension
            embed_catalog(owner, _FOREIGN, Embedder("ones", lambda texts: np.ones((len(texts), 3))))
        owner.execute("drop role if exists tenant")
        owner.execute("create role tenant login")
        owner.execute("select tools_search.allow('tenant', %s)", [_OWN])
    return address


@pytest.fixture
def tenant(catalogs: str) -> Generator[Any]:
    with psycopg.connect(catalogs, user="tenant", autocommit=True) as connection:
        yield connection


def test_a_reader_searches_what_it_was_allowed(tenant: Any):
    assert [hit.name for hit in PostgresIndex(tenant, _OWN).search("steer")] == ["boat_tool"]


def test_another_catalog_is_to_a_reader_as_one_that_is_not_there(tenant: Any):
    index = PostgresIndex(tenant, _FOREIGN)
    with pytest.raises(UnknownCatalogError) as foreign:
        index.search(_SECRET)
    with pytest.raises(UnknownCatalogError) as missing:
        PostgresIndex(tenant, "nonsense").search(_SECRET)
    assert str(foreign.value) == str(missing.value)


@pytest.mark.parametrize("table", _TABLES)
def test_no_table_shows_a_reader_anything_of_another_catalog(tenant: Any, table: str):
    statement = sql.SQL("select {0}::text from tools_search.{0}").format(sql.Identifier(table))
    try:
        rows = tenant.execute(statement).fetchall()
    except errors.InsufficientPrivilege:
        return
    assert not any(_SECRET in row or _FOREIGN in row or _SECRET.encode().hex() in row for (row,) in rows)


@pytest.mark.parametrize(
    "attempt",
    [
        "select * from tools_search.tool_{generation}",
        "select * from tools_search.document",
        "select * from tools_search.term",
        "select * from tools_search.vector",
        "select * from tools_search.vector_group",
        "select * from tools_search.having_words({generation}, '{}', null, '{1}')",
        "set row_security = off; select * from tools_search.tool",
        "set session authorization postgres; select * from tools_search.tool",
        "set role postgres; select * from tools_search.tool",
        "insert into tools_search.reader values ('tenant', (select id from tools_search.catalog))",
        "select tools_search.allow('tenant', 'foreign')",
        "create function tools_search.may_read(bigint) returns boolean language sql as 'select true'",
        "update tools_search.catalog set name = 'mine'",
        "delete from tools_search.tool",
        "create table tools_search.mine (id int)",
        "copy tools_search.document to stdout",
        "alter table tools_search.tool disable row level security",
    ],
)
def test_a_reader_cannot_get_around_that(catalogs: str, tenant: Any, attempt: str):
    with psycopg.connect(catalogs, autocommit=True) as owner:
        row = owner.execute("select generation from tools_search.catalog where name = %s", [_FOREIGN]).fetchone()
    assert row is not None
    with pytest.raises(errors.InsufficientPrivilege):
        tenant.execute(attempt.replace("{generation}", str(row[0])))


def test_no_function_or_table_of_the_schema_is_for_everyone(connection: Any):
    rows = connection.execute(
        "select oid::regprocedure::text from pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) given "
        "where pronamespace = 'tools_search'::regnamespace and given.grantee = 0 union all "
        "select oid::regclass::text from pg_class, aclexplode(coalesce(relacl, acldefault('r', relowner))) given "
        "where relnamespace = 'tools_search'::regnamespace and given.grantee = 0"
    )
    assert rows.fetchall() == []


def test_a_function_that_leaks_what_it_is_given_sees_only_rows_of_the_reader(tenant: Any):
    seen: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        seen.append(notice.message_primary or "")

    tenant.add_notice_handler(note)
    tenant.execute(
        "create function pg_temp.leak(value text) returns boolean volatile cost 0.0000001 language plpgsql "
        "as $$ begin raise notice 'saw %', value; return true; end $$"
    )
    tenant.execute("select count(*) from tools_search.tool where pg_temp.leak(definition)")
    tenant.execute("select count(*) from tools_search.catalog where pg_temp.leak(name)")
    assert any("boat" in text for text in seen)
    assert not any(_SECRET in text or _FOREIGN in text for text in seen)


def test_a_schema_of_the_readers_own_does_not_change_what_a_search_reads(tenant: Any):
    tenant.execute("create temporary table catalog (id int, name text, generation int, revision bigint)")
    tenant.execute("insert into pg_temp.catalog values (1, 'foreign', 2, 1)")
    tenant.execute("set search_path = pg_temp, tools_search")
    with pytest.raises(UnknownCatalogError):
        PostgresIndex(tenant, _FOREIGN).search(_SECRET)


def test_what_the_planner_expects_tells_a_reader_nothing_of_rows_that_it_does_not_see(catalogs: str, tenant: Any):
    with psycopg.connect(catalogs, autocommit=True) as owner:
        import_catalog(owner, _FOREIGN, entries([tool for place in range(200) for tool in _tools(f"{_SECRET}{place}")]))
        owner.execute("analyze")

    def expected(condition: str) -> float:
        row = tenant.execute(f"explain (format json) select from tools_search.{condition}").fetchone()
        return row[0][0]["Plan"]["Plan Rows"]

    assert expected("tool where name < 'a'::bytea") == expected("tool where name < 'zz'::bytea")
    assert expected("catalog where name < 'a'") == expected("catalog where name < 'zz'")
    assert expected("audience where id < 0") == expected("audience where id < 1000")


def test_a_schema_that_another_role_has_made_is_not_used(server: str):
    with psycopg.connect(server, autocommit=True) as superuser:
        superuser.execute("drop database if exists intruded")
        superuser.execute("drop role if exists intruder")
        superuser.execute("create role intruder")
        superuser.execute("create database intruded")
        with psycopg.connect(urlsplit(server)._replace(path="/intruded").geturl(), autocommit=True) as owner:
            owner.execute("create schema tools_search authorization intruder")
            with pytest.raises(SchemaError, match="belongs to the role intruder"):
                migrate(owner)
        superuser.execute("drop database intruded")
        superuser.execute("drop role intruder")


def test_no_word_of_a_query_stands_in_a_statement(catalogs: str):
    word = "unmistakable"
    with psycopg.connect(catalogs, autocommit=True) as owner, psycopg.connect(catalogs, autocommit=True) as searching:
        searching.execute("set log_min_duration_statement = 0")
        searching.execute("set log_statement = 'all'")
        with suppress(errors.UndefinedFile):  # not every PostgreSQL comes with it
            searching.execute("load 'auto_explain'")
        for setting in ("log_min_duration = 0", "log_verbose = on", "log_analyze = on", "log_nested_statements = on"):
            searching.execute(f"set auto_explain.{setting}")
        PostgresIndex(searching, _OWN).search(f"{word} boat")
        with pytest.raises(UnknownCatalogError):
            PostgresIndex(searching, "none").search(f"{word} boat")
        rows = owner.execute("select query from pg_stat_activity").fetchall()
        (folder,) = owner.execute("show data_directory").fetchone() or ("",)
    assert not any(word in (query or "") for (query,) in rows)
    if not (log := Path(folder) / "log").is_file():
        pytest.skip("the log of this server is somewhere else")
    logged = log.read_text(encoding="utf-8", errors="replace")
    assert "tools_search.search(" in logged
    assert word not in logged
