"""The database ranks by words and meaning as the ranking in memory does, over what the caller sees and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Hit, SimpleRanker
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking.postgres import (
    PostgresIndex,
    PostgresPool,
    SchemaError,
    embed_catalog,
    import_catalog,
    meaning,
    migrate,
    reindex_catalog,
    require_vectors,
    update_catalog,
)
from tools_search_ranking.postgres.index import search_values
from tools_search_ranking.postgres.meaning import QueryVectors
from tools_search_ranking.postgres.request import SEARCH
from tools_search_ranking.semantic import Embedder, EmbedderError, SemanticRanker
from tools_search_ranking.translation import in_english

from ..test_oracle import NAME, PARTS, QUERY, assert_alike, tool_of  # noqa: TID252
from .conftest import SECONDS, entries

_GROUPS = st.sets(st.sampled_from(["red", "green"]), max_size=2)
_CATALOG = st.dictionaries(NAME, st.fixed_dictionaries(PARTS | {"groups": _GROUPS}), min_size=1, max_size=8)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class _Letters:
    """Embeds by counting letters, and remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float64]:
        self.texts += texts
        return np.array([[0.1 + text.lower().count(letter) for letter in _LETTERS] for text in texts])


@pytest.fixture(autouse=True)
def _vectors(connection: Any) -> None:
    try:
        require_vectors(connection)
    except SchemaError as error:
        pytest.skip(str(error))


@pytest.fixture
def letters() -> _Letters:
    return _Letters()


@pytest.fixture
def embedder(letters: _Letters) -> Embedder:
    return _embedder(letters)


def _embedder(letters: Callable[[Sequence[str]], Any], name: str = "letters") -> Embedder:
    return Embedder(name, letters, knows=lambda query: "?" not in query, least_cosine=0.5)


def _tools(*names: str) -> list[Tool]:
    return [Tool(name=name, description=f"About {name}. Really.", input_schema={"type": "object"}) for name in names]


def _names(hits: Sequence[Hit]) -> list[str]:
    return [hit.name for hit in hits]


@settings(max_examples=15)
@given(catalog=_CATALOG, changed=_CATALOG, queries=st.lists(QUERY, min_size=3, max_size=3))
def test_each_caller_is_answered_as_by_the_ranking_in_memory_of_what_it_sees(
    address: str, catalog: Mapping[str, Mapping[str, Any]], changed: Mapping[str, Mapping[str, Any]], queries: list[str]
):
    embedder = _embedder(_Letters())
    with psycopg.connect(address, autocommit=True) as connection:
        import_catalog(connection, "catalog", _entries(catalog))
        embed_catalog(connection, "catalog", embedder)
        _assert_as_in_memory(connection, embedder, catalog, queries)
        update_catalog(connection, "catalog", list(catalog)[:1], _entries(changed))
        embed_catalog(connection, "catalog", embedder)
        left = {name: catalog[name] for name in list(catalog)[1:]} | dict(changed)
        _assert_as_in_memory(connection, embedder, left, queries)
        with psycopg.connect(address, autocommit=True) as reading:
            reindex_catalog(connection, reading, "catalog")
        _assert_as_in_memory(connection, embedder, left, queries)


