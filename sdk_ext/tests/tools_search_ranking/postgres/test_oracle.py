"""The search in the database ranks as the readable ranker of the port does, over what the caller sees and nothing else.

Words, fields and weights are the port's; that the sums, the statistics and the corrections of misspelled words in SQL
are those in Python is what is tested.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from tools_search_ranking.postgres import (
    ImportingError,
    PostgresIndex,
    ToolEntry,
    import_catalog,
    importing,
    update_catalog,
)
from tools_search_ranking.postgres.analysis import BLOCK_BITS
from tools_search_ranking.postgres.index import search_values
from tools_search_ranking.postgres.request import SEARCH
from tools_search_ranking.translation import in_english

from ..test_oracle import NAME, PARTS, QUERY, assert_alike, tool_of  # noqa: TID252
from .conftest import entries

_GROUPS = st.sets(st.sampled_from(["red", "green", "blue"]), max_size=2)
_CATALOG = st.dictionaries(NAME, st.fixed_dictionaries(PARTS | {"groups": _GROUPS}), min_size=1, max_size=8)
_QUERIES = st.lists(QUERY, min_size=3, max_size=3)
_BLOCK_BITS = st.sampled_from([BLOCK_BITS, 0])
"""In small blocks a caller sees few of many, and their postings are read in another way."""

_CALLERS: Sequence[Collection[str] | None] = (None, (), ("red",), ("green", "blue"))


def _assert_as_separate_catalogs(
    connection: Any, catalog: Mapping[str, Mapping[str, Any]], queries: Sequence[str]
) -> None:
    for groups in _CALLERS:
        seen = [
            tool_of(name, parts)
            for name, parts in catalog.items()
            if groups is None or not parts["groups"] or parts["groups"].intersection(groups)
        ]
        index = PostgresIndex(connection, "catalog", groups=groups)
        separate = floored(SimpleRanker(in_english))(seen)
        for query in (*queries, *list(catalog)[:1]):
            found = index.search(query)
            assert_alike(found, separate.search(query))
            for count in (1, 3):  # of which not all is known
                first = index.first(query, count)
                assert (first.hits, first.total) == (found[:count], len(found))


def _entries(catalog: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    return entries(
        [tool_of(name, parts) for name, parts in catalog.items()], [[*parts["groups"]] for parts in catalog.values()]
    )


@settings(max_examples=15)
@given(catalog=_CATALOG, queries=_QUERIES, bits=_BLOCK_BITS)
def test_each_caller_is_answered_as_by_a_catalog_of_what_it_sees(
    address: str, catalog: Mapping[str, Mapping[str, Any]], queries: Sequence[str], bits: int
):
    with _connected(address) as connection, patch.object(importing, "BLOCK_BITS", bits):
        import_catalog(connection, "catalog", _entries(catalog))
        _assert_as_separate_catalogs(connection, catalog, queries)


@settings(max_examples=10)
@given(catalog=_CATALOG, added=_CATALOG, queries=_QUERIES, bits=_BLOCK_BITS, data=st.data())
def test_after_a_change_as_well(
    address: str,
    catalog: Mapping[str, Mapping[str, Any]],
    added: Mapping[str, Mapping[str, Any]],
    queries: Sequence[str],
    bits: int,
    data: st.DataObject,
):
    removed = data.draw(st.sets(st.sampled_from(sorted(catalog))))
    left = {**{name: parts for name, parts in catalog.items() if name not in removed}, **added}
    with _connected(address) as connection, patch.object(importing, "BLOCK_BITS", bits):
        import_catalog(connection, "catalog", _entries(catalog))
        update_catalog(connection, "catalog", removed, _entries(added))
        _assert_as_separate_catalogs(connection, left, queries)


def test_the_postings_of_a_term_are_stored_one_after_another(connection: Any):
    tools = entries([Tool(name=f"tool_{place}", description="A word.", input_schema={}) for place in range(9)])
    with patch.object(importing, "BLOCK_BITS", 1), patch.object(importing, "_BLOCK", 2):
        import_catalog(connection, "ordered", tools)
    rows = connection.execute(
        "select term, level, block from tools_search.posting join tools_search.catalog using (generation) "
        "where catalog.name = 'ordered' order by posting.ctid"
    ).fetchall()
    assert rows == sorted(rows)
    assert len(rows) > len({term for term, _, _ in rows})


def test_a_visible_tool_with_all_words_of_a_query_is_found_even_if_not_all_postings_are_read(connection: Any):
    words = ["walrus", "quarry", "lantern"]
    schema = {"properties": {"one": {"description": f"Of a {', a '.join(words)}."}}}
    tools = [
        *(Tool(name=f"{word}_{place}", input_schema={}) for word in words for place in "abc"),
        *(Tool(name=name, input_schema=schema) for name in ("expected", "hidden")),
    ]
    import_catalog(connection, "cut", entries(tools, [["red"]] * (len(tools) - 1) + [["green"]]))
    values = search_values("cut", " ".join(words), ["red"], range(20), range(0))
    cut = SEARCH.removesuffix(")") + ", most_postings => 1, most_scored => 1)"
    names = [bytes(name) for _, name, *_ in connection.execute(cut, values).fetchall()]
    assert min(names) == b"expected"
    assert len(names) == 2


def test_tools_for_more_sets_of_groups_than_a_posting_can_name_are_refused(connection: Any):
    tools = entries([Tool(name=name, input_schema={}) for name in "abc"], [["a"], ["b"], ["c"]])
    with (
        patch.object(importing, "_MOST_AUDIENCES", 2),
        pytest.raises(ImportingError, match="more than 2 different sets of groups"),
    ):
        import_catalog(connection, "groups", tools)


def test_a_query_of_any_characters_finds_what_the_readable_ranker_finds(connection: Any):
    names = ["a\x00b", "\ud800", "'; drop table tool; --", "{a,b}", "\\x61", " ", "\u3000名", "%s", "p", " p "]
    tools = [Tool(name=name, description=f"does {name}", input_schema={"type": "object"}) for name in names]
    import_catalog(connection, "catalog", entries(tools))
    index, readable = PostgresIndex(connection, "catalog"), floored(SimpleRanker(in_english))(tools)
    for query in (*names, "  p  ", "does a b drop", "\x00", "x" * 5_000, "word " * 2_000):
        found, expected = index.search(query), readable.search(query)
        assert_alike(found, expected)
        assert [hit.name for hit in found[:1]] == [hit.name for hit in expected[:1]]


@pytest.mark.parametrize(
    "setting",
    [
        "standard_conforming_strings = off",
        "array_nulls = off",
        "bytea_output = 'escape'",
        "search_path = ''",
        "extra_float_digits = -15",
        "transform_null_equals = on",
        "default_transaction_isolation = 'serializable'",
        "work_mem = '64kB'",
        "geqo_threshold = 2; set from_collapse_limit = 1; set join_collapse_limit = 1",
        "jit = on; set jit_above_cost = 0; set jit_inline_above_cost = 0; set jit_optimize_above_cost = 0",
        "parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0; "
        "set min_parallel_index_scan_size = 0; set max_parallel_workers_per_gather = 2",
        "enable_indexscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_hashagg = off",
        "enable_seqscan = off; set enable_sort = off; set enable_nestloop = off; set enable_mergejoin = off",
    ],
)
def test_settings_of_a_database_change_nothing(connection: Any, setting: str):
    connection.execute(f"set {setting}")
    names = "\\a", "drop", "delete", *(f"delete_{word}" for word in "bcdefghij"), "c"
    tools = [
        Tool(name=name, description=f"Does {name}." * place, input_schema={"type": "object"})
        for place, name in enumerate(names, start=1)
    ]
    import_catalog(connection, "set", entries(tools))
    update_catalog(connection, "set", ["c"], entries(tools[:3]))
    index, readable = PostgresIndex(connection, "set"), floored(SimpleRanker(in_english))(tools[:-1])
    for query in ("\\a", "drop a table", "remove a", "delte e", "delete does"):
        assert_alike(index.search(query), readable.search(query))


@pytest.mark.parametrize("query", ["quarry", "tool of the quarry", "tool_7"])
def test_all_tools_that_the_floor_demands_follow_the_hundred_best_and_are_counted_from_the_first_page_on(
    connection: Any, query: str
):
    text = "A tool of the quarry."
    tools = [Tool(name=f"tool_{place}", description=text, input_schema={"type": "object"}) for place in range(130)]
    import_catalog(connection, "catalog", entries(tools, [["red"] if place % 2 else [] for place in range(130)]))
    for groups in (None, ["red"], ["green"]):
        index = PostgresIndex(connection, "catalog", groups=groups)
        found = index.search(query)
        seen = [tool for place, tool in enumerate(tools) if groups != ["green"] or not place % 2]
        demanded = floored(SimpleRanker(in_english))(seen).search(query)
        if query != "tool_7":
            assert {hit.name for hit in found} == {hit.name for hit in demanded}
        assert found[0].name == demanded[0].name
        for count in (1, 100, 101, 120):
            first = index.first(query, count)
            assert (first.hits, first.total) == (found[:count], len(found))


@pytest.mark.parametrize("count", [1, 64, 65, 200, 310])
def test_a_caller_finds_exactly_its_tools_whatever_the_number_of_their_audiences(connection: Any, count: int):
    text = "A tool of the quarry."
    tools = [Tool(name=f"tool_{place}", description=text, input_schema={"type": "object"}) for place in range(310)]
    import_catalog(connection, "catalog", entries(tools, [[f"g{place}"] for place in range(310)]))
    index = PostgresIndex(connection, "catalog", groups=[f"g{place}" for place in range(count)])
    separate = floored(SimpleRanker(in_english))(tools[:count])
    assert_alike(index.search("quarry tool"), separate.search("quarry tool"))
    assert [hit.name for hit in index.search("tool 0")][:1] == ["tool_0"]  # which few audiences have


def test_a_caller_in_a_group_that_no_tool_can_have_sees_what_its_other_groups_see(connection: Any):
    tools = [Tool(name=name, input_schema={}) for name in ("quarry_all", "quarry_red", "quarry_green")]
    import_catalog(connection, "catalog", entries(tools, [[], ["red"], ["green"]]))
    index = PostgresIndex(connection, "catalog", groups=["red", "a\0b", "\ud800"])
    assert {hit.name for hit in index.search("quarry")} == {"quarry_all", "quarry_red"}


def test_tools_of_any_size_are_written_and_found(connection: Any):
    chance = Random(1)  # noqa: S311
    long = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=65_536))
    tools = [
        Tool(name=long, description="A long name.", input_schema={"type": "object"}),
        Tool(name=long[:-1], description="Another.", input_schema={"type": "object"}),
        Tool(name="word", description=f"A long word: {long}", input_schema={"type": "object"}),
    ]
    groups = [f"{place} {long[:40]}" for place in range(1_000)]
    written = entries(tools, [[], [], groups])
    import_catalog(connection, "catalog", written)
    update_catalog(connection, "catalog", [long], written)
    index, readable = PostgresIndex(connection, "catalog", groups=groups[-1:]), floored(SimpleRanker(in_english))(tools)
    for query in (long, long[:-1], long[:-2], "long", f"word {long}"):
        assert_alike(index.search(query), readable.search(query))


def test_tools_whose_names_have_thousands_of_words_are_found_before_the_time_limit(connection: Any):
    names = [" ".join(f"w{place}" for place in range(start, start + 4_000)) for start in range(5)]
    tools = [Tool(name=name, input_schema={"type": "object"}) for name in names]
    import_catalog(connection, "catalog", entries(tools))
    index, readable = PostgresIndex(connection, "catalog"), floored(SimpleRanker(in_english))(tools)
    for query in ("w3", "w110 w115", names[0][:1_000]):
        assert_alike(index.search(query), readable.search(query))


def test_an_answer_is_stored_as_it_is_written_whatever_its_white_space(connection: Any):
    answer = json.dumps({"content": [{"type": "text", "text": "a\\b\n"}]}, indent="\t").replace("\n", "\r\n")
    definition = {"name": "one", "inputSchema": {"type": "object"}}
    import_catalog(connection, "answers", [ToolEntry(definition, answer=answer)])
    update_catalog(connection, "answers", [], [ToolEntry(definition | {"name": "other"}, answer=answer)])
    rows = connection.execute(
        "select answer from tools_search.tool join tools_search.catalog using (generation) where catalog.name = %s",
        ["answers"],
    ).fetchall()
    assert rows == [(answer,), (answer,)]


@pytest.mark.parametrize("name", ["one", ["one"], None])
def test_a_definition_that_is_no_tool_is_refused_whatever_its_name(connection: Any, name: Any):
    valid = ToolEntry({"name": "one", "inputSchema": {"type": "object"}})
    for write in (
        lambda: import_catalog(connection, "refused", [valid, ToolEntry({"name": name})]),
        lambda: update_catalog(connection, "refused", [], [valid, ToolEntry({"name": name})]),
    ):
        with pytest.raises(ImportingError, match="tool 2 is not a definition of an MCP tool"):
            write()
        import_catalog(connection, "refused", [valid])


_PLAIN = {"inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (ToolEntry({"name": "one", **_PLAIN}), "two tools have the name 'one': give each a unique name"),
        (ToolEntry({"name": "two", **_PLAIN}, ["a\0"]), "a group of tool 2 has a character that"),
        (ToolEntry({"name": "two", **_PLAIN}, ["\ud800"]), "a group of tool 2 has a character that"),
        (ToolEntry({"name": "two", **_PLAIN}, answer='"\0"'), "the answer of tool 2 has a character that"),
        (ToolEntry({"name": "two", **_PLAIN}, answer='"\udfff"'), "the answer of tool 2 has a character that"),
    ],
)
def test_a_tool_that_cannot_be_stored_is_refused_with_which_and_why(connection: Any, entry: ToolEntry, says: str):
    valid = [ToolEntry({"name": "one", **_PLAIN})]
    import_catalog(connection, "refused", valid)
    for write in (
        lambda: import_catalog(connection, "refused", [*valid, entry]),
        lambda: update_catalog(connection, "refused", [], [*valid, entry]),
    ):
        with pytest.raises(ImportingError, match=says):
            write()
        assert [hit.name for hit in PostgresIndex(connection, "refused").search("one")] == ["one"]


def _connected(address: str) -> Any:
    import psycopg

    return psycopg.connect(address, autocommit=True)
