from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp_types import Tool

import benchmarks.speed.measure as speed_measure
from benchmarks.memory import Memory
from benchmarks.speed.__main__ import main
from benchmarks.speed.corpus import crossed, read_corpus
from benchmarks.speed.engines import ENGINES, Built, installed
from benchmarks.speed.measure import base_of, measure

_INSTALLED = installed(ENGINES)
_NOUNS = ["invoice", "forecast", "ticket", "mailbox", "playlist", "volcano", "passport", "recipe", "galaxy", "lawyer"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {"id": noun, "name": f"get_{noun}", "description": f"Fetch the {noun} of a city.", "inputSchema": {}}
        for noun in _NOUNS
    ]
    queries: list[dict[str, Any]] = [
        {"id": noun, "query": f"show me the {noun}", "relevant": [noun]} for noun in _NOUNS
    ]
    for name, lines in (("tools", rows), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("engine", _INSTALLED)
def test_each_engine_finds_the_tool_that_is_asked_for(directory: Path, engine: str):
    built = ENGINES[engine](read_corpus([directory], 30, queries=5, seed=1).tools)
    assert "volcano" in built.search("volcano")[0]


@pytest.mark.parametrize("engine", [engine for engine in _INSTALLED if engine in ("fielded", "SQLite FTS5", "tantivy")])
def test_an_engine_that_can_change_finds_what_changed(directory: Path, engine: str):
    built = ENGINES[engine](read_corpus([directory], 30, queries=5, seed=1).tools)
    change: Callable[[Tool], None] = getattr(built, "change")  # noqa: B009  # not every engine has it
    change(Tool(name="get_recipe", description="Compute the determinant.", input_schema={}))
    assert list(built.search("determinant")) == ["get_recipe"]
    assert "get_galaxy" in built.search("galaxy")


def test_a_corpus_is_a_sample_or_the_whole_with_crossed_tools(directory: Path):
    few, many = (read_corpus([directory], size, queries=4, seed=7) for size in (4, 40))
    assert (len(few.tools), len(many.tools), len(few.queries)) == (4, 40, 4)
    assert len({tool.name for tool in many.tools}) == 40
    assert many == read_corpus([directory], 40, queries=4, seed=7)
    assert many.tools != read_corpus([directory], 40, queries=4, seed=8).tools


def test_crossed_tools_have_the_words_of_their_parents(directory: Path):
    parents = read_corpus([directory], 10, queries=1, seed=1).tools
    known = {word for tool in parents for word in re.findall(r"\w+", f"{tool.name} {tool.description}")}
    for child in crossed(parents, 20, seed=3):
        assert set(re.findall(r"\w+", child.description or "")) <= known


def test_the_command_prints_a_table_and_writes_a_file_and_builds_no_engine_in_its_own_process(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_tools: Sequence[Tool]) -> Built:
        raise AssertionError("built here")

    monkeypatch.setattr(speed_measure, "ENGINES", {"fielded": refuse, "rank-bm25": refuse})
    report = tmp_path / "speed.json"
    options = ["--data", str(directory), "--sizes", "10,20", "--engine", "fielded", "--engine", "rank-bm25"]
    outcome = CliRunner().invoke(main, [*options, "--queries", "5", "--json", str(report)])
    assert outcome.exit_code == 0, outcome.output
    assert "| engine | 10 tools | 20 tools |" in outcome.output
    assert outcome.output.count("| fielded | ") == outcome.output.count("| rank-bm25 | ") == 4
    speeds = json.loads(report.read_text())["speeds"]
    assert all(speed["p50"]["low"] <= speed["p50"]["value"] <= speed["p50"]["high"] for speed in speeds)
    assert all(speed["p50"]["value"] > 0 and speed["build_seconds"] > 0 for speed in speeds)
    changes = {(speed["engine"], speed["tools"]): speed["change_ms"] for speed in speeds}
    assert all(changes.values())


def test_without_options_it_measures_the_small_set_with_what_is_installed(monkeypatch: pytest.MonkeyPatch):
    for package in ("bm25s", "Stemmer", "fastmcp", "casual_mcp", "tantivy"):
        monkeypatch.setitem(sys.modules, package, None)  # what is set to nothing counts as not installed
    outcome = CliRunner().invoke(main, ["--sizes", "20", "--queries", "5", "--builds", "1"])
    assert outcome.exit_code == 0, outcome.output
    # The memory of so small an index is lost among what the system takes back meanwhile, so it may be below zero.
    engines = re.findall(r"^\| (\w\S*(?: \S+)?) \| -?[\d.]+\D", outcome.output, re.MULTILINE)
    assert [engine for engine in engines if engine != "engine"] == 4 * ["fielded", "rank-bm25", "SQLite FTS5"]


def test_an_engine_that_is_not_installed_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tantivy", None)
    outcome = CliRunner().invoke(main, ["--engine", "fielded", "--engine", "tantivy"])
    assert outcome.exit_code == 2
    assert "not installed: tantivy; pip install '.[benchmark]'" in outcome.output
    assert "fielded" not in outcome.stdout


def test_memory_is_that_of_the_index_alone_and_an_engine_that_is_out_of_time_is_asked_no_more(directory: Path):
    (speed,) = measure([directory], 300, ["fielded"], queries=10, patience=1e-9, builds=1, seed=1)
    assert isinstance(speed.memory_mb, Memory)
    assert 0 <= speed.memory_mb.held <= speed.memory_mb.peak < 50
    assert speed.queries == 1


def test_engines_are_compared_with_the_faster_bm25s():
    assert base_of({"fielded": 1, "bm25s": 3, "bm25s, no AVX-512": 2}) == "bm25s, no AVX-512"
    assert base_of({"fielded": 1, "bm25s": 2, "bm25s, no AVX-512": 3}) == "bm25s"
    assert base_of({"fielded": 1, "tantivy": 0.5}) == "fielded"


@pytest.mark.rotating
@pytest.mark.skipif("bm25s, no AVX-512" not in _INSTALLED, reason="bm25s is not installed")
def test_variables_of_an_engine_are_those_of_its_process_alone(directory: Path):
    before = dict(os.environ)
    measure([directory], 20, ["bm25s", "bm25s, no AVX-512"], queries=2, patience=9, builds=1, seed=1)
    assert dict(os.environ) == before
