"""Servers that are none: each answers everything in one wrong way.

    target.py nulls KIND [--http]

On stdio only the process matters; over HTTP the address is the first line.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

Json = dict[str, Any]

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"


def refuse_all(message: Json) -> Json:
    return {"error": {"code": -32601, "message": "Method not found"}}


def empty_all(message: Json) -> Json:
    return {"result": {}}


def echo(message: Json) -> Json:
    return {"result": message.get("params", Json())}


def versions_by_number(message: Json) -> Json:
    """Encode arrays as objects, as PHP does with JSON_FORCE_OBJECT."""
    return {"result": {"supportedVersions": {"0": MODERN}}}


def _opened(message: Json) -> Json | None:
    """Open properly and list the fixture, so that it is the searches that are judged."""
    capabilities = {"tools": {}, **{place: {EXTENSION_ID: Json()} for place in ("extensions", "experimental")}}
    if message["method"] == "server/discover":
        return {"result": {"supportedVersions": [MODERN], "capabilities": capabilities, "resultType": "complete"}}
    if message["method"] == "initialize":
        return {
            "result": {
                "protocolVersion": LEGACY,
                "capabilities": capabilities,
                "serverInfo": {"name": "null", "version": "0"},
            }
        }
    if message["method"] == "tools/list":
        with open(os.environ["TOOLS_SEARCH_CATALOG"], encoding="utf-8") as file:  # noqa: PTH123 - no import for this
            return {"result": json.load(file)}
    return None


def refuse_search(message: Json) -> Json:
    return _opened(message) or refuse_all(message)


def empty_search(message: Json) -> Json:
    return _opened(message) or {"result": {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}


def mute_search(message: Json) -> Json | None:
    return _opened(message)


def refuse_list(message: Json) -> Json:
    """Log the reason before the answer, which lacks it, and a stack trace after it."""
    if message["method"] != "tools/list":
        return _opened(message) or refuse_all(message)
    sys.stderr.write("listing\nValueError: tools.45.outputSchema.type\n  Field required\n    at list\n")
    sys.stderr.flush()
    return {"error": {"code": -32603, "message": "Internal error"}}


def crash_on_search(message: Json) -> Json:
    if (answer := _opened(message)) is not None:
        return answer
    sys.stderr.write("about to crash\n")
    sys.stderr.flush()
    os._exit(3)


ANSWERS: Final = {
    answer.__name__: answer
    for answer in (
        refuse_all,
        empty_all,
        echo,
        versions_by_number,
        refuse_list,
        refuse_search,
        empty_search,
        mute_search,
        crash_on_search,
    )
}


def garbage(line: bytes) -> bytes:
    return b"\xff\xfenot json {" + line[:10] + b'\n[1,2]\n{"jsonrpc":"2.0"'


def deep(line: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"


def mute(line: bytes) -> bytes:
    return b""


def flood(line: bytes) -> bytes:
    while True:
        sys.stdout.buffer.write(b"x" * 65536)


RAW: Final = {raw.__name__: raw for raw in (garbage, deep, mute, flood)}


def main() -> None:
    kind = sys.argv[1]
    if kind == "exit":
        sys.exit(7)
    if "--http" in sys.argv:
        serve_http(kind)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(RAW[kind](line) if kind in RAW else respond(kind, json.loads(line)))
        sys.stdout.buffer.flush()


def respond(kind: str, message: Json) -> bytes:
    if "id" not in message or (answer := ANSWERS[kind](message)) is None:
        return b""
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode() + b"\n"


def serve_http(kind: str) -> None:
    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if kind == "redirect":
                self.reply(302, b"", Location="http://127.0.0.1:9/mcp")
            elif kind == "html":
                self.reply(200, b"<html>hello</html>", **{"Content-Type": "text/html"})
            elif kind == "endless":
                self.reply(200, b"", **{"Content-Type": "text/event-stream"})
                while True:
                    self.wfile.write(b"data: " + b"x" * 65536)
            else:
                answer = {"jsonrpc": "2.0", "id": message.get("id"), **(ANSWERS[kind](message) or {})}
                self.reply(200, json.dumps(answer).encode(), **{"Content-Type": "application/json"})

        def reply(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}/mcp"}), flush=True)  # noqa: T201
    server.serve_forever()
