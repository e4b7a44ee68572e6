from __future__ import annotations

import json
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from benchmarks.endtoend.__main__ import main
from benchmarks.endtoend.raw import RawHTTP, opened_stdio


def test_searches_are_measured_next_to_a_request_that_does_nothing(tmp_path: Path):
    figures = tmp_path / "figures.json"
    few = ["--sizes", "20", "--requests", "2", "--json", str(figures)]
    outcome = CliRunner().invoke(main, few, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    (size,) = json.loads(figures.read_text())["sizes"]
    assert [(one["transport"], one["client"]) for one in size["connected"]] == [
        ("stdio", "raw"),
        ("stdio", "SDK"),
        ("HTTP", "raw"),
        ("HTTP", "SDK"),
    ]
    for one in size["connected"]:
        assert [row["way"] for row in one["rows"]][::5] == ["nothing", "the whole list"]
        assert all(row["p50_ms"]["low"] <= row["p50_ms"]["value"] <= row["p50_ms"]["high"] for row in one["rows"])
        assert one["rows"][0]["ratio"] == {"value": 1, "low": 1, "high": 1}
    definitions = {weight["way"]: weight["definitions"] for weight in size["weights"]}
    assert definitions["nothing"] == 0
    assert 0 < definitions["search, 10 tools"] <= 10
    assert definitions["first page of the list"] == definitions["the whole list"] == 20
    assert "| 20 | nothing |" in outcome.output


def test_a_raw_client_says_when_the_server_is_gone(tmp_path: Path):
    with (
        opened_stdio(["-m", "benchmarks.endtoend.server", str(tmp_path / "missing.json")]) as wire,
        pytest.raises(RuntimeError, match="ended"),
    ):
        wire.ask("tools/list", {})


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


def test_a_raw_client_reads_an_answer_that_comes_as_an_event_and_counts_what_it_sends():
    with HTTPServer(("127.0.0.1", 0), _LateAnswer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        with closing(RawHTTP(server.server_port, "/mcp/other")) as wire:
            result, received = wire.ask("tools/call", {"name": "shout"})
        thread.join(60)
    assert result == {"said": "café", "at": "/mcp/other"}
    assert wire.sent_bytes > len('{"name":"shout"}')
    assert received > len(json.dumps(result))
