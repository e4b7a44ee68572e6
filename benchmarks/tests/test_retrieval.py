from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mcp_ext_tools_search.ranking.floor import terms
from mcp_ext_tools_search.ranking.language import stem
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from numpy.typing import NDArray
from pydantic import ValidationError
from tools_search_ranking import FieldedRanker
from tools_search_ranking.confidence import Signs, confidence
from tools_search_ranking.ranker import FieldedIndex
from tools_search_ranking.semantic import Embedder, SemanticRanker
from tools_search_ranking.semantic.embedder import SemanticSigns
from tools_search_ranking.semantic.index import SemanticIndex

from benchmarks.datasets import SMALL, read_dataset
from benchmarks.retrieval.__main__ import main
from benchmarks.retrieval.fitting import fitted, generic_stems
from benchmarks.retrieval.measure import (
    Quality,
    mean_quality,
    measure,
    mistyped,
    quality,
    with_foreign_requests,
)  # fmt: skip
from benchmarks.retrieval.rankers import JUDGING, RANKERS

_TOOLS: list[Mapping[str, Any]] = [
    {"id": "mail::send", "server": "mail", "name": "send", "description": "Send a message.", "inputSchema": {}},
    {"id": "chat::send", "server": "chat", "name": "send", "description": "Send a message.", "inputSchema": {}},
    {"id": "sky", "name": "forecast", "title": "Weather", "inputSchema": {"type": "object"}},
]
_QUERIES: list[Mapping[str, Any]] = [
    {"id": "q1", "query": "send mail", "relevant": ["mail::send"], "split": "dev"},
    {"id": "q2", "query": "message in the chat", "relevant": ["chat::send"], "split": "test"},
    {"id": "q3", "query": "zebra", "relevant": ["sky"], "split": "test"},
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    _write(tmp_path / "tools.jsonl", _TOOLS)
    _write(tmp_path / "queries.jsonl", _QUERIES)
    return tmp_path


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n", encoding="utf-8")


def test_a_perfect_list_has_full_marks():
    assert quality(["a", "b", "x"], ["b", "a"]) == Quality(1.0, 0.5, 1.0, 1.0, 1.0)


def test_a_right_tool_lower_down_counts_for_less():
    got = quality(["x", "a", *"cdefghij", "b"], ["a", "b"])
    assert got.ndcg_at_10 == pytest.approx((1 / log2(3)) / (1 + 1 / log2(3)))
    assert (got.recall_at_1, got.recall_at_5, got.recall_at_10, got.reciprocal_rank) == (0.0, 0.5, 0.5, 0.5)


def test_more_right_tools_than_places_can_be_all_found():
    right = [str(number) for number in range(20)]
    assert quality(right, right).ndcg_at_10 == pytest.approx(1.0)


def test_nothing_found_is_worth_nothing():
    assert quality([], ["a"]) == Quality(0.0, 0.0, 0.0, 0.0, 0.0) == mean_quality([])


def test_the_mean_is_taken_of_each_figure():
    assert mean_quality([quality(["a"], ["a"]), quality([], ["a"])]) == Quality(0.5, 0.5, 0.5, 0.5, 0.5)


def test_tools_of_one_name_are_kept_apart_without_changing_its_words(directory: Path):
    dataset = read_dataset(directory, "all")
    assert [dataset.ids[tool.name] for tool in dataset.tools] == ["mail::send", "chat::send", "sky"]
    assert [terms(tool.name) for tool in dataset.tools] == [["send"], ["send"], ["forecast"]]


def test_a_server_is_the_group_of_its_tools(directory: Path):
    metas = [tool.meta for tool in read_dataset(directory, "all").tools]
    assert metas == [{EXTENSION_ID: {"group": "mail"}}, {EXTENSION_ID: {"group": "chat"}}, None]


@pytest.mark.parametrize(("split", "ids"), [("dev", ["q1"]), ("test", ["q2", "q3"]), ("all", ["q1", "q2", "q3"])])
def test_a_split_chooses_the_queries(directory: Path, split: str, ids: list[str]):
    assert [query.id for query in read_dataset(directory, split).queries] == ids


@pytest.mark.parametrize("split", ["dev", "test", "all"])
def test_a_query_of_no_split_is_of_each(directory: Path, split: str):
    _write(directory / "queries.jsonl", [{"id": "q", "query": "x", "relevant": ["sky"]}])
    assert [query.id for query in read_dataset(directory, split).queries] == ["q"]


def test_a_query_without_labels_is_refused(directory: Path):
    _write(directory / "queries.jsonl", [{"id": "q", "query": "x"}])
    with pytest.raises(ValidationError, match="relevant"):
        read_dataset(directory, "all")


def test_a_query_that_no_tool_serves_counts_for_silence_alone(directory: Path):
    unserved: list[Mapping[str, Any]] = [{"id": text, "query": text, "relevant": []} for text in ("zebra", "send")]
    _write(directory / "queries.jsonl", [*_QUERIES[:2], *unserved])
    got = measure(read_dataset(directory, "all"), RANKERS["fielded-never-silent"])
    assert [quality.recall_at_1 for quality in got.qualities] == [1.0, 1.0]
    assert sorted(got.silent(is_served=False)) == [0.0, 1.0]
    assert got.silent(is_served=True) == [0.0, 0.0]


@pytest.mark.parametrize(("split", "expected"), [("all", 2 / 3), ("dev", 1.0), ("none", 0.0)])
def test_a_ranking_is_measured_by_the_ids_of_the_data(directory: Path, split: str, expected: float):
    got = measure(read_dataset(directory, split), RANKERS["fielded-never-silent"])
    assert mean_quality(got.qualities).recall_at_1 == pytest.approx(expected)
    assert got.tools == 3


def test_the_kinds_of_requests_of_a_set_have_figures_of_their_own(directory: Path, tmp_path: Path):
    rows: list[Mapping[str, Any]] = [
        {"id": "1", "query": "send a message", "relevant": ["chat::send"], "slice": "people"},
        {"id": "2", "query": "forecast", "relevant": ["sky", "mail::send"], "slice": "model", "alternatives": True},
        {"id": "3", "query": "zebra", "relevant": [], "slice": "nothing"},
        {"id": "4", "query": "forecast", "relevant": [], "slice": "nothing"},
    ]
    _write(directory / "queries.jsonl", rows)
    file = tmp_path / "figures.json"
    options = ["--data", str(directory), "--ranker", "fielded-never-silent", "--json", str(file)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    slices = json.loads(file.read_text())[0]["datasets"][0]["slices"]
    found = {
        name: {figure: estimate["value"] for figure, estimate in own.items() if figure != "queries"}
        for name, own in slices.items()
    }
    assert found == {
        "people": {"silent": 0.0, "ndcg": pytest.approx(1 / log2(3)), "first": 0.0, "among_five": 1.0},
        "model": {"silent": 0.0, "ndcg": pytest.approx(1 / (1 + 1 / log2(3))), "first": 1.0, "among_five": 1.0},
        "nothing": {"silent": 0.5},
    }
    assert "| fielded-never-silent | 0% (0%-0%) | 0% (0%-0%) | 50% (0%-100%) |" in outcome.output


def test_the_command_prints_a_table_and_writes_both_files(directory: Path):
    figures, run = directory / "figures.json", directory / "run.jsonl"
    options = ["--data", str(directory), "--data", str(directory), "--split", "test", "--ranker", "fielded"]
    outcome = CliRunner().invoke(main, [*options, "--json", str(figures), "--run", str(run)])
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.splitlines()[0] == "nDCG@10 on `test`:"
    assert outcome.output.splitlines()[-1].startswith("| fielded | 0.500 |")
    [report] = json.loads(figures.read_text())
    assert [row["queries"] for row in report["datasets"]] == [2, 2]
    assert report["mean"]["recall_at_1"] == 0.5
    lines = [json.loads(line) for line in run.read_text().splitlines()]
    assert lines[:2] == [{"id": "q2", "ranked": ["chat::send", "mail::send"]}, {"id": "q3", "ranked": []}]


def test_a_directory_that_is_missing_is_a_usage_error():
    assert CliRunner().invoke(main, ["--data", "no/such/directory"]).exit_code == 2


def test_several_rankings_are_put_side_by_side_with_bounds(directory: Path):
    options = ["--data", str(directory), "--split", "all", "--ranker", "simple", "--ranker", "rank-bm25"]
    outcome = CliRunner().invoke(main, [*options, "--json", str(directory / "figures.json")])
    assert outcome.exit_code == 0, outcome.output
    rows = [line.strip("| ").split(" | ") for line in outcome.output.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[2:4]] == ["simple", "rank-bm25"]
    assert all("(" in row[1] for row in rows[2:4])
    reports = json.loads((directory / "figures.json").read_text())
    assert [report["ranker"] for report in reports] == ["simple", "rank-bm25"]
    ndcg = reports[0]["datasets"][0]["ndcg"]
    assert ndcg["low"] <= ndcg["value"] <= ndcg["high"]


def test_the_lists_of_one_ranking_alone_can_be_written(directory: Path):
    options = ["--ranker", "simple", "--ranker", "fielded", "--run", str(directory / "run.jsonl")]
    outcome = CliRunner().invoke(main, ["--data", str(directory), *options])
    assert outcome.exit_code == 2
    assert "a single --ranker" in outcome.output


def test_an_engine_that_is_not_installed_is_named_with_what_installs_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "tantivy", None)  # what is set to nothing counts as not installed
    outcome = CliRunner().invoke(main, ["--data", str(directory), "--ranker", "tantivy"])
    assert outcome.exit_code == 2
    assert "pip install '.[benchmark]'" in outcome.output


def test_slips_are_one_edit_in_three_of_ten_long_words_and_the_same_in_every_run():
    text = "please " * 1_000 + "send it on at once " * 100
    slipped = mistyped(text, "q1")
    assert slipped == mistyped(text, "q1") != mistyped(text, "q2")
    words = slipped.split()
    assert len(words) == len(text.split())
    assert words[1_000:] == text.split()[1_000:]
    wrong = [word for word in words[:1_000] if word != "please"]
    assert 250 < len(wrong) < 350
    assert {len(word) for word in wrong} == {5, 6, 7}


def test_the_command_measures_requests_with_slips(directory: Path, tmp_path: Path):
    _write(directory / "queries.jsonl", [{"id": str(n), "query": "forecast", "relevant": ["sky"]} for n in range(40)])
    figures = tmp_path / "figures.json"
    asked = ["--data", str(directory), "--ranker", "rank-bm25", "--json", str(figures)]
    for more, is_perfect in ([], True), (["--slips"], False):
        assert CliRunner().invoke(main, [*asked, *more]).exit_code == 0
        assert (json.loads(figures.read_text())[0]["mean"]["ndcg_at_10"] == 1.0) is is_perfect


_SERVERS: list[Mapping[str, Any]] = [
    {"id": f"{server}::{verb}", "server": server, "name": f"{verb}_{thing}", "description": f"To {verb} {thing}."}
    for server, thing in (("post", "mail"), ("bakery", "cake"), ("garage", "cars"))
    for verb in ("read", "send", "count")
]


def test_the_answers_of_many_servers_are_merged_into_one_order(directory: Path):
    _write(directory / "tools.jsonl", _SERVERS)
    _write(directory / "queries.jsonl", [{"id": "1", "query": "read my mail", "relevant": ["post::read"]}])
    orders = [name for name in RANKERS if name.startswith("federated: ")]
    for name in orders:
        [answer] = measure(read_dataset(directory, "all"), RANKERS[name]).answers
        assert {*answer.ranked[:3]} >= {"post::read", "bakery::read"} or answer.ranked[0] == "post::read", name
        assert len(answer.ranked) == len({*answer.ranked})
    [answer] = measure(read_dataset(directory, "all"), RANKERS["federated: as the client does"]).answers
    assert answer.ranked[0] == "post::read"


def test_a_server_of_a_federation_knows_its_own_tools_alone(directory: Path):
    _write(directory / "tools.jsonl", _SERVERS)
    index = RANKERS["federated: rank fusion"](read_dataset(directory, "all").tools)
    assert {hit.name for hit in index.search("read")} == {"read_mail", "read_cake", "read_cars"}


def test_requests_of_other_sets_are_put_as_requests_that_no_tool_serves(directory: Path, tmp_path: Path):
    own, small = with_foreign_requests([read_dataset(directory, "test"), read_dataset(SMALL, "test")], 5)
    assert [bool(query.relevant) for query in own.queries] == [True, True, False, False, False, False, False]
    assert [query.query for query in small.queries[-2:]] == ["message in the chat", "zebra"] or len(small.queries) > 2
    assert not any(query.relevant for query in small.queries[-2:])
    same = with_foreign_requests([read_dataset(directory, "test")] * 2, 5)
    assert [len(dataset.queries) for dataset in same] == [2, 2]


def test_thresholds_are_compared_with_none(tmp_path: Path):
    figures = tmp_path / "figures.json"
    options = ["--split", "test", "--least-confidence", "0.3", "--least-confidence", "0.04", "--json", str(figures)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    none, little, much = json.loads(figures.read_text())
    assert [row["ranker"] for row in (none, little, much)] == ["fielded at 0", "fielded at 0.04", "fielded at 0.3"]
    silent = [row["mean"]["silent"]["value"] for row in (none, little, much)]
    wrongly = [row["mean"]["wrongly_silent"]["value"] for row in (none, little, much)]
    recall = [row["mean"]["recall_at_5"] for row in (none, little, much)]
    assert silent == sorted(silent)
    assert silent[2] > 0.4
    assert wrongly == sorted(wrongly)
    assert recall == sorted(recall, reverse=True)
    assert [line.split(" | ")[0] for line in outcome.output.splitlines()[-2:]] == ["| 0.04", "| 0.3"]


def test_a_ranking_without_a_confidence_has_no_thresholds():
    outcome = CliRunner().invoke(main, ["--ranker", "simple", "--least-confidence", "0.1"])
    assert outcome.exit_code == 2
    assert "simple has no confidence" in outcome.output


def test_fitted_weights_separate_requests_with_a_tool_from_those_without():
    small = read_dataset(SMALL, "dev")
    index = FieldedRanker()(small.tools)
    assert isinstance(index, FieldedIndex)
    weights = fitted([small], FieldedRanker())
    assert Signs._make(weights[1]).score > 0
    served, unserved = (
        [confidence(index.signs(query.query), weights) for query in small.queries if bool(query.relevant) is is_served]
        for is_served in (True, False)
    )
    assert fmean(served) > fmean(unserved) + 0.3


def _letters(texts: Sequence[str], /) -> NDArray[np.float64]:
    return np.array([[1 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


def test_weights_are_fitted_to_the_signs_that_a_ranking_has():
    ranker = SemanticRanker(Embedder("letters", _letters))

    def index(tools: Sequence[Tool], /) -> SemanticIndex:
        made = ranker(tools)
        assert ranker.settle(30)
        return made

    _, slopes = fitted([read_dataset(SMALL, "dev")], index)
    assert SemanticSigns._make(slopes).score > 0


def test_words_are_generic_that_many_tools_of_several_sets_have():
    small = read_dataset(SMALL, "dev")
    assert {stem("file"), stem("create")} <= {*generic_stems([small, small])}
    assert stem("bicycle") not in generic_stems([small, small])
    assert generic_stems([small]) == []


def test_the_command_prints_fitted_weights():
    outcome = CliRunner().invoke(main, ["--fit"], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.startswith("generic: ")
    assert len(outcome.output.splitlines()[1].split(",")) == 1 + len(Signs._fields)
    assert list(JUDGING) == ["fielded", "semantic"]
