"""Why a server cannot be used, in words that help and give nothing away."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, UNSUPPORTED_PROTOCOL_VERSION, Tool
from pydantic import ValidationError
from tools_search_hosts import HttpTarget, StdioTarget, Target
from tools_search_hosts.unreachable import CannotStartError
from tools_search_server.upstreams.connection import explain

PROGRAM = StdioTarget("program")
PLACE = HttpTarget("https://someone:secret@example.com/mcp?key=secret")


def refused_by(url: str) -> httpx2.HTTPStatusError:
    response = httpx2.Response(401, request=httpx2.Request("GET", url))
    with pytest.raises(httpx2.HTTPStatusError) as refused:
        response.raise_for_status()
    return refused.value


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        Tool.model_validate({})
    return refused.value


@pytest.mark.parametrize(
    ("error", "target", "reason"),
    [
        (CannotStartError("'program' was not found"), PROGRAM, "'program' was not found"),
        (
            httpx2.ConnectError("refused", request=httpx2.Request("POST", PLACE.url)),
            PLACE,
            "nothing answers at https://example.com; start the server, or correct `url`",
        ),
        (
            refused_by("https://example.com/mcp?key=secret"),
            PLACE,
            "it answered HTTP 401; put the key or token that it expects into `headers`",
        ),
        (httpx2.ReadTimeout("slow"), PLACE, "it did not answer in time"),
        (MCPError(CONNECTION_CLOSED, "Connection closed"), PROGRAM, "it closed the connection before it was ready"),
        (MCPError(INTERNAL_ERROR, "no\nway"), PROGRAM, 'it answered with error -32603: "no way"'),
        (invalid(), PROGRAM, "it does not speak MCP"),
        (MCPError(UNSUPPORTED_PROTOCOL_VERSION, "no"), PROGRAM, "it speaks no revision of MCP that this program knows"),
        (
            RuntimeError("Unsupported protocol version from the server: 1999-01-01"),
            PROGRAM,
            'it speaks no revision of MCP that this program knows; it answered with "1999-01-01"',
        ),
        (httpx2.RemoteProtocolError("peer"), PLACE, "the connection broke off while it answered"),
        (httpx2.TooManyRedirects("https://example.com/mcp?key=secret"), PLACE, "it redirects without end"),
        (ValueError("at https://example.com/mcp?key=secret"), PLACE, "the connection failed: at https://"),
        (
            ExceptionGroup("outer", [ExceptionGroup("inner", [OSError("x" * 999)])]),
            PROGRAM,
            "the connection failed: x",
        ),
    ],
)
def test_a_failure_is_explained_in_one_short_line(error: Exception, target: Target, reason: str) -> None:
    explained = explain(error, target)
    assert explained.startswith(reason)
    assert "secret" not in explained
    assert "\n" not in explained
    assert len(explained) <= 300


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "it answered HTTP 401; put the key or token that it expects into `headers`"),
        (403, "it answered HTTP 403; put the key or token that it expects into `headers`"),
        (500, 'it answered with HTTP 500 and error -32603: "Out of paper"'),
        (None, 'it answered with error -32603: "Out of paper"'),
    ],
)
def test_the_status_of_a_refusal_is_told_with_what_to_do(status: int | None, reason: str) -> None:
    error = MCPError(INTERNAL_ERROR, "Out of paper")
    assert explain(error, PLACE, http_status=status) == reason


STRANGE = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GREETING = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}

def answer(message):
    if message["method"] == "initialize":
        return {"jsonrpc": "2.0", "id": message["id"], "result": GREETING}
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer(message)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

if len(sys.argv) > 1:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
for line in sys.stdin:
    if "id" in (message := json.loads(line)):
        print(json.dumps(answer(message)), flush=True)
"""


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_of_an_unknown_revision_is_explained_without_the_words_of_a_library(
    gateway: Any, servers: Any, unused_tcp_port: int, until: Any, caplog: pytest.LogCaptureFixture, transport: str
) -> None:
    entry: dict[str, Any] = {"command": sys.executable, "args": ["-c", STRANGE]}
    if transport == "http":
        servers.start("-c", STRANGE, str(unused_tcp_port), stderr=subprocess.DEVNULL)
        entry = {"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"}
    with anyio.fail_after(30):
        async with gateway("auto", strange=entry):
            await until(lambda: "strange is down: it speaks no revision" in caplog.text)
    reason = 'it speaks no revision of MCP that this program knows; it answered with "1999-01-01"'
    assert f"strange is down: {reason}" in caplog.messages
    assert "RuntimeError" not in caplog.text
