"""Writes catalogs: either a whole new one while the old one is served, or only the tools that have changed.

Each write is one transaction. A lost connection, a full disk or a killed process leaves the old contents unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, LiteralString

import numpy as np
from mcp_ext_tools_search.types import valid_tools
from mcp_types import Tool
from psycopg import sql
from psycopg.errors import LockNotAvailable, UniqueViolation

from tools_search_ranking.postgres.analysis import (
    ANALYSIS,
    BLOCK_BITS,
    ID_BITS,
    IMPACT_BITS,
    Analyzer,
    Columns,
    Numbers,
    start_and_slips,
)
from tools_search_ranking.postgres.copying import (
    BIGINT,
    INT,
    NULL,
    SMALLINT,
    Column,
    arrays,
    copy_rows,
    integers,
    texts,
)
from tools_search_ranking.postgres.meaning import VECTORS, generation_with_vectors, keep_vectors, remove_vectors
from tools_search_ranking.postgres.schema import MEMORY, NOT_FROZEN, NOT_TEXT, WITHOUT_TIME_LIMITS, Connection

_PARTITIONED: Final = ("tool", "document", "term", "posting")
_BLOCK: Final = 1 << BLOCK_BITS
_MOST_AUDIENCES: Final = (1 << 63 - ID_BITS - IMPACT_BITS) - 1

_FEW: Final = 8
"""The postings of a term in a block are in one row, at their highest level, if they are not more than this.

The order of levels matters only for terms with more postings than a search reads. With so few in each block, a term has
less than that in up to a million tools."""

_MOST_QUOTED: Final = 100
"""Maximum number of characters of a name in an error."""

_SHORT_WAIT: Final[LiteralString] = "set local lock_timeout = '200ms'"

_COPIED: Final[LiteralString] = (
    "set local client_encoding = 'UTF8'; "  # of the texts that are copied
    "create temporary table if not exists counted (term int, audience int, tools int) on commit drop; "
    "create temporary table if not exists added (like tools_search.posting) on commit drop; "
    "create temporary table if not exists keyed (id int, key text, start text, slips int[]) on commit drop; "
    "truncate pg_temp.counted, pg_temp.added, pg_temp.keyed"
)
_WITHOUT_STATISTICS: Final = sql.SQL(
    "alter table {} "
    + ", ".join(
        f"alter column {column} set statistics 0"
        for column in ("generation", "id", "name", "audience", "digest", "definition", "answer")
    )
)
"""As in `0003_readers.sql`, for the reason given there."""

_REMOVING: Final[tuple[LiteralString, ...]] = (
    "insert into pg_temp.counted select unnest(terms), audience, -1 from tools_search.document "
    "where generation = %(generation)s and tool = any (%(tools)s::int[])",
    "update tools_search.posting set postings = array("
    "select own.posting from unnest(postings) with ordinality own (posting, place) "
    "where own.posting & %(ids)s <> all (%(tools)s::int[]) order by place) "
    "from (select distinct unnest(terms) as term, tool >> %(bits)s as block from tools_search.document "
    "where generation = %(generation)s and tool = any (%(tools)s::int[])) gone "
    "where posting.generation = %(generation)s and posting.term = gone.term and posting.block = gone.block "
    "and exists (select from unnest(postings) own (posting) where own.posting & %(ids)s = any (%(tools)s::int[]))",
    "delete from tools_search.posting where generation = %(generation)s and postings = '{}' "
    "and term in (select term from pg_temp.counted)",
    "update tools_search.audience set tools = audience.tools - gone.tools, length = audience.length - gone.length "
    "from (select audience, count(*) as tools, sum(length) as length from tools_search.document "
    "where generation = %(generation)s and tool = any (%(tools)s::int[]) group by audience) gone "
    "where generation = %(generation)s and audience.id = gone.audience",
    "delete from tools_search.document where generation = %(generation)s and tool = any (%(tools)s::int[])",
    "delete from tools_search.tool where generation = %(generation)s and id = any (%(tools)s::int[])",
)
_ADDING: Final[tuple[LiteralString, ...]] = (
    "insert into tools_search.posting select * from pg_temp.added "
    "on conflict (generation, term, level, block) do update set postings = posting.postings || excluded.postings",
    "insert into tools_search.term select %(generation)s, id, key, 0, '{}', '{}', start, slips from pg_temp.keyed",
    "update tools_search.term set tools = changed.tools, audiences = changed.audiences, counts = changed.counts from ("
    "select term, coalesce(sum(tools), 0) as tools, "
    "coalesce(array_agg(audience order by audience) filter (where tools > 0), '{}') as audiences, "
    "coalesce(array_agg(tools order by audience) filter (where tools > 0), '{}') as counts from ("
    "select term, audience, sum(tools)::int as tools from ("
    "select * from pg_temp.counted union all "
    "select id, unnest(audiences), unnest(counts) from tools_search.term "
    "where generation = %(generation)s and id in (select term from pg_temp.counted)"
    ") one group by term, audience) own group by term"
    ") changed where term.generation = %(generation)s and term.id = changed.term",
)


class ImportingError(ValueError):
    """Tools cannot be written. The text says which and why."""


@dataclass(frozen=True)
class ToolEntry:
    """A tool in a catalog."""

    definition: Mapping[str, Any]
    """The definition in the form of `tools/list`."""

    groups: Sequence[str] = ()
    """The groups of callers that see the tool; empty if everyone sees it."""

    answer: str | None = None
    """A catalog server's fixed answer to calls, as JSON."""

    @property
    def text(self) -> str:
        """The definition in its stored form: JSON in ASCII."""
        return json.dumps(self.definition, separators=(",", ":"))

    @property
    def digest(self) -> bytes:
        """A digest that shows whether the definition has changed."""
        return _digest(self.text.encode())


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()[:16]


