"""PostgreSQL's plans for a search use the indexes, for callers who see all or a part of the catalog."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import psycopg
import pytest
from tools_search_ranking.postgres import PostgresIndex, SchemaError, ToolEntry, embed_catalog, import_catalog
from tools_search_ranking.semantic import Embedder

_TOOLS = 20_000
_GROUPS = 1_000
_QUERIES = ("w0", "w0 w1 w2", "w1 w40", "w300 w2", "wx300 w7", "tool_77", "w17 w33 w60 w100 w2000")
_FREQUENT = "w0 w1"
_CALLERS: Mapping[str, Sequence[str] | None] = {
    "everything": None,
    "four tenths": [f"g{group}" for group in range(_GROUPS) if group % 10 < 4],
    "a tenth": [f"g{group}" for group in range(0, _GROUPS, 10)],
    "a hundredth": [f"g{group}" for group in range(420, 430)],
}
_READ = """
    select relname, seq_scan::int, idx_tup_fetch::int from pg_stat_xact_user_tables
    where schemaname = 'tools_search' and relname ~ '^(tool|document|term|posting|vector)_[0-9]+$'
"""


def _entries(tools: int = _TOOLS) -> Iterator[ToolEntry]:
    chance = Random(1)  # noqa: S311
    words = [f"w{place}" for place in range(3_000)]
    weights = [1 / (place + 1) for place in range(len(words))]
    for place in range(tools):
        text = " ".join(chance.choices(words, weights, k=15))
        definition = {"name": f"tool_{place}", "description": text, "inputSchema": {"type": "object"}}
        yield ToolEntry(definition, [f"g{place * _GROUPS // _TOOLS}"])


@pytest.fixture(scope="module")
def filled(address: str) -> str:
    """An address with a catalog that has enough rows for its indexes to be worth it."""
    with psycopg.connect(address, autocommit=True) as connection:
        import_catalog(connection, "filled", _entries())
    return address


@pytest.fixture
def connection(filled: str) -> Generator[Any]:
    """A new connection, which has read nothing."""
    with psycopg.connect(filled, autocommit=True) as connection:
        yield connection


@pytest.mark.rotating
@pytest.mark.parametrize("part", _CALLERS)
def test_a_search_reads_no_table_of_a_catalog_from_end_to_end(connection: Any, part: str):
    with connection.transaction():
        index = PostgresIndex(connection, "filled", groups=_CALLERS[part])
        for query in _QUERIES:
            assert index.first(query, 20, definitions=range(20)).hits
        read = connection.execute(_READ).fetchall()
    assert {name.partition("_")[0] for name, _, fetched in read if fetched} == {"tool", "document", "term", "posting"}
    assert {name: scans for name, scans, _ in read if scans} == {}


@pytest.mark.parametrize(("part", "most"), [("four tenths", 6_000), ("a tenth", 3_000), ("a hundredth", 1_000)])
def test_a_search_of_frequent_words_reads_few_documents_besides_those_that_the_caller_sees(
    connection: Any, part: str, most: int
):
    with connection.transaction():
        found = PostgresIndex(connection, "filled", groups=_CALLERS[part]).first(_FREQUENT, 20)
        fetched = sum(rows for name, _, rows in connection.execute(_READ).fetchall() if name.startswith("document_"))
    assert 10 < found.total < fetched < most


def test_a_search_by_meaning_reads_the_vectors_of_tools_that_the_caller_sees_and_no_others(
    filled: str, connection: Any
):
    chance = np.random.default_rng(1)
    embedder = Embedder("random", lambda texts: chance.standard_normal((len(texts), 8)))
    import_catalog(connection, "meant", _entries(3_000))
    try:
        embed_catalog(connection, "meant", embedder)
    except SchemaError as error:
        pytest.skip(str(error))
    connection.execute("analyze tools_search.vector")
    for groups in (["g1"], [f"g{group}" for group in range(0, 150, 2)]):
        with psycopg.connect(filled) as fresh:  # which has read nothing
            index = PostgresIndex(fresh, "meant", groups=groups, embedder=embedder)
            assert index.first("w300", 20).total > 3
            read = fresh.execute(_READ).fetchall()
        assert {name: scans for name, scans, _ in read if scans} == {}
        assert [rows for name, _, rows in read if name.startswith("vector_")] == [20 * len(groups)]


@pytest.mark.parametrize("part", _CALLERS)
def test_the_tools_with_all_words_are_found_with_the_words_and_the_audiences_in_one_index(connection: Any, part: str):
    groups = _CALLERS[part]
    [(generation, words)] = connection.execute(
        "select generation, array_agg(term.id) from tools_search.catalog join tools_search.term using (generation) "
        "where name = 'filled' and key = any (%s) group by generation",
        [_FREQUENT.split()],
    ).fetchall()
    [(few,)] = connection.execute(
        "select array_agg(id) from tools_search.audience where generation = %s and groups && %s::text[]",
        [generation, groups],
    ).fetchall()
    for setting in "plan_cache_mode = force_generic_plan", "search_path = tools_search":  # as in `search`
        connection.execute(f"set {setting}")
    connection.execute(
        "prepare having_words(int, int[], boolean[], int[]) as "
        "select from tools_search.having_words($1, $2, $3, $4) limit 10101"
    )
    with psycopg.ClientCursor(connection) as cursor:  # `execute` takes no parameters
        cursor.execute(
            "explain (analyze, format json) execute having_words(%s, %s, null, %s)", [generation, words, few]
        )
        [(plan,)] = cursor.fetchall()
    executed = [node for node in _nodes(plan[0]["Plan"]) if node["Actual Loops"] > 0]
    assert not any("Seq Scan" in node["Node Type"] for node in executed)
    [condition] = [node["Index Cond"] for node in executed if "floor" in node.get("Index Cond", "")]
    assert ("ARRAY[" in condition) == (groups is not None)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