def _entries(catalog: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    return entries(
        [tool_of(name, parts) for name, parts in catalog.items()], [[*parts["groups"]] for parts in catalog.values()]
    )


def _assert_as_in_memory(
    connection: Any, embedder: Embedder, catalog: Mapping[str, Mapping[str, Any]], queries: Sequence[str]
) -> None:
    ranker = SemanticRanker(embedder, lexical=SimpleRanker(in_english))
    for groups in (None, (), ("red",)):
        seen = [
            tool_of(name, parts)
            for name, parts in catalog.items()
            if groups is None or not parts["groups"] or parts["groups"].intersection(groups)
        ]
        index, memory = PostgresIndex(connection, "catalog", groups=groups, embedder=embedder), ranker(seen)
        assert ranker.settle(SECONDS)
        for query in (*queries, f"{queries[0]} and more words. {queries[1]} and more words.", *list(catalog)[:1]):
            found = index.search(query)
            assert_alike(found, memory.search(query))
            for count in (1, 3):
                first = index.first(query, count)
                assert (first.hits, first.total) == (found[:count], len(found))


def test_a_tool_is_found_whose_definition_shares_no_word_with_the_query(connection: Any, embedder: Embedder):
    import_catalog(connection, "catalog", entries(_tools("aaab", "zzzz", "yyyy")))
    index = PostgresIndex(connection, "catalog", embedder=embedder)
    assert _names(index.search("baaa")) == []
    embed_catalog(connection, "catalog", embedder)
    assert _names(index.search("baaa")) == ["aaab"]


@pytest.mark.parametrize("how", ["another embedder", "no embedder", "another language", "too many tools"])
def test_words_alone_decide_where_meaning_cannot(connection: Any, embedder: Embedder, letters: _Letters, how: str):
    import_catalog(connection, "catalog", entries(_tools("aaab", "zzzz")))
    embed_catalog(connection, "catalog", embedder)
    asked = {"another embedder": _embedder(letters, "others"), "no embedder": None}.get(how, embedder)
    query = "baaa?" if how == "another language" else "baaa"
    values = search_values("catalog", query, None, range(9), range(0), asked and QueryVectors(asked))
    most = 1 if how == "too many tools" else 2
    assert connection.execute(SEARCH.removesuffix(")") + f", most_compared => {most})", values).fetchall() == []
    values = search_values("catalog", "baaa", None, range(9), range(0), QueryVectors(embedder))
    assert len(connection.execute(SEARCH.removesuffix(")") + ", most_compared => 2)", values).fetchall()) == 1


def test_tools_that_a_caller_does_not_see_may_have_no_vectors_yet(connection: Any, embedder: Embedder):
    import_catalog(connection, "catalog", entries(_tools("aaab", "zzzz", "yyyy")))
    embed_catalog(connection, "catalog", embedder)
    update_catalog(connection, "catalog", [], entries(_tools("xxxx"), [["red"]]))
    assert _names(PostgresIndex(connection, "catalog", groups=[], embedder=embedder).search("baaa")) == ["aaab"]
    assert _names(PostgresIndex(connection, "catalog", groups=["red"], embedder=embedder).search("baaa")) == []


def test_vectors_of_definitions_that_have_not_changed_are_kept(connection: Any, embedder: Embedder, letters: _Letters):
    group = {"io.github.tools-search/tools-search": {"group": "letters"}}
    old, new = _tools("aaab", "zzzz", "gone"), _tools("aaab", "zzzz", "yyyy")
    new[1] = new[1].model_copy(update={"description": "Changed."})
    for tools in (old, new):
        tools[0] = tools[0].model_copy(update={"meta": group})
        import_catalog(connection, "kept", entries(tools))
        letters.texts.clear()
        embed_catalog(connection, "kept", embedder)
    assert sorted(letters.texts) == ["About yyyy.", "Changed.", "yyyy. About yyyy. Really.", "zzzz. Changed."]
    assert _names(PostgresIndex(connection, "kept", embedder=embedder).search("baaa"))[:1] == ["aaab"]


def test_an_interrupted_embedding_is_continued_and_the_vectors_of_another_embedder_are_replaced(
    connection: Any, letters: _Letters
):
    import_catalog(connection, "catalog", entries(_tools(*(f"tool{place}" for place in range(40)))))

    def failing(texts: Sequence[str]) -> NDArray[np.float64]:
        if len(letters.texts) >= 48:
            raise RuntimeError("the model is out of memory")
        return letters(texts)

    done: list[int] = []
    with pytest.raises(EmbedderError, match="the model is out of memory"):
        embed_catalog(connection, "catalog", _embedder(failing), on_progress=done.append)
    assert done == [16]
    embed_catalog(connection, "catalog", _embedder(letters), on_progress=done.append)
    assert done == [16, 16, 24]
    letters.texts.clear()
    embed_catalog(connection, "catalog", _embedder(letters, "others"))
    assert len(letters.texts) == 80
    index = PostgresIndex(connection, "catalog", embedder=_embedder(letters, "others"))
    assert _names(index.search("tool7, the best of tools"))[:1] == ["tool7"]


def test_programs_share_the_work_and_each_waits_until_all_is_done(connection: Any, address: str):
    import_catalog(connection, "shared", entries(_tools(*(f"tool{place}" for place in range(64)))))
    both = threading.Barrier(2, timeout=SECONDS)
    counts: list[int] = []

    def embed() -> None:
        letters, is_first = _Letters(), True

        def together(texts: Sequence[str]) -> NDArray[np.float64]:
            nonlocal is_first
            if is_first:  # while the other one embeds some too
                is_first = False
                both.wait()
            return letters(texts)

        with psycopg.connect(address, autocommit=True) as own:
            embed_catalog(own, "shared", _embedder(together))
            ((left,),) = own.execute(
                "select count(*) from tools_search.tool join tools_search.catalog using (generation) "
                "left join tools_search.vector on vector.generation = tool.generation and vector.tool = tool.id "
                "where catalog.name = 'shared' and vector.tool is null"
            ).fetchall()
            counts.extend([left, len(letters.texts)])

    with patch.object(meaning, "_POLL_SECONDS", 0.01):
        threads = [threading.Thread(target=embed, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert counts[::2] == [0, 0]
    assert sum(counts[1::2]) == 128


@pytest.mark.anyio
async def test_a_pool_ranks_by_meaning(connection: Any, address: str, embedder: Embedder):
    import_catalog(connection, "catalog", entries(_tools("aaab", "zzzz", "yyyy")))
    embed_catalog(connection, "catalog", embedder)
    async with PostgresPool(address, embedder=embedder) as pool:
        found = await pool.search("catalog", "baaa", groups=None, count=5, definitions=range(5))
    assert _names(found.hits) == list(found.definitions) == ["aaab"]


@pytest.fixture
def others_database(server: str) -> Generator[str]:
    """The address of a database without the extension, as a role that may not create it."""
    with psycopg.connect(server, autocommit=True) as owner:
        owner.execute("drop database if exists plain")
        owner.execute("drop role if exists plain_owner")
        owner.execute("create role plain_owner login")
        owner.execute("create database plain owner plain_owner")
        yield server
        owner.execute("drop database plain")
        owner.execute("drop role plain_owner")


def test_a_database_without_the_extension_says_who_has_to_do_what(others_database: str, embedder: Embedder):
    with psycopg.connect(others_database, dbname="plain", user="plain_owner", autocommit=True) as connection:
        migrate(connection)
        import_catalog(connection, "catalog", entries(_tools("aaab")))
        with pytest.raises(SchemaError, match="have a superuser run `create extension vector`"):
            embed_catalog(connection, "catalog", embedder)
        assert _names(PostgresIndex(connection, "catalog", embedder=embedder).search("aaab")) == ["aaab"]


def test_a_catalog_that_does_not_exist_cannot_be_embedded(connection: Any, embedder: Embedder):
    with pytest.raises(LookupError, match="there is no such catalog"):
        embed_catalog(connection, "nonsense", embedder)