@dataclass(frozen=True)
class _Rows:
    """Rows for some tools, in the form for `COPY`."""

    tools: Sequence[Column]
    documents: Sequence[Column]
    postings: Sequence[Column]
    counts: Sequence[Column]
    """The number of tools with a term, by term and audience."""


@dataclass
class _Writer:
    """Turns tools into rows, and sums up what it has seen."""

    analyzer: Analyzer
    generation: int
    audiences: dict[tuple[str, ...], int]
    sizes: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """The number of tools and the sum of their lengths, by audience."""

    blocks: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set[int]))
    """The blocks of tool ids, by audience."""

    def rows(self, first: int, read: Sequence[tuple[ToolEntry, Tool]]) -> _Rows:
        """Return the rows of tools, whose ids are consecutive from `first`."""
        documents = self.analyzer.documents(tool for _, tool in read)
        owners = [
            self.audiences.setdefault(tuple(sorted(set(entry.groups))), len(self.audiences) + 1) for entry, _ in read
        ]
        if len(self.audiences) > _MOST_AUDIENCES:
            raise ImportingError(f"there are more than {_MOST_AUDIENCES:,} different sets of groups")
        lengths = documents.lengths.tolist()
        for number, (audience, length) in enumerate(zip(owners, lengths, strict=True), start=first):
            size = self.sizes[audience]
            size[0] += 1
            size[1] += length
            self.blocks[audience].add(number >> BLOCK_BITS)
        audiences = np.array(owners, dtype=np.int64)
        written = [entry.text.encode() for entry, _ in read]
        start = [
            self._generations(len(read)),
            integers(np.arange(first, first + len(read)), INT),
            texts(tool.name.encode("utf-8", "surrogatepass") for _, tool in read),
            integers(audiences, INT),
        ]
        answers = (None if entry.answer is None else entry.answer.encode() for entry, _ in read)
        by_tool = np.arange(len(read) + 1)
        of_terms = np.searchsorted(documents.terms.tools, by_tool)
        of_floor = np.searchsorted(documents.floor.tools, by_tool)
        of_all = of_floor + np.searchsorted(documents.stems.tools, by_tool)
        floor_first = np.argsort(np.append(documents.floor.tools, documents.stems.tools), kind="stable")
        return _Rows(
            tools=[*start, texts(map(_digest, written)), texts(written), texts(answers)],
            documents=[
                *start,
                integers(documents.lengths, INT),
                arrays(documents.terms.terms, of_terms, INT),
                *(arrays(values, of_terms, SMALLINT) for values in documents.terms.values),
                arrays(np.append(documents.floor.terms, documents.stems.terms)[floor_first], of_all, INT),
                *(arrays(values, of_floor, SMALLINT) for values in documents.floor.values),
            ],
            postings=self._postings(first, documents.postings, audiences),
            counts=_counts(documents.terms, audiences),
        )

    def _postings(self, first: int, own: Columns, audiences: Numbers) -> Sequence[Column]:
        levels, impacts = own.values
        numbers = own.tools + first
        order = np.lexsort((numbers, own.terms))
        terms, levels, numbers = own.terms[order], levels[order], numbers[order]
        _, starts, counts = _groups(terms, numbers >> BLOCK_BITS)
        highest = np.repeat(np.maximum.reduceat(levels, starts), counts)
        levels = np.where(np.repeat(counts, counts) <= _FEW, highest, levels)
        again = np.lexsort((numbers, levels, terms))
        order, terms, levels, numbers = order[again], terms[again], levels[again], numbers[again]
        impacts, audiences = impacts[order], audiences[own.tools][order]
        bounds, starts, _ = _groups(terms, levels, numbers >> BLOCK_BITS)
        return [
            self._generations(len(starts)),
            integers(terms[starts], INT),
            integers(levels[starts], SMALLINT),
            integers(numbers[starts] >> BLOCK_BITS, INT),
            arrays(audiences << ID_BITS + IMPACT_BITS | impacts << ID_BITS | numbers, bounds, BIGINT),
        ]

    def _generations(self, count: int) -> Column:
        return integers(np.full(count, self.generation), INT)


