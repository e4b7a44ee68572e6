"""Search times in catalogs of any size, and the cost of building and storing them."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path
from random import Random
from statistics import fmean, quantiles
from time import monotonic, perf_counter
from typing import Final

import click
import psycopg
from mcp_ext_tools_search.types import valid_tools
from mcp_types import Tool
from mcp_types.version import LATEST_MODERN_VERSION
from tools_search_ranking import FieldedRanker
from tools_search_ranking.postgres import PostgresIndex, ToolEntry, import_catalog, update_catalog
from tools_search_ranking.postgres.schema import Connection
from tools_search_ranking.semantic import Embedder

from benchmarks.postgres.answers import first_ten
from benchmarks.postgres.corpus import synthetic
from benchmarks.processes import Wire, free_port

_GROUP_SIZE: Final = 1_000
"""Number of tools that the same callers see, like one server's."""

_COMPARED: Final = 100_000
"""Maximum tools to index in memory as well, to compare the answers."""

_CATALOG: Final = "synthetic"
_TABLES: Final = ("tool", "document", "term", "posting")
_SEED: Final = 1
_ANYONE: Final = f"{LATEST_MODERN_VERSION} others"
"""The group of a catalog server's callers, who see everything."""

_MOST_FREQUENT: Final = 20
"""Number of most frequent words to make the hardest queries from."""


class _TooSlowError(Exception):
    """A search exceeded its time limit."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of consecutive searches."""

    asked: str
    """The queries: the datasets' requests, or words that are in most tools."""

    visible: float
    """Share of the tools that the caller sees."""

    callers: int
    """Number of concurrent searches."""

    p50: float
    p95: float
    per_second: float
    processor_p50: float
    """The database's processor time in milliseconds, the figure to compare on a busy machine. 0 for many callers."""

    processor_p95: float


@dataclass(frozen=True)
class Scale:
    """The figures for one size."""

    tools: int
    build_seconds: float

    bytes: dict[str, int]
    """Bytes by table, including indexes."""

    memory: dict[str, int]
    """Bytes of memory: the importing program's peak, a catalog server's, and the database's per connection."""

    change_ms: float
    """Milliseconds from a tool's change until a search finds it."""

    times: Sequence[Times]
    """Without those of which a search exceeded its time limit."""

    same: float | None
    """Share of the requests with the same first ten results as in memory, over the tools compared."""

    compared: int
    """Number of tools in that comparison."""

    plan: Sequence[str]
    """The query plan for reading the most frequent term's postings."""


