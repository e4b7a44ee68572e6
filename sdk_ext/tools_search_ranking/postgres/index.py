"""Searches a catalog in the database, in one round trip, from synchronous programs and from event loops.

Database errors become `UnavailableError` if the same search may succeed a little later, `UnanswerableError` if it would
fail again, and `SchemaError` if an operator has to act first.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString, Self, TypeAlias
from weakref import WeakSet

import anyio
import psycopg
from anyio import to_thread
from mcp_ext_tools_search.ranking.interface import Hit
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from tools_search_ranking.postgres.meaning import QueryVectors
from tools_search_ranking.postgres.request import BY_WORDS, SEARCH, parameters
from tools_search_ranking.postgres.schema import NOT_TEXT, OPTIONS, READ_NAMES, Connection, SchemaError, require_version
from tools_search_ranking.postings import members_in
from tools_search_ranking.semantic.embedder import Embedder

MOST_PLACES: Final = 20_000
"""More than the number of hits in any answer."""

_WAITING_SECONDS: Final = 2
"""How long a search waits for a free connection."""

_ANSWER_SECONDS: Final = 8
"""Timeout for a search, including all waiting. A database that hangs does not enforce its own statement timeout."""

_CONNECT_SECONDS: Final = 2

_STATEMENT_MILLISECONDS: Final = "5000"

_SETTINGS: Final[LiteralString] = (
    "select set_config('statement_timeout', case when current_setting('statement_timeout')::interval "
    f"between '1ms' and '{_STATEMENT_MILLISECONDS}ms' then current_setting('statement_timeout') "
    f"else '{_STATEMENT_MILLISECONDS}' end, true), "
    "set_config('transaction_read_only', 'on', true), set_config('plan_cache_mode', 'force_generic_plan', true), "
    "set_config('extra_float_digits', '1', true), set_config('array_nulls', 'on', true)"
)
"""Settings of one transaction. Behind a pooler such as PgBouncer, the next transaction may use another connection. A
shorter timeout of the role stays.

Plans are generic, because `explain` of a custom plan would show its values, including words of queries. The last two
are their defaults, since others would round scores and change parameters."""

_ATTEMPTS: Final = 2
"""Using a connection is the only way to find out that the database has closed it, so a second attempt is needed."""

_ANSWERED: Final = re.compile(r": [^:\n]+:  (\S[^\n]*)")
"""What a server or a pooler answers to an attempt to connect: a severity, a colon, two spaces, and a reason, in the
language of its `lc_messages`. What libpq itself says never has two spaces there.

The SQLSTATE of such an answer is not available: libpq has no result for it, and psycopg cannot make libpq put it into
the text."""

_REFUSED_AGAIN: Final = ("0A", "21", "22", "23", "54")
"""Classes of SQLSTATEs that depend on the statement and its values alone."""

_Row: TypeAlias = tuple[Any, ...]


class UnavailableError(Exception):
    """The database cannot answer at the moment. The same search may succeed later."""


class UnreachableError(UnavailableError):
    """The database does not answer at all: it cannot be reached, or it hangs."""


class UnanswerableError(Exception):
    """The database fails at this search, and would do so again."""


class UnknownCatalogError(LookupError):
    """The database has no catalog of that name that this role may search."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The first hits of an answer."""

    hits: Sequence[Hit]
    """The requested number of hits, best first."""

    total: int
    """Total number of matches."""

    definitions: Mapping[str, dict[str, Any]]
    """The requested definitions, by name."""

    revision: int | None
    """The catalog's revision, which increases with every change; `None` if nothing was found."""


def _found(rows: Sequence[_Row]) -> Excerpt:
    hits: list[Hit] = []
    definitions: dict[str, dict[str, Any]] = {}
    for _, name, score, members, definition, *_ in rows:
        own = bytes(name).decode("utf-8", "surrogatepass")
        hits.append(Hit(own, score, members_in(members)))
        if definition is not None:
            definitions[own] = json.loads(definition)
    total, revision = rows[0][5:] if rows else (0, None)
    return Excerpt(hits, total, definitions, revision)