def _counts(found: Columns, audiences: Numbers) -> Sequence[Column]:
    own = audiences[found.tools]
    order = np.lexsort((own, found.terms))
    terms, own = found.terms[order], own[order]
    _, starts, counts = _groups(terms, own)
    return [integers(terms[starts], INT), integers(own[starts], INT), integers(counts, INT)]


def _groups(*ordered: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return where groups of equal rows begin and the last ends, where they begin, and the number of rows in each."""
    size = len(ordered[0])
    begins = np.full(size, fill_value=False)
    begins[:1] = True
    for column in ordered:
        begins[1:] |= column[1:] != column[:-1]
    bounds = np.append(np.flatnonzero(begins), size)
    return bounds, bounds[:-1], np.diff(bounds)


def import_catalog(
    connection: Connection,
    catalog: str,
    entries: Iterable[ToolEntry],
    *,
    facts: Mapping[str, Any] | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Create a catalog or replace its tools, and return the number of tools.

    Readers find the old tools until all new ones are written. Vectors of definitions that have not changed are kept;
    `embed_catalog` makes the others.

    Args:
        connection: A connection as the owner of the schema, which must be at this version.
        catalog: The catalog's name.
        entries: The tools, whose names must be unique. They are consumed as they are written, a few thousand at a time.
        facts: The settings that a server of the catalog advertises.
        on_progress: Called with the number of tools written so far.

    Raises:
        ImportingError: A definition is not an MCP tool, or two have the same name.
        psycopg.Error: The database failed, or the role lacks permission.
    """
    written = 0
    with connection.transaction():
        connection.execute(WITHOUT_TIME_LIMITS)
        generation, embedded = _new_generation(connection, catalog, facts or {})
        writer = _Writer(Analyzer(), generation, {})
        remaining = iter(entries)
        with ThreadPoolExecutor(1) as copying:  # while the database writes, the next tools are analyzed
            pending: Future[None] | None = None
            while chunk := list(islice(remaining, _BLOCK - 1 if written == 0 else _BLOCK)):  # ids start at 1
                rows = writer.rows(written + 1, list(_read(chunk, written)))
                if pending is not None:
                    pending.result()
                    on_progress(written)
                pending = copying.submit(_copy, connection, generation, rows)
                written += len(chunk)
            if pending is not None:
                pending.result()
                on_progress(written)
        _write_terms(connection, generation, writer.analyzer)
        _write_postings(connection, generation)
        _write_audiences(connection, generation, writer)
        connection.execute(
            "update tools_search.generation set last_tool = %s, last_term = %s where id = %s",
            [written, writer.analyzer.last, generation],
        )
        try:
            with connection.transaction():
                for table in _PARTITIONED:
                    _index(connection, table, generation)
        except UniqueViolation:
            raise _same_name(_repeated(connection, generation)) from None
        if embedded is not None:
            keep_vectors(connection, embedded, generation)
            _index(connection, VECTORS, generation)
        for table in _tables(
            embedded
        ):  # last, to be brief: from here to the end, this locks the tables of all catalogs
            connection.execute(
                sql.SQL("alter table {} attach partition {} for values in ({})").format(
                    sql.Identifier("tools_search", table), _partition(table, generation), generation
                )
            )
        connection.execute(
            "update tools_search.catalog set generation = %s, revision = revision + 1 where name = %s",
            [generation, catalog],
        )
    drop_old_generations(connection)
    return written


def _index(connection: Connection, table: str, generation: int) -> None:
    """Create the indexes of a table on its partition."""
    definitions = connection.execute(
        "select pg_get_indexdef(indexrelid) from pg_index where indrelid = %s::regclass", [f"tools_search.{table}"]
    ).fetchall()
    for (definition,) in definitions:
        made, _, columns = definition.partition(" USING ")
        statement = "create unique index on {} using " if "UNIQUE" in made else "create index on {} using "
        connection.execute(sql.SQL(statement).format(_partition(table, generation)) + sql.SQL(columns))
    connection.execute(sql.SQL("analyze {}").format(_partition(table, generation)))


def reindex_catalog(
    connection: Connection, reading: Connection, catalog: str, *, on_progress: Callable[[int], None] = lambda _: None
) -> int:
    """Rebuild a catalog's index from the definitions in the database, and return the number of tools.

    The arguments are as for `import_catalog`, with a second connection of the same role, which reads while the first
    one writes.

    Raises:
        LookupError: There is no such catalog.
        psycopg.Error: The database failed, or the role lacks permission.
    """

    def entries(generation: int) -> Iterator[ToolEntry]:
        with reading.transaction(), reading.cursor("definitions") as cursor:
            reading.execute(WITHOUT_TIME_LIMITS)
            cursor.execute(
                "select definition, groups, answer from tools_search.tool join tools_search.audience "
                "on audience.generation = tool.generation and audience.id = tool.audience "
                "where tool.generation = %s order by tool.audience, tool.id",
                [generation],
            )
            for definition, groups, answer in cursor:
                yield ToolEntry(json.loads(definition), groups, answer)

    with connection.transaction():
        connection.execute(WITHOUT_TIME_LIMITS)
        # This waits for a running import; otherwise it would read the tools that the import replaces.
        generation, facts, *_ = _locked(connection, catalog)
        return import_catalog(connection, catalog, entries(generation), facts=facts, on_progress=on_progress)


def update_catalog(connection: Connection, catalog: str, removed: Collection[str], added: Sequence[ToolEntry]) -> None:
    """Change some tools in a catalog, at the cost of only these tools.

    Tools whose names are in `removed` are removed, and unknown names are ignored. Those in `added` are added or
    replaced, and have no vectors until `embed_catalog` makes them. The connection is as for `import_catalog`.

    Raises:
        LookupError: There is no such catalog.
        ImportingError: A definition is not an MCP tool, or two have the same name.
        psycopg.Error: The database failed, or the role lacks permission.
    """
    read = list(_read(added, 0))
    added_names = Counter(tool.name for _, tool in read)
    if repeated := [name for name, count in added_names.items() if count > 1]:
        raise _same_name(repeated[0])
    with connection.transaction():
        connection.execute(WITHOUT_TIME_LIMITS)
        connection.execute(NOT_FROZEN)
        generation, _, last_tool, last_term = _locked(connection, catalog)
        names = {*removed, *added_names}
        connection.execute(_COPIED)
        _remove(connection, generation, [name.encode("utf-8", "surrogatepass") for name in names])
        analyzer = Analyzer(_known_terms(connection, generation, read), last_term)
        audiences = connection.execute(
            "select groups, id from tools_search.audience where generation = %s", [generation]
        ).fetchall()
        writer = _Writer(analyzer, generation, {tuple(groups): number for groups, number in audiences})
        rows = writer.rows(last_tool + 1, read)
        _add(connection, generation, rows, {key: own for key, own in analyzer.known.items() if own > last_term})
        _write_audiences(connection, generation, writer)
        connection.execute(
            "update tools_search.generation set last_tool = %s, last_term = %s where id = %s",
            [last_tool + len(read), analyzer.last, generation],
        )
        connection.execute("update tools_search.catalog set revision = revision + 1 where name = %s", [catalog])


def _remove(connection: Connection, generation: int, names: Sequence[bytes]) -> None:
    """Remove tools, and record the resulting changes in `counted`."""
    tools = [
        number
        for (number,) in connection.execute(
            "select id from tools_search.tool where generation = %s and sha256(name) = any (%b)",
            [generation, [hashlib.sha256(name).digest() for name in names]],
        )
    ]
    if not tools:  # the database does not end a connection that is idle after an empty pipeline
        return
    values = {"generation": generation, "tools": tools, "bits": BLOCK_BITS, "ids": (1 << ID_BITS) - 1}
    with connection.pipeline():  # the catalog is locked meanwhile
        for statement in _REMOVING:
            connection.execute(statement, values)
    remove_vectors(connection, generation, tools)


def _known_terms(connection: Connection, generation: int, read: Sequence[tuple[ToolEntry, Tool]]) -> dict[str, int]:
    """Return the ids of the tools' terms that the generation already has."""
    first = Analyzer()
    first.documents(tool for _, tool in read)
    return dict(
        connection.execute(
            "select key, id from tools_search.term where generation = %s and key = any (%s)",
            [generation, list(first.known)],
        ).fetchall()
    )


def _add(connection: Connection, generation: int, rows: _Rows, new: Mapping[str, int]) -> None:
    _copy_terms(connection, new)
    _copy(connection, generation, rows)
    with connection.pipeline():
        for statement in _ADDING:
            connection.execute(statement, {"generation": generation})


def drop_old_generations(connection: Connection) -> None:
    """Drop replaced generations. Those that searches still use remain until the next import."""
    rows = connection.execute(
        "select id from tools_search.generation "
        "where id not in (select generation from tools_search.catalog where generation is not null)"
    ).fetchall()
    for (generation,) in rows:
        with suppress(LockNotAvailable), connection.transaction():
            connection.execute(_SHORT_WAIT)  # new searches wait for this lock too
            for table in (*_PARTITIONED, VECTORS):
                connection.execute(sql.SQL("drop table if exists {}").format(_partition(table, generation)))
            connection.execute("delete from tools_search.generation where id = %s", [generation])


def _tables(embedded: int | None) -> Sequence[str]:
    """Return the tables of which a generation has partitions; `embedded` is an earlier one with vectors."""
    return _PARTITIONED if embedded is None else (*_PARTITIONED, VECTORS)


def _new_generation(connection: Connection, catalog: str, facts: Mapping[str, Any]) -> tuple[int, int | None]:
    """Create a generation with empty partitions. Locks the catalog against other imports.

    Returns its id, and that of the catalog's current one if that has vectors.
    """
    connection.execute(MEMORY)
    connection.execute("insert into tools_search.catalog (name) values (%s) on conflict do nothing", [catalog])
    (generation,) = _row(
        connection,
        "insert into tools_search.generation (catalog, analysis, facts) "
        "select id, %s, %s from tools_search.catalog where name = %s for update returning id",
        [ANALYSIS, json.dumps(facts), catalog],
    )
    embedded = generation_with_vectors(connection, catalog)
    for table in _tables(embedded):
        connection.execute(
            sql.SQL("create table {} (like {} including defaults including storage, check (generation = {}))").format(
                _partition(table, generation), sql.Identifier("tools_search", table), generation
            )
        )
    connection.execute(_WITHOUT_STATISTICS.format(_partition("tool", generation)))
    connection.execute(_COPIED)
    return generation, embedded


def _read(chunk: Sequence[ToolEntry], before: int) -> Iterator[tuple[ToolEntry, Tool]]:
    for number, entry in enumerate(chunk, start=before + 1):
        if not (tools := valid_tools([entry.definition])):
            raise ImportingError(f"tool {number} is not a definition of an MCP tool")
        for owner, text in (("the answer", entry.answer or ""), *(("a group", group) for group in entry.groups)):
            if NOT_TEXT.search(text):
                raise ImportingError(f"{owner} of tool {number} has a character that PostgreSQL does not store as text")
        yield entry, tools[0]


def _same_name(name: str) -> ImportingError:
    return ImportingError(f"two tools have the name {name[:_MOST_QUOTED]!r}: give each a unique name")


def _repeated(connection: Connection, generation: int) -> str:
    """Return a name that two tools of an unfinished generation have."""
    statement = sql.SQL("select name from {} group by name having count(*) > 1 limit 1")
    ((name,),) = connection.execute(statement.format(_partition("tool", generation))).fetchall()
    return bytes(name).decode("utf-8", "surrogatepass")


def _copy(connection: Connection, generation: int, rows: _Rows) -> None:
    copy_rows(connection, _partition("tool", generation), rows.tools)
    copy_rows(connection, _partition("document", generation), rows.documents)
    copy_rows(connection, sql.Identifier("pg_temp", "added"), rows.postings)
    copy_rows(connection, sql.Identifier("pg_temp", "counted"), rows.counts)


def _copy_terms(connection: Connection, known: Mapping[str, int]) -> None:
    """Write terms to the temporary table `keyed`."""
    remaining = iter(known.items())
    while chunk := list(islice(remaining, _BLOCK)):
        corrected = [start_and_slips(key) for key, _ in chunk]
        bounds = np.cumsum([0, *(len(own[1]) if own else 0 for own in corrected)])
        slips = arrays(np.array([slip for own in corrected if own for slip in own[1]], dtype=np.int64), bounds, INT)
        columns = [
            integers([number for _, number in chunk], INT),
            texts(key.encode() for key, _ in chunk),
            texts(own[0].encode() if own else None for own in corrected),
            [one if own else NULL for one, own in zip(slips, corrected, strict=True)],
        ]
        copy_rows(connection, sql.Identifier("pg_temp", "keyed"), columns)


def _write_terms(connection: Connection, generation: int, analyzer: Analyzer) -> None:
    _copy_terms(connection, analyzer.known)
    connection.execute(
        sql.SQL(
            "insert into {} select {}, id, key, "
            "coalesce(tools, 0), coalesce(audiences, '{{}}'), coalesce(counts, '{{}}'), start, slips "
            "from pg_temp.keyed left join ("
            "select term, sum(tools)::int as tools, array_agg(audience order by audience) as audiences, "
            "array_agg(tools order by audience) as counts "
            "from (select term, audience, sum(tools)::int as tools from pg_temp.counted group by 1, 2) own group by 1"
            ") own on own.term = keyed.id"
        ).format(_partition("term", generation), generation)
    )


def _write_postings(connection: Connection, generation: int) -> None:
    """Write the postings of a term one after another, so that a search reads few pages for them."""
    connection.execute(
        sql.SQL("insert into {} select * from pg_temp.added order by term, level, block").format(
            _partition("posting", generation)
        )
    )


def _write_audiences(connection: Connection, generation: int, writer: _Writer) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into tools_search.audience values (%s, %s, %s, %s, %s, %s) on conflict (generation, id) "
            "do update set tools = audience.tools + excluded.tools, length = audience.length + excluded.length, "
            "blocks = array(select unnest(audience.blocks) union select unnest(excluded.blocks))",
            [
                [generation, number, list(groups), *writer.sizes[number], list(writer.blocks[number])]
                for groups, number in writer.audiences.items()
            ],
        )


def _partition(table: str, generation: int) -> sql.Identifier:
    return sql.Identifier("tools_search", f"{table}_{generation}")


def _locked(connection: Connection, catalog: str) -> tuple[Any, ...]:
    """Lock a catalog against changes by other connections. Return its generation, facts and last ids."""
    connection.execute("select from tools_search.catalog where name = %s for update", [catalog])
    return _row(  # a separate statement, so that it sees the changes that the lock has waited for
        connection,
        "select generation.id, facts, last_tool, last_term from tools_search.catalog "
        "join tools_search.generation on generation.id = catalog.generation where name = %s",
        [catalog],
    )


def _row(connection: Connection, statement: LiteralString, values: Sequence[Any]) -> tuple[Any, ...]:
    row = connection.execute(statement, values).fetchone()
    if row is None:
        raise LookupError("there is no such catalog")
    return row
