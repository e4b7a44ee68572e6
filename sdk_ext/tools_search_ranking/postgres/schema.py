"""The database schema: its version, and its migrations, which are `.sql` files in the folder `migrations`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from typing import Any, Final, LiteralString, TypeAlias, cast

import psycopg
from psycopg.errors import InsufficientPrivilege, InvalidSchemaName, UndefinedTable

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

OPTIONS: Final[Mapping[str, Any]] = {
    "client_encoding": "UTF8",  # roles and databases may have others, without most characters
    "prepare_threshold": None,  # behind a pooler, the next client of a connection may meet a prepared statement
}
"""Options of every connection to a database."""

WITHOUT_TIME_LIMITS: Final[LiteralString] = (
    "select set_config(name, '0', true) from pg_settings where name in "
    "('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout') and source <> 'session'"
)
"""For a transaction that writes a whole catalog: the limits of a role are meant for requests. Limits that the
transaction has set itself remain."""

MEMORY: Final[LiteralString] = "set local maintenance_work_mem = '512MB'; set local work_mem = '256MB'"
"""For a transaction that builds indexes."""

NOT_FROZEN: Final[LiteralString] = "set local idle_in_transaction_session_timeout = '30s'"
"""Ends a transaction whose program is frozen, as on a paused machine, because others wait for its locks."""

NOT_TEXT: Final = re.compile("[\0\ud800-\udfff]")
"""Characters that PostgreSQL does not store as text. Groups and answers are stored as they are, unlike definitions."""

_LOCK: Final = 0x746F6F6C  # advisory lock: one process at a time changes the schema


class SchemaError(Exception):
    """The database has no schema, or that of another version of this program. The text says what to do."""


def migrations() -> dict[str, LiteralString]:
    """Return the statements of each migration by name. The name includes a digest of the file's text."""
    folder = resources.files("tools_search_ranking.postgres") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    texts = [(file.name, file.read_text(encoding="utf-8")) for file in files]
    return {
        f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}": cast("LiteralString", text) for name, text in texts
    }


NAMES: Final = tuple(migrations())
"""The migrations of this version of the program, in order."""

READ_NAMES: Final[LiteralString] = "select coalesce(array_agg(name order by number), '{}') from tools_search.migration"


def read_names(connection: Connection) -> Sequence[str]:
    """Return the names of a database's migrations; none if it has no schema that this role may use."""
    with suppress(UndefinedTable, InvalidSchemaName, InsufficientPrivilege), connection.transaction():
        row = connection.execute(READ_NAMES).fetchone()
        return row[0] if row else ()
    return ()


def migrate(connection: Connection) -> None:
    """Create the schema or migrate it to this version. Existing data is kept.

    Each migration is one transaction, so that its locks end with it.

    Raises:
        SchemaError: The schema is from a version that this one cannot migrate, or belongs to another role, or the
            database has another encoding than UTF-8.
        psycopg.Error: The role lacks permission, or the database failed. The migrations before the failed one remain.
    """
    if problem_of(read_names(connection)) is None:  # a database that cannot be written may have nothing to migrate
        _require_owner(connection)
        return
    for number, (name, statements) in enumerate(migrations().items(), start=1):
        with connection.transaction():
            connection.execute(WITHOUT_TIME_LIMITS)
            connection.execute(MEMORY)
            if number > len(_locked_names(connection)):
                connection.execute(statements)
                connection.execute("insert into migration values (%s, %s)", [number, name])


def _locked_names(connection: Connection) -> Sequence[str]:
    """Return the names of a database's migrations, and lock them for the rest of the transaction.

    Raises:
        SchemaError: This program cannot migrate the schema.
    """
    _require_encoding(connection)
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
    if not connection.execute("select from pg_namespace where nspname = 'tools_search'").fetchall():
        connection.execute("create schema tools_search")
    _require_owner(connection)
    connection.execute("set local search_path = tools_search, pg_temp")
    connection.execute(
        "create table if not exists migration (number int primary key, name text not null, "
        "made timestamptz not null default now())"
    )
    row = connection.execute(READ_NAMES).fetchone()
    done = row[0] if row else ()
    if tuple(done) != NAMES[: len(done)]:
        raise SchemaError(problem_of(done))
    return done


def _require_encoding(connection: Connection) -> None:
    """Refuse a database that cannot store, or does not know, the characters of all words."""
    row = connection.execute("show server_encoding").fetchone()
    if row is not None and row[0] != "UTF8":
        advice = "create database NAME encoding 'UTF8' template template0"
        raise SchemaError(f"this database has the encoding {row[0]}: use one in UTF-8 (`{advice}`)")


def _require_owner(connection: Connection) -> None:
    """Refuse a schema that another role owns: its triggers and functions would run with this role's permissions."""
    row = connection.execute(
        "select rolname from pg_namespace join pg_roles on pg_roles.oid = nspowner "
        "where nspname = 'tools_search' and rolname <> current_user"
    ).fetchone()
    if row is not None:
        raise SchemaError(f"the schema tools_search belongs to the role {row[0]}: connect as that role")


def require_version(found: Sequence[str]) -> None:
    """Check the names of a database's migrations (`READ_NAMES`).

    Raises:
        SchemaError: They differ from this program's.
    """
    if (problem := problem_of(found)) is not None:
        raise SchemaError(problem)


def problem_of(found: Sequence[str]) -> str | None:
    """Return what an operator must do about a database with these migrations; `None` if it is ready."""
    names = tuple(found)
    if names == NAMES:
        return None
    if not found:
        return "this database has no schema tools_search, or this role may not use it: run `import` as its owner"
    if names == NAMES[: len(names)]:
        versions = f"version {len(found)}, and this program {len(NAMES)}"
        return f"the schema tools_search has {versions}: run `reindex` as its owner"
    if names[: len(NAMES)] == NAMES:
        versions = f"version {len(found)}, and this program only {len(NAMES)}"
        return f"the schema tools_search has {versions}: update the program"
    return (
        "the schema tools_search was made by a revision of this program that was never released: "
        "drop it (`drop schema tools_search cascade`) and run `import` as its owner"
    )
