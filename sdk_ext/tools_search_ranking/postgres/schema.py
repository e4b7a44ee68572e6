"""The schema in the database: its migrations, which are the `.sql` files next to this module, and its version."""

from __future__ import annotations

from importlib import resources
from typing import Any, Final, LiteralString, TypeAlias, cast

import psycopg

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_LOCK: Final = 0x746F6F6C  # of the database: one process at a time changes the schema


class SchemaError(Exception):
    """The database has the schema of another version of this program, or none; the text says what to do."""


def _migrations() -> list[tuple[str, LiteralString]]:
    folder = resources.files("tools_search_ranking.postgres") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(file.name, cast("LiteralString", file.read_text(encoding="utf-8"))) for file in files]


VERSION: Final = len(_migrations())
"""The number of migrations that this version of the program knows."""

READ_VERSION: Final[LiteralString] = "select coalesce(max(number), 0) from tools_search.migration"


def migrate(connection: Connection) -> None:
    """Bring the schema to this version; what is there already stays.

    Raises:
        SchemaError: A newer version of the program has been here, or the schema is another role's.
        psycopg.Error: The role may not, or the database fails; then nothing has changed.
    """
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        if not connection.execute("select from pg_namespace where nspname = 'tools_search'").fetchall():
            connection.execute("create schema tools_search")
        _require_owner(connection)
        connection.execute("set local search_path = tools_search, pg_temp")
        connection.execute(
            "create table if not exists migration (number int primary key, name text not null, "
            "made timestamptz not null default now())"
        )
        row = connection.execute("select coalesce(max(number), 0) from migration").fetchone()
        done = row[0] if row else 0
        if done > VERSION:
            raise SchemaError(_advice(done))
        for number, (name, statements) in enumerate(_migrations(), start=1):
            if number > done:
                connection.execute(statements)
                connection.execute("insert into migration values (%s, %s)", [number, name])


def _require_owner(connection: Connection) -> None:
    """Refuse a schema that another role made: its triggers and functions would run with the rights of this one."""
    row = connection.execute(
        "select rolname from pg_namespace join pg_roles on pg_roles.oid = nspowner "
        "where nspname = 'tools_search' and rolname <> current_user"
    ).fetchone()
    if row is not None:
        raise SchemaError(f"the schema tools_search belongs to the role {row[0]}: connect as that role")


def require_version(found: int) -> None:
    """Check the number of migrations that a database has.

    Raises:
        SchemaError: It is another one than this program's.
    """
    if found != VERSION:
        raise SchemaError(_advice(found))


def _advice(found: int) -> str:
    if found == 0:
        return "this database has no schema tools_search, or this role may not use it: run `import` as its owner"
    if found < VERSION:
        return f"the schema tools_search has version {found}, and this program {VERSION}: run `reindex` as its owner"
    return f"the schema tools_search has version {found}, and this program only {VERSION}: update the program"
