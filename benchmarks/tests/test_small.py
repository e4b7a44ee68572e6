"""The small set that ships with the project: that it is whole, and that rankings are as good on it as they were."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker

from benchmarks.retrieval.datasets import SMALL, read_dataset
from benchmarks.retrieval.measure import measure
from benchmarks.retrieval.rankers import PEERS


def test_its_labels_name_its_tools_and_every_tool_is_asked_for():
    dataset = read_dataset(SMALL, "all")
    asked = Counter(chain.from_iterable(query.relevant for query in dataset.queries))
    assert set(asked) == set(dataset.ids.values())
    assert sum(bool(query.relevant) for query in dataset.queries) == 300
    assert len(dataset.queries) == len({query.query for query in dataset.queries}) == 500
    assert {query.split for query in dataset.queries} == {"dev", "test"}


def test_the_default_ranking_finds_the_right_tools_and_more_of_them_than_the_baseline():
    dataset = read_dataset(SMALL, "all")
    got = measure(dataset, FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE))
    assert got.quality.ndcg_at_10 > 0.87
    assert got.quality.recall_at_5 > 0.92
    assert got.silent > 0.13
    assert measure(dataset, PEERS["rank-bm25"]).quality.ndcg_at_10 < got.quality.ndcg_at_10