def search_values(
    catalog: str,
    query: str,
    groups: Collection[str] | None,
    places: range,
    definitions: range,
    vectors: QueryVectors | None = None,
) -> dict[str, Any]:
    """Return the values for `SEARCH`. Definitions are returned from the start of `definitions` to the last place."""
    meaning = BY_WORDS if vectors is None else vectors.parameters(query)
    window = {"first": definitions.start + 1 if definitions else places.stop + 1, "last": places.stop}
    if groups is not None:
        groups = [group for group in groups if NOT_TEXT.search(group) is None]  # others could not be imported
    return parameters(query) | meaning | window | {"catalog": catalog, "groups": groups}


@contextmanager
def failures_named() -> Generator[None]:
    """Convert database errors to the errors of this package. They never contain the text of a statement."""
    try:
        yield
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith(("3F", "42")):  # something is missing, or not permitted
            raise SchemaError(
                "this database has no schema tools_search of this version, or this role may not use it: "
                "run `import` or `reindex` as its owner, and allow the role"
            ) from None
        if error.sqlstate == "TS404":
            raise UnknownCatalogError(
                "there is no catalog of this name that this role may search: "
                "run `import` with this `--name`, and with `--reader` for this role"
            ) from None
        if error.sqlstate is None:
            raise UnreachableError("the database cannot be reached: check that it runs at this address") from None
        if error.sqlstate.startswith(_REFUSED_AGAIN):
            text = f"the database fails at this search with SQLSTATE {error.sqlstate}, and would again: see its log"
            raise UnanswerableError(text) from None
        raise UnavailableError(_reason(error.sqlstate)) from None


def _reason(sqlstate: str) -> str:
    """Return why a database fails, and what an operator can do about it."""
    return {
        "57014": "the database took too long: see what else it is doing",
        "53100": "the database's disk is full: make room on it",
        "25006": "the database is read-only: name the primary in the address",
        "53300": "the database accepts no more connections: close some, or increase its `max_connections`",
        "42501": "this role lacks a permission: use the owner of the schema tools_search",
    }.get(sqlstate, f"the database reports SQLSTATE {sqlstate}: see its log")


def refusal(error: psycopg.Error) -> str | None:
    """Return the reason that the database gave for refusing a connection or a statement; `None` if nothing answers."""
    if error.sqlstate is not None:
        return _reason(error.sqlstate)
    answered = _ANSWERED.search(str(error))
    return None if answered is None else answered[1]


def _reporting(report: Callable[[psycopg.Error | None], None]) -> type[psycopg.AsyncConnection[_Row]]:
    """Return a class of connections that reports how each attempt to connect ends. A pool only logs it."""

    class Reporting(psycopg.AsyncConnection[_Row]):
        @classmethod
        async def connect(cls, *arguments: Any, **settings: Any) -> Self:
            try:
                connection = await super().connect(*arguments, **settings)
            except psycopg.Error as error:
                report(error)
                raise
            report(None)
            return connection

    return Reporting


