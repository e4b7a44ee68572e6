"""The small set that ships with the project: that it is whole, and that rankings are as good on it as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from statistics import fmean, median

import pytest
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.ranking.language import STOP_WORDS, VERB_GROUPS, words
from mcp_types import Tool
from tools_search_ranking import FieldedRanker

from benchmarks.datasets import SMALL, Dataset, read_dataset
from benchmarks.retrieval.measure import mean_quality, measure
from benchmarks.retrieval.rankers import JUDGING, RANKERS


def test_its_labels_name_its_tools_and_every_tool_is_asked_for():
    dataset = read_dataset(SMALL, "all")
    asked = Counter(chain.from_iterable(query.relevant for query in dataset.queries))
    assert set(asked) == set(dataset.ids.values())
    assert sum(bool(query.relevant) for query in dataset.queries) == 300
    assert len(dataset.queries) == len({query.query for query in dataset.queries}) == 500
    assert {query.split for query in dataset.queries} == {"dev", "test"}


def test_the_default_ranking_finds_the_right_tools_and_more_of_them_than_the_baseline():
    dataset = read_dataset(SMALL, "all")
    got = measure(dataset, RANKERS["fielded"])
    quality = mean_quality(got.qualities)
    assert quality.ndcg_at_10 > 0.87
    assert quality.recall_at_5 > 0.92
    assert fmean(got.silent(is_served=False)) > 0.05
    assert mean_quality(measure(dataset, RANKERS["rank-bm25"]).qualities).ndcg_at_10 < quality.ndcg_at_10


def test_a_higher_threshold_leaves_more_requests_without_a_tool_unanswered_and_costs_the_others_nothing():
    got = measure(read_dataset(SMALL, "all"), floored(JUDGING["fielded"](0.2)))
    assert mean_quality(got.qualities).recall_at_5 > 0.96
    assert fmean(got.silent(is_served=False)) > 0.25


_MAX_BYTES = 10_000


def _most_common(texts: Iterable[str]) -> str:
    counts = Counter(word for text in texts for word in dict.fromkeys(words(text)) if word not in STOP_WORDS)
    return " ".join(word for word, _ in counts.most_common())


def _stuffing(dataset: Dataset) -> Mapping[str, Callable[[Tool], str]]:
    """Return descriptions by authors who have read the catalog and the very requests."""
    by_catalog = _most_common(f"{tool.name} {tool.title or ''} {tool.description or ''}" for tool in dataset.tools)
    by_requests = _most_common(query.query for query in dataset.queries)
    return {
        "its name over and over": lambda tool: " ".join([*words(tool.name)] * 1_000),
        "its description over and over": lambda tool: f"{tool.description} " * 100,
        "every verb": lambda tool: f"{tool.description} {' '.join(VERB_GROUPS)}",
        "words of the catalog": lambda tool: f"{tool.description} {by_catalog}",
        "words of the requests": lambda tool: f"{tool.description} {by_requests}",
        "the commonest words of the requests": lambda tool: f"{tool.description} {by_requests[:300]}",
    }


@pytest.mark.parametrize("stuffing", _stuffing(read_dataset(SMALL, "dev")))
def test_a_stuffed_description_gains_no_more_than_three_ranks(stuffing: str):
    dataset = read_dataset(SMALL, "dev")
    write = _stuffing(dataset)[stuffing]
    index = FieldedRanker()(dataset.tools)
    tools = {dataset.ids[tool.name]: tool for tool in dataset.tools}
    gains: list[int] = []
    for query in [query for query in dataset.queries if query.relevant][::8]:
        tool = tools[query.relevant[0]]
        stuffed = tool.model_copy(update={"description": write(tool).encode()[:_MAX_BYTES].decode(errors="ignore")})
        honest, changed = (
            [hit.name for hit in own.search(query.query)] for own in (index, index.updated([tool.name], [stuffed]))
        )
        ranks = (own.index(tool.name) if tool.name in own else len(tools) for own in (honest, changed))
        gains.append(next(ranks) - next(ranks))
    assert median(gains) <= 3
