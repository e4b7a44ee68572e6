from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from benchmarks.datasets import read_dataset
from benchmarks.toolret.__main__ import main

_TOOLS = [
    {
        "id": "t0",
        "documentation": {
            "name": "org/model",
            "domain": "Speech",
            "description": "Knows languages.",
            "performance": {"dataset": "VoxLingua"},
            "example_code": "N/A",
        },
    },
    {"id": "t1", "documentation": {"name": "pay", "parameters": {"sum": {"description": "In cents.", "type": "int"}}}},
    {"id": "t2", "documentation": {"name": "user", "parameters": [{"name": "id", "description": "Its number."}]}},
    {"id": "t3", "documentation": {"name": "f", "parameters": "(date: datetime)"}},
]
_QUERIES = [
    {
        "id": "q0",
        "query": "Which language?",
        "instruction": "Retrieve models.",
        "labels": [{"id": "t0", "relevance": 1}],
    },
    {"id": "q1", "query": "Nothing", "labels": [{"id": "t1", "relevance": 0}]},
]


def _run(folder: Path, out: Path) -> str:
    result = CliRunner().invoke(main, [str(folder), str(out)], catch_exceptions=False)
    return result.output


def _put(part: Path, *, as_lines: bool = False) -> None:
    part.mkdir()
    for name, rows in (("tools.json", _TOOLS), ("queries.json", _QUERIES)):
        text = "\n".join(map(json.dumps, rows)) if as_lines else json.dumps(rows)
        (part / name).write_text(text, encoding="utf-8")


def test_a_part_becomes_a_set_with_and_one_without_the_instructions(tmp_path: Path):
    _put(tmp_path / "some")
    output = _run(tmp_path, tmp_path / "out")
    plain, instructed = (read_dataset(tmp_path / "out" / name, "all") for name in ("some", "some-instructed"))
    assert [query.query for query in plain.queries] == ["Which language?"]
    assert [query.query for query in instructed.queries] == ["Retrieve models.\nWhich language?"]
    assert plain.queries[0].relevant == ("t0",)
    assert "--data" in output


def test_a_tool_says_all_that_its_documentation_says(tmp_path: Path):
    _put(tmp_path / "some")
    _run(tmp_path, tmp_path / "out")
    model, pay, user, f = read_dataset(tmp_path / "out" / "some", "all").tools
    assert model.description == 'Knows languages.\ndomain: Speech\nperformance: {"dataset": "VoxLingua"}'
    assert pay.input_schema["properties"]["sum"]["description"] == "In cents."
    assert user.input_schema["properties"]["id"]["description"] == "Its number."
    assert f.description == "\nparameters: (date: datetime)"


def test_json_lines_are_read_as_an_array_is(tmp_path: Path):
    _put(tmp_path / "some")
    _put(tmp_path / "other", as_lines=True)
    _run(tmp_path, tmp_path / "out")
    some, other = (read_dataset(tmp_path / "out" / name, "all") for name in ("some", "other"))
    assert some.tools == other.tools
    assert some.queries == other.queries


def test_a_folder_without_parts_is_refused_with_what_belongs_there(tmp_path: Path):
    assert "has no folder with tools.json and queries.json" in _run(tmp_path, tmp_path / "out")
