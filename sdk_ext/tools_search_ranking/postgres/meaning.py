"""Vectors of tools in the database, for ranking by meaning. They need the extension pgvector."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, Final, LiteralString, cast

import numpy as np
from mcp_ext_tools_search.types import valid_tools
from psycopg import sql
from psycopg.errors import FeatureNotSupported, InsufficientPrivilege, UndefinedObject

from tools_search_ranking.postgres.copying import BIGINT, INT, NULL, Column, copy_rows, integers, texts
from tools_search_ranking.postgres.schema import NOT_FROZEN, WITHOUT_TIME_LIMITS, Connection, SchemaError
from tools_search_ranking.semantic.embedder import Embedder, Vectors, group_text, summary_text, tool_text
from tools_search_ranking.semantic.index import UNIT
from tools_search_ranking.semantic.vectors import VectorStore

VECTORS: Final = "vector"
"""The partitioned table with vectors, which exists if any catalog has some."""

_TEXTS: Final = 1
"""Version of the texts of a tool that are embedded."""

_AT_ONCE: Final = 16
"""Number of tools whose vectors are written in one transaction."""

_POLL_SECONDS: Final = 1

_LACKING: Final[LiteralString] = (
    "from tools_search.tool where generation = %(generation)s and id > %(after)s and not exists ("
    "select from tools_search.vector where vector.generation = tool.generation and vector.tool = tool.id) "
)


def embedder_key(embedder: Embedder) -> str:
    """Return what the database calls the vectors of an embedder."""
    return f"{embedder.name}, texts {_TEXTS}"


def require_vectors(connection: Connection) -> None:
    """Create the tables and functions for vectors, if they do not exist, and the extension.

    Raises:
        SchemaError: The database has no such extension, or an old one, or this role may not create it.
    """
    if _has_vectors(connection):
        return
    text = (resources.files("tools_search_ranking.postgres") / "meaning.sql").read_text(encoding="utf-8")
    try:
        with connection.transaction():
            connection.execute("create extension if not exists vector")
            ((schema,),) = connection.execute(
                "select nspname from pg_extension join pg_namespace on pg_namespace.oid = extnamespace "
                "where extname = 'vector'"
            ).fetchall()
            connection.execute("set local search_path = tools_search, pg_temp")
            statements = sql.SQL(cast("LiteralString", text)).format(extension=sql.Identifier(schema))
            connection.execute(statements)
    except InsufficientPrivilege:
        advice = "have a superuser run `create extension vector`"
        raise SchemaError(f"ranking by meaning needs the extension pgvector: {advice}") from None
    except (FeatureNotSupported, UndefinedObject):
        raise SchemaError("ranking by meaning needs the extension pgvector, version 0.7 or later: install it") from None


def _has_vectors(connection: Connection) -> bool:
    return bool(connection.execute("select where to_regclass('tools_search.vector') is not null").fetchall())


def generation_with_vectors(connection: Connection, catalog: str) -> int | None:
    """Return the generation of a catalog if its tools have vectors."""
    try:
        generation, embedder = served_generation(connection, catalog)
    except LookupError:  # this is its first import
        return None
    return None if embedder is None else generation


def keep_vectors(connection: Connection, old: int, new: int) -> None:
    """Copy the vectors of tools whose definitions have not changed from one generation to another, not yet attached."""
    values = {"old": old, "new": new}
    connection.execute(
        "update tools_search.generation set embedder = old.embedder from tools_search.generation old "
        "where generation.id = %(new)s and old.id = %(old)s",
        values,
    )
    connection.execute(
        "insert into tools_search.vector_group "
        "select %(new)s, id, own from tools_search.vector_group where generation = %(old)s",
        values,
    )
    connection.execute(
        sql.SQL(
            "insert into {} select %(new)s, tool.id, tool.audience, of_group, vector.own, summary "
            "from {} tool join tools_search.tool old on old.generation = %(old)s "
            "and sha256(old.name) = sha256(tool.name) and old.digest = tool.digest "
            "join tools_search.vector on vector.generation = %(old)s and vector.tool = old.id order by tool.id"
        ).format(*(sql.Identifier("tools_search", f"{table}_{new}") for table in (VECTORS, "tool"))),
        values,
    )


def remove_vectors(connection: Connection, generation: int, tools: Sequence[int]) -> None:
    """Remove the vectors of tools that are removed already, so no other program can add some."""
    if _has_vectors(connection):
        connection.execute(
            "delete from tools_search.vector where generation = %s and tool = any (%s::int[])", [generation, tools]
        )


def embed_catalog(
    connection: Connection,
    catalog: str,
    embedder: Embedder,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Make the vectors of all tools of a catalog that have none from this embedder.

    Each few tools are one transaction, so an interrupted program can continue, and several share the work. A search
    ranks by words alone until all tools that its caller may see have vectors.

    Args:
        connection: A connection as the owner of the schema.
        catalog: The catalog's name.
        embedder: Makes the vectors, in place of those of any other.
        on_progress: Called with the number of tools embedded so far.

    Raises:
        LookupError: There is no such catalog, or another program embeds it with another embedder.
        SchemaError: The database cannot store vectors (`require_vectors`).
        EmbedderError: The embedder failed.
        psycopg.Error: The database failed, or the role lacks permission.
    """
    require_vectors(connection)
    key, done, claimed, last = embedder_key(embedder), 0, None, 0
    while True:
        generation, used = served_generation(connection, catalog)
        if used != key:
            if generation == claimed:
                raise LookupError(f"another program embeds the tools of {catalog!r} with {used}")
            _claim(connection, generation, key)
        if generation != claimed:  # an import has replaced the tools
            claimed, last = generation, 0
        if last == 0 and not _lacks_vectors(connection, generation):
            return
        written, reached = _embed_some(connection, generation, embedder, last)
        done += written
        if written:
            on_progress(done)
        if reached is None and last == 0:  # another program is embedding the last ones
            time.sleep(_POLL_SECONDS)
        last = reached or 0


