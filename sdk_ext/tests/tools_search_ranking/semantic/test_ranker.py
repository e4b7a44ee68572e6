"""Ranking by meaning: what it finds, and when words alone decide."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from mcp_ext_tools_search.ranking import SimpleRanker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking import FieldedRanker, UpdatableIndex
from tools_search_ranking.cache import CatalogSnapshot, IndexCache
from tools_search_ranking.semantic import Embedder, EmbedderError, SemanticRanker, is_latin

from .conftest import SECONDS, Meanings

MakeTool = Callable[..., Tool]


@pytest.fixture
def tools(make_tool: MakeTool) -> list[Tool]:
    others = [make_tool(f"other_{number}", "Does something else.") for number in range(6)]
    return [make_tool("rent_car", "Rents a car."), make_tool("send_mail"), make_tool("天气预报", "查询天气"), *others]


def names(hits: Sequence[Any]) -> list[str]:
    return [hit.name for hit in hits]


def test_a_tool_is_found_that_means_the_same_in_other_words(embedder: Embedder, tools: list[Tool]) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert names(FieldedRanker()(tools).search("limousine")) == []
    [hit] = index.search("limousine")
    assert (hit.name, hit.score, hit.matched) == ("rent_car", 1.0, ())


def test_a_tool_is_found_by_the_first_sentence_of_a_long_description(
    embedder: Embedder, tools: list[Tool], make_tool: MakeTool
) -> None:
    rest = "Returns an object with what was agreed, and fails where nothing is free on that day. " * 3
    ranker = SemanticRanker(embedder)
    index = ranker([*tools[1:], make_tool("rent", f"Car rental. {rest}")])
    assert ranker.settle(SECONDS)
    assert names(index.search("limousine")) == ["rent"]


def test_of_tools_that_say_the_same_the_one_whose_group_means_it_comes_first(
    embedder: Embedder, make_tool: MakeTool
) -> None:
    def of_group(name: str, group: str) -> Tool:
        return make_tool(name, "Books one.").model_copy(update={"meta": {EXTENSION_ID: {"group": group}}})

    ranker = SemanticRanker(embedder)
    index = ranker([of_group("book_first", "mail"), of_group("book_later", "car_rental")])
    assert ranker.settle(SECONDS)
    assert names(index.search("book a limousine")) == ["book_later", "book_first"]


def test_words_decide_until_every_visible_tool_has_its_vector(meanings: Meanings, tools: list[Tool]) -> None:
    may_go_on = threading.Event()

    def patient(texts: Sequence[str]) -> NDArray[np.float64]:
        assert may_go_on.wait(SECONDS)
        return meanings(texts)

    ranker = SemanticRanker(Embedder("patient", patient, least_cosine=0.5))
    index = ranker(tools)
    before = list(index.search("rents an limousine"))
    assert before == list(FieldedRanker()(tools).search("rents an limousine"))
    may_go_on.set()
    assert ranker.settle(SECONDS)
    assert names(index.search("limousine")) == ["rent_car"]


def test_a_query_in_a_language_that_the_model_does_not_know_is_ranked_by_words_alone(
    meanings: Meanings, embedder: Embedder, tools: list[Tool]
) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    asked = len(meanings.texts)
    for query in ("查询天气", "погода", "天气 car"):
        assert list(index.search(query)) == list(FieldedRanker()(tools).search(query))
    assert len(meanings.texts) == asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Café crème", True), ("say 早 in Chinese", True), ("天気 api", False), ("погода", False), ("42", False)],
)
def test_latin_is_what_four_in_five_letters_are(text: str, *, expected: bool) -> None:
    assert is_latin(text) is expected


def test_the_matching_floor_holds_under_it(embedder: Embedder, make_tool: MakeTool) -> None:
    ranker = SemanticRanker(embedder)
    tools = [make_tool("mail", "A car, an limousine."), make_tool("car_car", "car car"), make_tool("zzz", "Of a mail")]
    index = floored(ranker)(tools)
    assert ranker.settle(SECONDS)
    first = index.search("mail")[0]
    assert (first.name, first.score) == ("mail", 1.0)
    assert set(names(index.search("of a"))) >= {"zzz"}


def test_scores_fall_from_one_and_a_page_is_what_the_whole_answer_has_there(
    embedder: Embedder, tools: list[Tool]
) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    hits = index.search("something of a car, an limousine or a mail")
    scores = [hit.score for hit in hits]
    assert scores[0] == 1.0
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] >= 0
    assert list(hits[1:3]) == list(hits)[1:3]


def _shaped(*shape: int) -> Callable[[Sequence[str]], NDArray[np.float64]]:
    return lambda _texts: np.ones(shape)


def _filled(value: float) -> Callable[[Sequence[str]], NDArray[np.float64]]:
    return lambda texts: np.full((len(texts), 5), value)


def _failing(_texts: Sequence[str]) -> NDArray[np.float64]:
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("embed", "said"),
    [
        (_shaped(9), "shape (9,)"),
        (_shaped(3, 5), "shape (3, 5)"),
        (_shaped(9, 0), "shape (9, 0)"),
        (_filled(np.nan), "not finite"),
        (_filled(np.inf), "not finite"),
        (_filled(0.0), "without a direction"),
        (_failing, "RuntimeError: out of memory"),
    ],
)
def test_a_faulty_embedder_is_complained_of_once_and_words_go_on(
    embed: Callable[[Sequence[str]], NDArray[np.float64]],
    said: str,
    tools: list[Tool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ranker = SemanticRanker(Embedder("faulty", embed))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            index = ranker(tools)
            assert ranker.settle(SECONDS)
            assert list(index.search("rent a car")) == list(FieldedRanker()(tools).search("rent a car"))
    [record] = caplog.records
    assert said in record.getMessage()
    with pytest.raises(EmbedderError):
        Embedder("faulty", embed).vectors(["a"] * 9)


def test_an_embedder_that_fails_for_a_query_leaves_it_to_the_words(meanings: Meanings, tools: list[Tool]) -> None:
    ranker = SemanticRanker(Embedder("half", meanings, embed_queries=_failing))
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert list(index.search("rent a car")) == list(FieldedRanker()(tools).search("rent a car"))


def test_queries_of_another_length_than_the_tools_are_refused(meanings: Meanings, tools: list[Tool]) -> None:
    ranker = SemanticRanker(Embedder("uneven", meanings, embed_queries=_shaped(1, 3)))
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert list(index.search("rent a car")) == list(FieldedRanker()(tools).search("rent a car"))


def test_only_what_is_new_is_embedded_and_a_query_once(
    meanings: Meanings, embedder: Embedder, tools: list[Tool]
) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    meanings.texts.clear()
    assert isinstance(index, UpdatableIndex)
    new = Tool(name="buy_car", description="Buys an limousine.", input_schema={"type": "object"})
    changed = index.updated(["send_mail"], [new])
    assert ranker.settle(SECONDS)
    assert meanings.texts == ["buy car. Buys an limousine.", "Buys an limousine."]
    for _ in range(2):
        assert set(names(changed.search("limousine"))) == {"buy_car", "rent_car"}
    assert len(meanings.texts) == 3
    assert names(index.search("letter")) == ["send_mail"]
    assert names(changed.search("letter")) == []


def test_each_sentence_of_a_query_may_ask_for_another_tool(
    embedder: Embedder, meanings: Meanings, tools: list[Tool]
) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    sentences = ["Automobile limousine limousine limousine.", "Letter letter letter letter!"]
    assert set(names(index.search(" ".join(sentences)))) == {"rent_car", "send_mail"}
    assert meanings.texts[-2:] == sentences


def test_names_without_words_and_broken_text_are_embedded_all_the_same(embedder: Embedder, make_tool: MakeTool) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker([make_tool("_"), make_tool("a", "\ud83d half"), make_tool("car")])
    assert ranker.settle(SECONDS)
    assert names(index.search("limousine \ud83d")) == ["car"]


def test_an_index_of_nothing_finds_nothing(embedder: Embedder, tools: list[Tool]) -> None:
    ranker = SemanticRanker(embedder)
    assert list(ranker([]).search("car")) == []
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert list(index.search("car", visible=())) == []


def test_its_indexes_can_be_updated_where_those_of_the_words_can(embedder: Embedder, tools: list[Tool]) -> None:
    ranker = SemanticRanker(embedder, lexical=SimpleRanker())
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    assert not isinstance(index, UpdatableIndex)
    assert names(index.search("limousine")) == ["rent_car"]


def test_many_threads_get_the_same_answer(embedder: Embedder, tools: list[Tool]) -> None:
    ranker = SemanticRanker(embedder)
    index = ranker(tools)
    assert ranker.settle(SECONDS)
    queries = ["limousine", "letter", "something of a car"] * 20
    with ThreadPoolExecutor(max_workers=4) as threads:
        answers = list(map(list, threads.map(index.search, queries)))
    assert answers == answers[:3] * 20


def test_a_process_ends_between_two_calls_of_the_embedder() -> None:
    ending = """
import threading, time
import numpy as np
from tools_search_ranking.semantic import Embedder, SemanticRanker
from mcp_types import Tool

began = threading.Event()

def embed(texts):
    began.set()
    time.sleep(0.2)
    print("made", flush=True)
    return np.ones((len(texts), 3))

tools = [Tool(name=str(number), input_schema={}) for number in range(1000)]
index = SemanticRanker(Embedder("slow", embed))(tools)
began.wait()
"""
    ended = subprocess.run([sys.executable, "-c", ending], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "made\n", "")


@pytest.mark.anyio
async def test_a_server_asks_it_in_a_thread_however_few_tools_there_are(meanings: Meanings) -> None:
    asking: set[int] = set()

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        asking.add(threading.get_ident())
        return meanings(texts)

    ranker = SemanticRanker(Embedder("threads", embed))
    cache = IndexCache(ranker, max_concurrency=1)
    catalog = CatalogSnapshot({"car": {"name": "car", "inputSchema": {"type": "object"}}})
    await cache.rank(catalog, "limousine", frozenset({"car"}))
    assert ranker.settle(SECONDS)
    await cache.rank(catalog, "limousine", frozenset({"car"}))
    assert len(asking) == 2
    assert threading.get_ident() not in asking