class PostgresIndex:
    """A catalog in the database that implements the ranking interface, for one thread at a time.

    Args:
        connection: A connection in autocommit mode and in UTF-8, whose role may search the catalog.
        catalog: Name of the catalog.
        groups: The caller's groups; `None` to see every tool.
        embedder: The one that the catalog was imported with, to rank by meaning too.
    """

    keeps_floor: Final = True

    def __init__(
        self,
        connection: Connection,
        catalog: str,
        *,
        groups: Collection[str] | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._connection, self._catalog, self._groups = connection, catalog, groups
        self._vectors = embedder and QueryVectors(embedder)

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        """Return the tools that match `query`, best first: the 100 best, and all that the matching floor requires.

        Raises:
            ValueError: `visible` is given, but this index selects visible tools by groups.
            UnavailableError: The database does not answer.
            UnanswerableError: It fails at this statement, and would again.
            SchemaError: The database does not have this version's schema.
            UnknownCatalogError: The database has no such catalog.
        """
        if visible is not None:
            raise ValueError("select visible tools by groups: PostgresIndex(..., groups=...)")
        return self.first(query, MOST_PLACES).hits

    def first(self, query: str, count: int, *, definitions: range = range(0)) -> Excerpt:
        """Return the first `count` hits, with definitions from the start of `definitions` to the last hit."""
        values = search_values(self._catalog, query, self._groups, range(count), definitions, self._vectors)
        with failures_named():
            with self._connection.pipeline():
                self._connection.execute(_SETTINGS)
                cursor = self._connection.execute(SEARCH, values)
            return _found(cursor.fetchall())


class PostgresPool:
    """A program's connection pool to the database, for an event loop.

    Args:
        address: Such as `postgres://user@host:port/database`. Of several hosts, the first that answers is used: a
            primary, then its replicas.
        size: Maximum number of concurrent searches. Others wait.
        embedder: The one that catalogs were imported with, to rank by meaning too.
    """

    def __init__(self, address: str, *, size: int = 8, embedder: Embedder | None = None) -> None:
        self._vectors = embedder and QueryVectors(embedder)
        self._size, self._used, self._refusal = size, 0, None
        self._pool = AsyncConnectionPool[psycopg.AsyncConnection[_Row]](
            address,
            connection_class=_reporting(self._connected),
            min_size=1,
            max_size=size,
            open=False,
            timeout=_WAITING_SECONDS,
            # Later attempts would be twice as far apart each time. After this, the next search makes one at once.
            reconnect_timeout=_WAITING_SECONDS,
            # Do not wait for a database that is unreachable.
            kwargs={
                **OPTIONS,
                "autocommit": True,
                "connect_timeout": _CONNECT_SECONDS,
                "tcp_user_timeout": _STATEMENT_MILLISECONDS,
                "application_name": "tools-search",
            },
        )
        self._checked = WeakSet[psycopg.AsyncConnection[_Row]]()
        """Connections whose database has been found to have this version's schema."""

    async def __aenter__(self) -> PostgresPool:
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def rows(self, statement: LiteralString, values: Mapping[str, Any] | Sequence[Any] = ()) -> list[_Row]:
        """Return the rows of a read-only statement. If the connection is lost, retry on another one.

        Raises the database errors of `PostgresIndex.search`.
        """
        try:
            with anyio.fail_after(_ANSWER_SECONDS):
                return await self._rows(statement, values)
        except TimeoutError:
            raise UnreachableError("the database does not answer: check that it runs at this address") from None

    async def _rows(self, statement: LiteralString, values: Mapping[str, Any] | Sequence[Any]) -> list[_Row]:
        for attempt in range(_ATTEMPTS):
            with failures_named():
                try:
                    async with self._connection() as connection:
                        await self._require_version(connection)
                        async with connection.pipeline():  # one round trip, and one transaction
                            await connection.execute(_SETTINGS)
                            cursor = await connection.execute(statement, values)
                        return await cursor.fetchall()
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    # The connection is gone, or the rows are: replaced by an import, or by replay at a replica.
                    is_gone = error.sqlstate is None or error.sqlstate.startswith(("57P", "08", "40"))
                    if not is_gone or attempt + 1 == _ATTEMPTS:
                        raise
                    await self._pool.check()
        raise AssertionError

    def _connected(self, error: psycopg.Error | None) -> None:
        self._refusal = None if error is None else refusal(error)

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[psycopg.AsyncConnection[_Row]]:
        """Take a connection from the pool.

        Raises:
            UnavailableError: All are in use, or the database answers that it accepts no others.
            psycopg.Error: The database cannot be reached, or the connection is lost.
        """
        try:
            async with self._pool.connection() as connection:
                self._used += 1
                try:
                    yield connection
                finally:
                    self._used -= 1
        except PoolTimeout:
            if self._used >= self._size:
                raise UnavailableError(f"every connection to the database is busy ({self._size})") from None
            if self._refusal is not None:
                raise UnavailableError(f"the database refuses connections: {self._refusal}") from None
            raise

    async def _require_version(self, connection: psycopg.AsyncConnection[_Row]) -> None:
        if connection not in self._checked:
            row = await (await connection.execute(READ_NAMES)).fetchone()
            require_version(row[0] if row else ())
            self._checked.add(connection)

    async def search(
        self, catalog: str, query: str, *, groups: Collection[str] | None, count: int, definitions: range = range(0)
    ) -> Excerpt:
        """Return the first `count` hits, with definitions from the start of `definitions` to the last hit.

        Raises the same errors as `rows`.
        """
        values = partial(search_values, catalog, query, groups, range(count), definitions, self._vectors)
        # A model takes long enough to use another thread.
        return _found(await self.rows(SEARCH, values() if self._vectors is None else await to_thread.run_sync(values)))