def served_generation(connection: Connection, catalog: str) -> tuple[int, str | None]:
    """Return the generation of a catalog, and the key of the embedder of its vectors.

    Raises:
        LookupError: There is no such catalog.
    """
    row = connection.execute(
        "select generation.id, embedder from tools_search.catalog "
        "join tools_search.generation on generation.id = catalog.generation where name = %s",
        [catalog],
    ).fetchone()
    if row is None:
        raise LookupError("there is no such catalog")
    return row[0], row[1]


def _claim(connection: Connection, generation: int, key: str) -> None:
    """Prepare a generation for the vectors of another embedder."""
    with connection.transaction():
        connection.execute("select from tools_search.generation where id = %s for update", [generation])
        connection.execute(
            sql.SQL("create table if not exists {} partition of tools_search.vector for values in ({})").format(
                sql.Identifier("tools_search", f"{VECTORS}_{generation}"), generation
            )
        )
        connection.execute("delete from tools_search.vector where generation = %s", [generation])
        connection.execute("delete from tools_search.vector_group where generation = %s", [generation])
        connection.execute("update tools_search.generation set embedder = %s where id = %s", [key, generation])


def _lacks_vectors(connection: Connection, generation: int) -> bool:
    values = {"generation": generation, "after": 0}
    return bool(connection.execute("select " + _LACKING + "limit 1", values).fetchall())


def _embed_some(connection: Connection, generation: int, embedder: Embedder, after: int) -> tuple[int, int | None]:
    """Embed some tools without vectors whose ids are higher than `after`.

    Return how many, and the highest id that was looked at: `None` if there are none, or other programs embed them.
    """
    values: dict[str, Any] = {"generation": generation, "after": after, "most": _AT_ONCE}
    with connection.transaction():
        connection.execute(WITHOUT_TIME_LIMITS)
        connection.execute(NOT_FROZEN)
        locked = connection.execute(
            "select id " + _LACKING + "order by id limit %(most)s for update skip locked", values
        ).fetchall()
        if not locked:
            return 0, None
        # Another program may have embedded some of them before they were locked.
        values["ids"] = [number for (number,) in locked]
        rows = connection.execute(
            "select id, audience, definition " + _LACKING + "and id = any (%(ids)s) order by id", values
        ).fetchall()
        tools = [tool for *_, text in rows for tool in valid_tools([json.loads(text)])]
        if not tools:
            return 0, values["ids"][-1]
        summaries = [summary_text(tool) for tool in tools]
        made = iter(embedder.vectors([text for text in summaries if text]) if any(summaries) else ())
        columns = [
            integers([generation] * len(rows), INT),
            integers([number for number, *_ in rows], INT),
            integers([audience for _, audience, _ in rows], INT),
            _groups(connection, generation, embedder, [group_text(tool) for tool in tools]),
            texts(map(_half, embedder.vectors(list(map(tool_text, tools))))),
            texts(_half(next(made)) if text else None for text in summaries),
        ]
        copy_rows(connection, sql.Identifier("tools_search", VECTORS), columns)
        return len(rows), values["ids"][-1]


def _groups(connection: Connection, generation: int, embedder: Embedder, named: Sequence[str | None]) -> Column:
    """Return the column of the tools' groups, and write the vectors of those that are new."""
    numbers = {
        text: int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], signed=True)
        for text in named
        if text is not None
    }
    known = connection.execute(
        "select id from tools_search.vector_group where generation = %s and id = any (%s)",
        [generation, list(numbers.values())],
    ).fetchall()
    new = {text: number for text, number in numbers.items() if (number,) not in known}
    if new:
        with connection.cursor() as cursor:
            cursor.executemany(
                "insert into tools_search.vector_group values (%s, %s, %s) on conflict do nothing",
                [
                    [generation, number, _written(vector)]
                    for number, vector in zip(new.values(), embedder.vectors(list(new)), strict=True)
                ],
            )
    own = [None if text is None else numbers[text] for text in named]
    return [NULL if number is None else integers([number], BIGINT)[0] for number in own]


def _half(vector: Vectors) -> bytes:
    """Return a vector in the binary format of `halfvec`."""
    return np.array([len(vector), 0], dtype=">i2").tobytes() + vector.astype(">f2").tobytes()


def _written(vector: Vectors) -> str:
    """Return a vector in the text format of `halfvec`."""
    return f"[{','.join(map(str, vector.tolist()))}]"


class QueryVectors:
    """The parameters of `tools_search.search` for ranking by meaning.

    Args:
        embedder: The one that catalogs were embedded with. Catalogs without its vectors are ranked by words alone, and
            so are queries in a language that it does not know, and all of them if it fails, which is logged once.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._store = VectorStore(embedder, None)

    def parameters(self, query: str) -> dict[str, Any]:
        """Return the parameters for `query`. This takes as long as the model."""
        embedder = self._embedder
        vectors = self._store.query_vectors(query) if embedder.knows(query) else None
        return {
            "embedder": embedder_key(embedder),
            "vectors": None if vectors is None else list(map(_written, vectors)),
            "meaning_weight": embedder.weight,
            "least_cosine": int(embedder.least_cosine * UNIT),
        }
