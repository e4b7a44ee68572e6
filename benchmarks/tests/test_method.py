from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.context.catalog import Task, read_catalog
from benchmarks.context.measure import Request, StandIn
from benchmarks.method.__main__ import main
from benchmarks.method.gateway import Traffic, serving
from benchmarks.method.ways import BASE, WAYS

_NOUNS = ("invoice", "forecast", "ticket", "mailbox", "playlist", "volcano")
_LISTED, _, _MODEL_DRIVEN, _DESCRIBED, _WHOLE = WAYS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tools = [
        {
            "id": f"{server}::{noun}",
            "server": server,
            "name": f"get_{noun}",
            "description": f"Fetch the {noun} of a {server}. {'It has every detail. ' * 20}",
            "inputSchema": {"type": "object", "properties": {f"{noun}_id": {"type": "string"}}},
        }
        for server in ("city", "town")
        for noun in _NOUNS
    ]
    queries = [
        {"id": "1", "query": "the volcano of the city", "relevant": ["city::volcano"], "split": "test"},
        {"id": "2", "query": "ticket, town", "relevant": ["town::ticket"], "split": "test"},
    ]
    for name, lines in (("tools", tools), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return tmp_path


async def replayed(directory: Path, task: Task) -> Mapping[str, tuple[list[Request], Traffic]]:
    """The turns and the traffic of each way."""
    catalog, _ = read_catalog(directory, "test")
    outcomes: dict[str, tuple[list[Request], Traffic]] = {}
    with anyio.fail_after(120):
        async with serving(catalog) as gateway:
            for name, way in WAYS.items():
                model = StandIn(task, catalog)
                gateway.plain.traffic = gateway.meta_tools.traffic = Traffic()
                way(gateway, model, 2)
                outcomes[name] = (model.requests, gateway.plain.traffic)
    return outcomes


def test_a_search_tool_takes_the_model_one_turn_and_schemas_that_it_has_to_ask_for_another(directory: Path):
    outcomes = anyio.run(replayed, directory, Task("the volcano of the city", frozenset({("city", "get_volcano")})))
    taken = {name: (len(turns), traffic.requests) for name, (turns, traffic) in outcomes.items()}
    assert taken == {_LISTED: (1, 2), BASE: (1, 2), _MODEL_DRIVEN: (2, 2), _DESCRIBED: (3, 4), _WHOLE: (2, 3)}
    for name, (turns, traffic) in outcomes.items():
        assert ("city", "get_volcano") in turns[-1].available, name
        assert 0 < traffic.seconds < 120
        read = json.dumps([*turns[-1].tools, *turns[-1].messages])
        assert "volcano_id" in read, f"{name}: the model has the schema of what it calls"
    assert outcomes[BASE][1].bytes < outcomes[_LISTED][1].bytes
    assert [len(turns[0].tools) for turns, _ in outcomes.values()] == [12, 3, 1, 7, 7]


def test_a_model_that_finds_nothing_searches_twice_and_asks_for_no_schema(directory: Path):
    outcomes = anyio.run(replayed, directory, Task("zebra", frozenset({("town", "get_ticket")})))
    taken = {name: (len(turns), traffic.requests) for name, (turns, traffic) in outcomes.items()}
    assert taken == {_LISTED: (1, 2), BASE: (2, 3), _MODEL_DRIVEN: (3, 3), _DESCRIBED: (3, 4), _WHOLE: (3, 4)}


def test_the_command_prints_a_table_and_writes_the_figures(directory: Path, tmp_path: Path):
    report = tmp_path / "method.json"
    options = ["--data", str(directory), "--rounds", "1", "--json", str(report)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert "12 tools of 2 servers, 2 requests" in outcome.output
    [written] = json.loads(report.read_text())["datasets"]
    ways: dict[str, Any] = {one["way"]: one for one in written["ways"]}
    assert [*ways] == [*WAYS]
    assert [one["turns"] for one in ways.values()] == [1.0, 1.0, 2.0, 3.0, 2.0]
    assert all(len(one["turn_tokens"]) == one["turns"] for one in ways.values())
    assert all(one["tokens"] == pytest.approx(sum(one["turn_tokens"])) for one in ways.values())
    assert all(one["complete"]["mean"] == 1.0 for one in ways.values())
    assert ways[BASE]["wire_ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert ways[BASE]["tokens"] < ways[_WHOLE]["tokens"] < ways[_DESCRIBED]["tokens"]
