"""A model behind a real endpoint, which this test plays: it searches, calls what it finds, and says that it is done."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.context.__main__ import main

_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 40},
}


def _answer(body: dict[str, Any], most_tools: int) -> tuple[int, dict[str, Any]]:
    """Search with the user's words, call the first tool for a volcano, and end; more tools than allowed are refused."""
    tools = [offered["function"]["name"] for offered in body["tools"]]
    if len(tools) > most_tools:
        return 400, {"error": {"message": f"{len(tools)} tools are too many | here"}}
    called = [call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    fitting = [name for name in tools if "volcano" in name]
    message: dict[str, Any] = {"role": "assistant", "content": "DONE"}
    if not any("volcano" in name for name in called):
        name, arguments = (fitting[0], {}) if fitting else ("search_tools", {"query": "the volcano of a city"})
        function = {"name": name, "arguments": json.dumps(arguments)}
        message |= {
            "content": None,
            "tool_calls": [{"id": f"c{len(called)}", "type": "function", "function": function}],
        }
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
    return 200, whole | {"usage": _USAGE}


@contextmanager
def endpoint(most_tools: int = 100) -> Generator[tuple[str, list[dict[str, Any]]]]:
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append(body)
            status, answer = _answer(body, most_tools)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class has it
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    tools = [
        {"id": f"{server}::{noun}", "server": server, "name": f"get_{noun}", "description": f"Fetch a {noun}. {text}"}
        for server, text in (("city", "It is long. " * 20), ("town", ""))
        for noun in ("forecast", "volcano", "ticket", "lawyer")
    ]
    queries = [
        {"id": "1", "query": "the volcano of the city", "relevant": ["city::volcano"], "split": "test"},
        {"id": "2", "query": "a ticket, town", "relevant": ["town::ticket"], "split": "test"},
    ]
    for name, lines in (("tools", tools), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def measured(directory: Path, url: str, *options: str) -> tuple[str, list[dict[str, Any]]]:
    report = directory / "model.json"
    asked = ["--data", str(directory), "--model", "some", "--base-url", url, "--json", str(report), *options]
    outcome = CliRunner().invoke(main, asked, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    figures = json.loads(report.read_text())
    assert figures["model"] == "some"
    return outcome.output, figures["datasets"]


def test_what_the_model_does_and_what_the_endpoint_counts_are_the_figures(directory: Path):
    with endpoint() as (url, requests):
        output, [measurement] = measured(directory, url)
    ways = {way["way"]: way for way in measurement["ways"]}
    assert {name: (way["requests"], way["searches"]) for name, way in ways.items()} == {
        "everything listed": (2, 0),
        "ours, model-driven": (3, 1),
        "ours, delegated": (2, 0),
        "ours, automatic": (2, 0),
    }
    driven = ways["ours, model-driven"]
    assert (driven["prompt_tokens"], driven["cached_tokens"], driven["completion_tokens"]) == (300, 120, 21)
    assert driven["seconds"] > 0
    assert [way["found"]["value"] for way in ways.values()] == [0.5] * 4
    assert [way["others"] for way in ways.values()] == [0.5] * 4
    assert "tokens read | of them cached" in output
    assert all(body["model"] == "some" for body in requests)
    assert "8 tools of 2 servers, 2 requests" in output


def test_a_way_that_the_endpoint_refuses_is_reported_and_the_others_go_on(directory: Path):
    with endpoint(most_tools=7) as (url, _):
        output, [measurement] = measured(directory, url, "--way", "everything listed", "--way", "ours, model-driven")
    listed, driven = measurement["ways"]
    assert (listed["tasks"], listed["failed"], driven["failed"]) == (0, 2, 0)
    assert "8 tools are too many / here" in output


def test_a_model_can_be_asked_over_few_servers(directory: Path):
    with endpoint() as (url, _):
        _, measurements = measured(directory, url, "--servers", "1", "--servers", "2", "--way", "ours, model-driven")
    assert [(measurement["servers"], measurement["tasks"]) for measurement in measurements] == [(1, 1), (2, 2)]
