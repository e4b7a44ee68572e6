from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.context.catalog import Task, read_catalog
from benchmarks.context.measure import Request, StandIn
from benchmarks.method.__main__ import main
from benchmarks.method.gateway import gateway_over
from benchmarks.method.ways import BASE, WAYS
from benchmarks.processes import Traffic, Wire

_NOUNS = ("invoice", "forecast", "ticket", "mailbox", "playlist", "volcano")
_LISTED, _, _MODEL_DRIVEN, _DESCRIBED, _WHOLE = WAYS


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
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
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def stepwise(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = {"id": "abcdef-123", "query": "plan my trip", "relevant": ["city::forecast"], "split": "test"}
    steps = [
        {"id": "abcdef-s1", "query": "where a volcano is in the city", "relevant": ["city::volcano"], "split": "test"},
        {"id": "abcdef-s0", "query": "a forecast of the city", "relevant": ["city::forecast"], "split": "test"},
        {"id": "abcdef-s2", "query": "the forecast again, city", "relevant": ["city::forecast"], "split": "test"},
    ]
    folder = Path(shutil.copytree(directory, tmp_path_factory.mktemp("steps") / "set"))
    with (folder / "queries.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in (task, *steps))
    return folder


Outcomes = Mapping[str, tuple[list[Request], Traffic]]
"""The turns and the traffic of each way."""


@pytest.fixture(scope="module")
def replayed(stepwise: Path) -> Mapping[str, Outcomes]:
    """By the text of the task, what each way took of one gateway."""
    catalog, stepped = read_catalog(stepwise, "test", by_steps=True)
    found = Task("the volcano of the city", frozenset({("city", "get_volcano")}))
    lost = Task("zebra", frozenset({("town", "get_ticket")}))

    async def replay() -> Mapping[str, Outcomes]:
        by_task: dict[str, Outcomes] = {}
        with anyio.fail_after(120):
            async with gateway_over(catalog) as gateway:
                for task in (found, lost, *stepped):
                    outcomes: dict[str, tuple[list[Request], Traffic]] = {}
                    for name, way in WAYS.items():
                        model = StandIn(task, catalog)
                        gateway.plain.traffic = gateway.meta_tools.traffic = Traffic()
                        way(gateway, model, 2)
                        outcomes[name] = (model.requests, gateway.plain.traffic)
                    by_task[task.text] = outcomes
        return by_task

    return anyio.run(replay)


def test_a_search_tool_takes_the_model_one_turn_and_schemas_that_it_has_to_ask_for_another(
    replayed: Mapping[str, Outcomes],
):
    outcomes = replayed["the volcano of the city"]
    taken = {name: (len(turns), traffic.requests) for name, (turns, traffic) in outcomes.items()}
    assert taken == {_LISTED: (1, 2), BASE: (1, 2), _MODEL_DRIVEN: (2, 2), _DESCRIBED: (3, 4), _WHOLE: (2, 3)}
    for name, (turns, traffic) in outcomes.items():
        assert ("city", "get_volcano") in turns[-1].available, name
        assert 0 < traffic.seconds < 120
        read = json.dumps([*turns[-1].tools, *turns[-1].messages])
        assert "volcano_id" in read, f"{name}: the model has the schema of what it calls"
    assert outcomes[BASE][1].bytes < outcomes[_LISTED][1].bytes
    assert [len(turns[0].tools) for turns, _ in outcomes.values()] == [12, 3, 1, 7, 7]


def test_a_model_that_finds_nothing_searches_twice_and_asks_for_no_schema(replayed: Mapping[str, Outcomes]):
    outcomes = replayed["zebra"]
    taken = {name: (len(turns), traffic.requests) for name, (turns, traffic) in outcomes.items()}
    assert taken == {_LISTED: (1, 2), BASE: (2, 3), _MODEL_DRIVEN: (3, 3), _DESCRIBED: (3, 4), _WHOLE: (3, 4)}


@pytest.mark.rotating
def test_the_command_replays_what_the_servers_can_serve_prints_a_table_and_writes_the_figures(
    directory: Path, tmp_path: Path
):
    report = tmp_path / "method.json"
    options = ["--data", str(directory), "--rounds", "1", "--servers", "1", "--servers", "2", "--json", str(report)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert "12 tools of 2 servers, 2 requests" in outcome.output
    measured = json.loads(report.read_text())["datasets"]
    assert [(row["servers"], row["tools"], row["tasks"]) for row in measured] == [(1, 6, 1), (2, 12, 2)]
    written = measured[1]
    ways: dict[str, Any] = {way["way"]: way for way in written["ways"]}
    assert [*ways] == [*WAYS]
    assert [way["turns"] for way in ways.values()] == [1.0, 1.0, 2.0, 3.0, 2.0]
    assert all(len(way["turn_tokens"]) == way["turns"] for way in ways.values())
    assert all(way["tokens"] == pytest.approx(sum(way["turn_tokens"])) for way in ways.values())
    assert all(way["complete"]["value"] == 1.0 for way in ways.values())
    assert ways[BASE]["wire_ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert ways[BASE]["tokens"] < ways[_WHOLE]["tokens"] < ways[_DESCRIBED]["tokens"]


def test_servers_are_chosen_so_that_many_requests_need_no_others_and_fewer_are_a_part_of_more(directory: Path):
    catalog, tasks = read_catalog(directory, "test")
    asked = [Task("", frozenset({("town", "get_ticket")})), *tasks]
    assert [*catalog.of_servers(1, asked).servers] == ["town"]
    assert [*catalog.of_servers(2, asked).servers] == ["city", "town"]
    assert [*catalog.of_servers(70, asked).servers] == ["city", "town"]


def test_a_task_of_several_steps_is_searched_step_by_step_for_what_is_not_there_yet(
    stepwise: Path, replayed: Mapping[str, Outcomes]
):
    _, tasks = read_catalog(stepwise, "test", by_steps=True)
    assert [(task.text, len(task.steps)) for task in tasks] == [("plan my trip", 3)]
    assert tasks[0].needed == {("city", "get_forecast"), ("city", "get_volcano")}
    outcomes = replayed["plan my trip"]
    taken = {name: (len(turns), traffic.requests) for name, (turns, traffic) in outcomes.items()}
    assert taken == {_LISTED: (1, 2), BASE: (3, 4), _MODEL_DRIVEN: (3, 3), _DESCRIBED: (4, 5), _WHOLE: (3, 4)}
    for name, (turns, _) in outcomes.items():
        assert tasks[0].needed <= turns[-1].available, name
    said = json.dumps(outcomes[_MODEL_DRIVEN][0][-1].messages)
    assert said.index("a forecast of the city") < said.index("where a volcano is")
    assert "again" not in said


def test_tasks_of_several_steps_are_measured_by_their_text_and_step_by_step(stepwise: Path, tmp_path: Path):
    report = tmp_path / "method.json"
    options = ["--data", str(stepwise), "--rounds", "1", "--steps", "--results", "1", "--json", str(report)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    whole, stepped = json.loads(report.read_text())["datasets"]
    driven = [
        next(way for way in measurement["ways"] if way["way"] == _MODEL_DRIVEN) for measurement in (whole, stepped)
    ]
    assert [way["complete"]["value"] for way in driven] == [0.0, 1.0]
    assert "1 request, searched step by step" in outcome.output


def test_a_set_without_steps_cannot_be_searched_step_by_step(directory: Path):
    outcome = CliRunner().invoke(main, ["--data", str(directory), "--steps"])
    assert outcome.exit_code == 2
    assert "cannot serve any task" in outcome.output


class _LateAnswer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"jsonrpc": "2.0", "id": 0, "result": {"said": "caf\u00e9", "at": self.path}}
        events = f": still working\n\nevent: message\ndata: {json.dumps(message)}\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(events)))
        self.end_headers()
        self.wfile.write(events)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class has it
        """Say nothing."""


def test_an_answer_that_comes_as_an_event_is_read_and_counted_with_its_request():
    with HTTPServer(("127.0.0.1", 0), _LateAnswer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        with closing(Wire(server.server_port, "/mcp/other")) as wire:
            result = wire.ask("tools/call", {"name": "shout"})
        thread.join(60)
    assert result == {"said": "café", "at": "/mcp/other"}
    assert wire.traffic.requests == 1
    assert wire.traffic.bytes > len('{"name":"shout"}') + len(json.dumps(result))
