"""Writes catalogs: either a whole new one while the old one is served, or only the tools that have changed.

Each write is one transaction. A lost connection, a full disk or a killed process leaves the old contents unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, LiteralString

from mcp_ext_tools_search.types import valid_tools
from mcp_types import Tool
from psycopg import sql
from psycopg.errors import LockNotAvailable, UniqueViolation

from tools_search_ranking.postgres.analysis import ANALYSIS, BLOCK_BITS, Analyzer, Document, start_and_slips
from tools_search_ranking.postgres.schema import Connection

_PARTITIONED: Final = ("tool", "document", "term", "posting")
_BLOCK: Final = 1 << BLOCK_BITS
_NULL: Final = r"\N"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"})
"""Of the text format of `COPY`."""

_SHORT_WAIT: Final[LiteralString] = "set local lock_timeout = '200ms'"
_MEMORY: Final[LiteralString] = "set local maintenance_work_mem = '512MB'; set local work_mem = '256MB'"


_COUNTED: Final[LiteralString] = (
    "create temporary table if not exists counted (term int, audience int, tools int) on commit drop; "
    "truncate pg_temp.counted"
)
_WITHOUT_STATISTICS: Final = sql.SQL(
    "alter table {} "
    + ", ".join(
        f"alter column {column} set statistics 0"
        for column in ("generation", "id", "name", "audience", "digest", "definition", "answer")
    )
)
"""As in `0003_readers.sql`, for the reason given there."""

_SAME_NAME: Final = "two of these tools have the same name: give each a unique name"

_REMOVING: Final[tuple[LiteralString, ...]] = (
    "insert into pg_temp.counted select unnest(terms), audience, -1 from tools_search.document "
    "where generation = %(generation)s and tool = any (%(tools)s::int[])",
    "update tools_search.posting set (tools, impacts, audiences) = ("
    "select coalesce(array_agg(own.tool order by place), '{}'), coalesce(array_agg(own.impact order by place), '{}'), "
    "coalesce(array_agg(own.audience order by place), '{}') "
    "from unnest(posting.tools, posting.impacts, posting.audiences) with ordinality "
    "own (tool, impact, audience, place) where own.tool <> all (%(tools)s::int[])) "
    "from (select distinct unnest(terms) as term, tool >> %(bits)s as block from tools_search.document "
    "where generation = %(generation)s and tool = any (%(tools)s::int[])) gone "
    "where posting.generation = %(generation)s and posting.term = gone.term and posting.block = gone.block "
    "and posting.tools && %(tools)s::int[]",
    "delete from tools_search.posting where generation = %(generation)s and tools = '{}' "
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
    "on conflict (generation, term, level, block) do update set tools = posting.tools || excluded.tools, "
    "impacts = posting.impacts || excluded.impacts, audiences = posting.audiences || excluded.audiences",
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
        return _digest(self.text)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


@dataclass
class _Rows:
    """Rows for a few tools, as lines for `COPY`."""

    analyzer: Analyzer
    generation: int
    audiences: dict[tuple[str, ...], int]
    tools: list[str] = field(default_factory=list[str])
    documents: list[str] = field(default_factory=list[str])
    postings: dict[tuple[int, int, int], list[tuple[int, int, int]]] = field(default_factory=dict[Any, Any])
    """By term, level and block: tools, impacts and audiences."""

    counts: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter[int]))
    """The number of tools with a term, by audience and term."""

    sizes: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """The number of tools and the sum of their lengths, by audience."""

    blocks: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set[int]))
    """The blocks of tool ids, by audience."""

    def add(self, number: int, entry: ToolEntry, tool: Tool) -> None:
        audience = self.audiences.setdefault(tuple(sorted(set(entry.groups))), len(self.audiences) + 1)
        document = self.analyzer.document(tool)
        name = _bytes(tool.name.encode("utf-8", "surrogatepass"))
        start = f"{self.generation}\t{number}\t{name}\t{audience}\t"
        answer = _NULL if entry.answer is None else _escaped(entry.answer)
        text = entry.text
        self.tools.append(f"{start}{_bytes(_digest(text))}\t{_escaped(text)}\t{answer}\n")
        self.documents.append(start + _document_row(document))
        for term, level, impact in document.postings:
            place = term, level, number >> BLOCK_BITS
            self.postings.setdefault(place, []).append((number, impact, audience))
        self.counts[audience].update(document.terms.keys())
        size = self.sizes[audience]
        size[0] += 1
        size[1] += document.length
        self.blocks[audience].add(number >> BLOCK_BITS)

    def posting_rows(self) -> Iterator[str]:
        for place, own in sorted(self.postings.items()):
            columns = (_array(column) for column in zip(*own, strict=True))
            yield "\t".join((*map(str, (self.generation, *place)), *columns)) + "\n"

    def count_rows(self) -> Iterator[str]:
        return (
            f"{term}\t{audience}\t{tools}\n" for audience, own in self.counts.items() for term, tools in own.items()
        )


def import_catalog(
    connection: Connection,
    catalog: str,
    entries: Iterable[ToolEntry],
    *,
    facts: Mapping[str, Any] | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Create a catalog or replace its tools, and return the number of tools.

    Readers find the old tools until all new ones are written.

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
        generation = _new_generation(connection, catalog, facts or {})
        rows = _Rows(Analyzer(), generation, {})
        remaining = iter(entries)
        while chunk := list(islice(remaining, _BLOCK - 1 if written == 0 else _BLOCK)):  # ids start at 1
            for number, (entry, tool) in enumerate(_read(chunk, written), start=written + 1):
                rows.add(number, entry, tool)
            written += len(chunk)
            _copy(connection, generation, rows)
            on_progress(written)
        _write_terms(connection, generation, rows.analyzer)
        _write_audiences(connection, generation, rows)
        connection.execute(
            "update tools_search.generation set last_tool = %s, last_term = %s where id = %s",
            [written, rows.analyzer.last, generation],
        )
        try:
            for table in _PARTITIONED:
                _index(connection, table, generation)
        except UniqueViolation:
            raise ImportingError(_SAME_NAME) from None
        for table in _PARTITIONED:  # last, to be brief: from here to the end, this locks the tables of all catalogs
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

    Args:
        connection: As for `import_catalog`.
        reading: A second connection with the same role, which reads while the first one writes.
        catalog: The catalog's name.
        on_progress: As for `import_catalog`.

    Raises:
        LookupError: There is no such catalog.
        psycopg.Error: The database failed, or the role lacks permission.
    """

    def entries(generation: int) -> Iterator[ToolEntry]:
        with reading.transaction(), reading.cursor("definitions") as cursor:
            cursor.execute(
                "select definition, groups, answer from tools_search.tool join tools_search.audience "
                "on audience.generation = tool.generation and audience.id = tool.audience "
                "where tool.generation = %s order by tool.audience, tool.id",
                [generation],
            )
            for definition, groups, answer in cursor:
                yield ToolEntry(json.loads(definition), groups, answer)

    with connection.transaction():  # waits for a running import; otherwise this would read the tools it replaces
        generation, facts, *_ = _locked(connection, catalog)
        return import_catalog(connection, catalog, entries(generation), facts=facts, on_progress=on_progress)