def measure(
    address: str, parents: Sequence[Tool], queries: Sequence[str], size: int, callers: Sequence[int], searches: int
) -> Scale:
    """Build a catalog of synthetic tools, unless it exists, and search it."""
    name = f"{_CATALOG} {size}"
    with psycopg.connect(address, autocommit=True) as connection:
        build_seconds, import_memory = _built(connection, name, parents, size)
        groups = sorted({place // _GROUP_SIZE for place in range(size)})
        chance = Random(_SEED)  # noqa: S311 - the same callers in every run
        parts: dict[float, list[str] | None] = {1.0: None}
        for part in (0.1, 0.01):
            if (count := round(len(groups) * part)) > 0:
                parts[part] = [f"g{group}" for group in chance.sample(groups, count)]
        frequent = _frequent(connection, name, len(queries))
        times: list[Times] = []
        for asked, of_callers in ((("requests", queries), callers), (("frequent words", frequent), callers[:1])):
            for (part, seen), at_once in product(parts.items(), of_callers):
                with suppress(_TooSlowError):
                    times.append(time_searches(address, name, asked, seen, part, at_once, searches))
        same, compared = _compared(connection, name, queries, parts, size)
        return Scale(
            tools=size,
            build_seconds=build_seconds,
            bytes=_bytes(connection, name),
            memory={"import": import_memory, **_memory(address, name, queries)},
            change_ms=_change_ms(connection, name),
            times=times,
            same=same,
            compared=compared,
            plan=_plan(connection, name),
        )


def _built(connection: Connection, name: str, parents: Sequence[Tool], size: int) -> tuple[float, int]:
    """Return the seconds it took to build a catalog, now or earlier, and the peak memory."""
    facts = connection.execute(
        "select facts from tools_search.catalog join tools_search.generation on generation.id = catalog.generation "
        "where name = %s",
        [name],
    ).fetchone()
    if facts is not None:
        return facts[0]["seconds"], facts[0]["memory"]
    began = monotonic()

    def report(written: int) -> None:
        click.echo(f"{written:,} tools after {monotonic() - began:,.0f} s", err=True)

    definitions = enumerate(synthetic(parents, size, _SEED))
    entries = (ToolEntry(definition, (f"g{place // _GROUP_SIZE}", _ANYONE)) for place, definition in definitions)
    import_catalog(connection, name, entries, on_progress=report)
    seconds = monotonic() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    connection.execute(
        "update tools_search.generation set facts = json_build_object('seconds', %s::float8, 'memory', %s::int8) "
        "where id = (select generation from tools_search.catalog where name = %s)",
        [seconds, memory, name],
    )
    return seconds, memory


def _frequent(connection: Connection, name: str, count: int) -> list[str]:
    """Return queries with one to four of the most frequent words."""
    rows = connection.execute(
        "select key from tools_search.catalog join tools_search.term using (generation) "
        "where name = %s and key !~ '^[=~]' order by tools desc limit %s",
        [name, _MOST_FREQUENT],
    ).fetchall()
    chance = Random(_SEED)  # noqa: S311 - the same queries in every run
    return [" ".join(chance.sample([word for (word,) in rows], place % 4 + 1)) for place in range(count)]


def _memory(address: str, name: str, queries: Sequence[str]) -> dict[str, int]:
    """Return the memory of a catalog server and of one connection after searches, on this machine."""
    port = free_port()
    arguments = ["--catalog", address, "--catalog-name", name, "--http", f"127.0.0.1:{port}"]
    with (
        psycopg.connect(address, autocommit=True) as connection,
        subprocess.Popen([sys.executable, "-m", "tools_search_server", *arguments], stdout=subprocess.PIPE) as server,  # noqa: S603
    ):
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        server.stdout.readline()
        try:
            index = PostgresIndex(connection, name)
            with closing(Wire(port, "/mcp")) as wire:
                for query in queries:
                    wire.ask("tools/search", {"query": query})
                    index.first(query, 10, definitions=range(10))
            return {"server": _private(server.pid), "connection": _private(connection.info.backend_pid)}
        finally:
            server.terminate()


def _private(process: int) -> int:
    """Return a process's private memory in bytes, if it is on this machine."""
    file = Path(f"/proc/{process}/smaps_rollup")
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def time_searches(
    address: str,
    name: str,
    asked: tuple[str, Sequence[str]],
    seen: list[str] | None,
    part: float,
    callers: int,
    searches: int,
    embedder: Embedder | None = None,
) -> Times:
    """Make `searches` searches with a number of concurrent callers; each caller's first ten are discarded.

    Raises:
        _TooSlowError: A search exceeded its time limit.
    """
    kind, queries = asked
    taken: list[float] = []
    processor: list[float] = []
    began: list[float] = []
    ready = threading.Barrier(callers)

    def search(own_queries: Iterator[str], count: int) -> None:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                index = PostgresIndex(connection, name, groups=seen, embedder=embedder)
                for query in islice(own_queries, 10):
                    index.first(query, 10, definitions=range(10))
                ready.wait()
                began.append(perf_counter())
                for query in islice(own_queries, count):
                    before, used = perf_counter(), _processor_ms(connection)
                    index.first(query, 10, definitions=range(10))
                    taken.append((perf_counter() - before) * 1000)
                    processor.append(_processor_ms(connection) - used)
        except Exception:
            ready.abort()  # the others would wait for this one
            raise

    with ThreadPoolExecutor(callers) as pool:
        starts = (cycle([*queries[place:], *queries[:place]]) for place in range(callers))
        searching = [pool.submit(search, start, searches // callers) for start in starts]
        errors = [error for ended in searching if (error := ended.exception()) is not None]
    if any(isinstance(error.__context__, psycopg.errors.QueryCanceled) for error in errors):
        raise _TooSlowError
    if errors:  # those of the others are that the barrier is broken
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    seconds = perf_counter() - min(began)
    (p50, p95), (processor50, processor95) = (_percentiles(values) for values in (taken, processor))
    return Times(kind, part, callers, p50, p95, len(taken) / seconds, processor50, processor95)


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(values, n=20)
    return cuts[9], cuts[18]


def _processor_ms(connection: Connection) -> float:
    """Return the processor time used by a connection's process, if it is on this machine."""
    file = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    return int(file.read_text(encoding="ascii").split()[0]) / 1e6 if file.exists() else 0.0


def _bytes(connection: Connection, name: str) -> dict[str, int]:
    rows = connection.execute(
        "select part, pg_total_relation_size(format('tools_search.%%s_%%s', part, generation)::regclass) "
        "from tools_search.catalog, unnest(%s::text[]) with ordinality parts (part, place) where name = %s "
        "order by place",
        [list(_TABLES), name],
    )
    return dict(rows.fetchall())


def _change_ms(connection: Connection, name: str) -> float:
    definition = {"name": "changed_tool", "description": "Whistles quietly.", "inputSchema": {"type": "object"}}
    taken: list[float] = []
    for number in range(5):
        began = perf_counter()
        changed = {**definition, "description": f"Whistles quietly, {number} times."}
        update_catalog(connection, name, [], [ToolEntry(changed, ("g0",))])
        found = PostgresIndex(connection, name).first("changed tool whistles", 1, definitions=range(1))
        assert found.definitions["changed_tool"] == changed  # noqa: S101 - or the figure means nothing
        taken.append((perf_counter() - began) * 1000)
    update_catalog(connection, name, ["changed_tool"], [])
    return fmean(sorted(taken)[1:4])


def _compared(
    connection: Connection, name: str, queries: Sequence[str], parts: dict[float, list[str] | None], size: int
) -> tuple[float | None, int]:
    """Compare the first ten results with those of an in-memory index, over the largest part that it can hold."""
    part = next((share for share in sorted(parts, reverse=True) if share * size <= _COMPARED), None)
    if part is None:
        return None, 0
    rows = connection.execute(
        "select definition::jsonb from tools_search.catalog "
        "join tools_search.tool on tool.generation = catalog.generation "
        "join tools_search.audience on audience.generation = tool.generation and audience.id = tool.audience "
        "where catalog.name = %s and (%s::text[] is null or audience.groups && %s::text[])",
        [name, parts[part], parts[part]],
    ).fetchall()
    tools = list(valid_tools(definition for (definition,) in rows))
    memory, ours = FieldedRanker()(tools), PostgresIndex(connection, name, groups=parts[part])
    return fmean(first_ten(ours, query) == first_ten(memory, query) for query in queries), len(tools)


def _plan(connection: Connection, name: str) -> list[str]:
    generation, term = connection.execute(
        "select generation, term.id from tools_search.catalog join tools_search.term using (generation) "
        "where name = %s and key !~ '^[=~]' order by tools desc limit 1",
        [name],
    ).fetchall()[0]
    lines = connection.execute(
        "explain (analyze, buffers, timing off, costs off) select unnest(postings) from ("
        "select postings from tools_search.posting where generation = %s and term = %s "
        "order by level desc, block desc) by_level limit 2000",
        [generation, term],
    ).fetchall()
    return [line for (line,) in lines]