def update_catalog(connection: Connection, catalog: str, removed: Collection[str], added: Sequence[ToolEntry]) -> None:
    """Change some tools in a catalog, at the cost of only these tools.

    Args:
        connection: As for `import_catalog`.
        catalog: The catalog's name.
        removed: Names of tools to remove. Unknown names are ignored.
        added: Tools to add or replace.

    Raises:
        LookupError: There is no such catalog.
        ImportingError: A definition is not an MCP tool, or two have the same name.
        psycopg.Error: The database failed, or the role lacks permission.
    """
    with connection.transaction():
        generation, _, last_tool, last_term = _locked(connection, catalog)
        read = list(_read(added, 0))
        names = {*removed, *(tool.name for _, tool in read)}
        connection.execute(_COUNTED)
        _remove(connection, generation, [name.encode("utf-8", "surrogatepass") for name in names])
        analyzer = Analyzer(_known_terms(connection, generation, read), last_term)
        audiences = connection.execute(
            "select groups, id from tools_search.audience where generation = %s", [generation]
        ).fetchall()
        rows = _Rows(analyzer, generation, {tuple(groups): number for groups, number in audiences})
        for number, (entry, tool) in enumerate(read, start=last_tool + 1):
            rows.add(number, entry, tool)
        try:
            _add(connection, generation, rows, last_term)
        except UniqueViolation:
            raise ImportingError(_SAME_NAME) from None
        _write_audiences(connection, generation, rows)
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
            "select id from tools_search.tool where generation = %s and sha256(name) = any (%s)",
            [generation, [hashlib.sha256(name).digest() for name in names]],
        )
    ]
    values = {"generation": generation, "tools": tools, "bits": BLOCK_BITS}
    for statement in _REMOVING if tools else ():
        connection.execute(statement, values)


def _known_terms(connection: Connection, generation: int, read: Sequence[tuple[ToolEntry, Tool]]) -> dict[str, int]:
    """Return the ids of the tools' terms that the generation already has."""
    first = Analyzer()
    for _, tool in read:
        first.document(tool)
    return dict(
        connection.execute(
            "select key, id from tools_search.term where generation = %s and key = any (%s)",
            [generation, list(first.known)],
        ).fetchall()
    )


def _add(connection: Connection, generation: int, rows: _Rows, last_term: int) -> None:
    connection.execute(
        "create temporary table if not exists added (like tools_search.posting) on commit drop; "
        "create temporary table if not exists keyed (id int, key text, start text, slips int[]) on commit drop; "
        "truncate pg_temp.added, pg_temp.keyed"
    )
    new = {key: number for key, number in rows.analyzer.known.items() if number > last_term}
    _copy_lines(connection, sql.Identifier("pg_temp", "keyed"), map(_term_row, new.items()))
    _copy_lines(connection, sql.Identifier("pg_temp", "added"), rows.posting_rows())
    _copy_lines(connection, _partition("tool", generation), rows.tools)
    _copy_lines(connection, _partition("document", generation), rows.documents)
    _copy_lines(connection, sql.Identifier("pg_temp", "counted"), rows.count_rows())
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
            for table in _PARTITIONED:
                connection.execute(sql.SQL("drop table if exists {}").format(_partition(table, generation)))
            connection.execute("delete from tools_search.generation where id = %s", [generation])


def _new_generation(connection: Connection, catalog: str, facts: Mapping[str, Any]) -> int:
    """Create a generation with empty partitions, and return its id. Locks the catalog against other imports."""
    connection.execute(_MEMORY)
    connection.execute("insert into tools_search.catalog (name) values (%s) on conflict do nothing", [catalog])
    (generation,) = _row(
        connection,
        "insert into tools_search.generation (catalog, analysis, facts) "
        "select id, %s, %s from tools_search.catalog where name = %s for update returning id",
        [ANALYSIS, json.dumps(facts), catalog],
    )
    for table in _PARTITIONED:
        connection.execute(
            sql.SQL("create table {} (like {} including defaults including storage, check (generation = {}))").format(
                _partition(table, generation), sql.Identifier("tools_search", table), generation
            )
        )
    connection.execute(_WITHOUT_STATISTICS.format(_partition("tool", generation)))
    connection.execute(_COUNTED)
    return generation


def _read(chunk: Sequence[ToolEntry], before: int) -> Iterator[tuple[ToolEntry, Tool]]:
    for number, entry in enumerate(chunk, start=before + 1):
        if not (tools := valid_tools([entry.definition])):
            raise ImportingError(f"tool {number} is not a definition of an MCP tool")
        yield entry, tools[0]


def _copy(connection: Connection, generation: int, rows: _Rows) -> None:
    """Write the rows, and clear them."""
    parts: tuple[tuple[sql.Identifier, Iterable[str]], ...] = (
        (_partition("tool", generation), rows.tools),
        (_partition("document", generation), rows.documents),
        (_partition("posting", generation), rows.posting_rows()),
        (sql.Identifier("pg_temp", "counted"), rows.count_rows()),
    )
    for table, lines in parts:
        _copy_lines(connection, table, lines)
    for kept in (rows.tools, rows.documents, rows.postings, rows.counts):
        kept.clear()


def _copy_lines(connection: Connection, table: sql.Identifier, lines: Iterable[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(sql.SQL("copy {} from stdin").format(table)) as copy:
        remaining = iter(lines)
        while text := "".join(islice(remaining, 1_000)):
            copy.write(text)


def _write_terms(connection: Connection, generation: int, analyzer: Analyzer) -> None:
    connection.execute("create temporary table keyed (id int, key text, start text, slips int[]) on commit drop")
    _copy_lines(connection, sql.Identifier("pg_temp", "keyed"), map(_term_row, analyzer.known.items()))
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


def _write_audiences(connection: Connection, generation: int, rows: _Rows) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into tools_search.audience values (%s, %s, %s, %s, %s, %s) on conflict (generation, id) "
            "do update set tools = audience.tools + excluded.tools, length = audience.length + excluded.length, "
            "blocks = array(select unnest(audience.blocks) union select unnest(excluded.blocks))",
            [
                [generation, number, list(groups), *rows.sizes[number], list(rows.blocks[number])]
                for groups, number in rows.audiences.items()
            ],
        )


def _document_row(document: Document) -> str:
    terms = sorted(document.terms)
    steps, members = zip(*map(document.terms.__getitem__, terms), strict=True) if terms else ((), ())
    arrays = (document.named, terms, steps, members, document.floor, document.floor.values())
    return "\t".join((str(document.length), *map(_array, arrays))) + "\n"


def _term_row(term: tuple[str, int]) -> str:
    key, number = term
    start, slips = start_and_slips(key) or (None, ())
    return f"{number}\t{_escaped(key)}\t{_escaped(start) if start else _NULL}\t{_array(slips) if start else _NULL}\n"


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _bytes(value: bytes) -> str:
    return r"\\x" + value.hex()


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


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
