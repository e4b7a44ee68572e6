"""Servers that are none: each answers everything in one wrong way.

    nulls.py KIND [--http]

On stdio only the process matters; over HTTP the address is the first line.
"""

from __future__ import annotations

import json
import os
import sys
import time
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
    return {"result": message.get("params") or {}}


def _opened(message: Json) -> Json | None:
    """Open properly and list the fixture, so that it is the searches that are judged."""
    capabilities = {"tools": {}, **dict.fromkeys(("extensions", "experimental"), {EXTENSION_ID: {}})}
    if message["method"] == "server/discover":
        return {"result": {"supportedVersions": [MODERN], "capabilities": capabilities, "resultType": "complete"}}
    if message["method"] == "initialize":
        return {"result": {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": {"name": "null", "version": "0"}}}
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


def crash_on_search(message: Json) -> Json:
    if (answer := _opened(message)) is not None:
        return answer
    sys.stderr.write("about to crash\n")
    sys.stderr.flush()
    os._exit(3)


ANSWERS: Final = {
    answer.__name__: answer
    for answer in (refuse_all, empty_all, echo, refuse_search, empty_search, mute_search, crash_on_search)
}


def main() -> None:
    kind = sys.argv[1]
    if kind == "mute":
        time.sleep(600)
    if kind == "exit":
        sys.exit(7)
    if kind == "garbage":
        for line in sys.stdin.buffer:
            sys.stdout.buffer.write(b"\xff\xfenot json {" + line[:10] + b'\n[1,2]\n{"jsonrpc":"2.0"')
            sys.stdout.buffer.flush()
    if kind == "flood":
        while True:
            sys.stdout.buffer.write(b"x" * 65536)
    if kind == "deep":
        for _ in sys.stdin.buffer:
            sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
            sys.stdout.buffer.flush()
    if "--http" in sys.argv:
        serve_http(kind)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and (answer := ANSWERS[kind](message)) is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
            sys.stdout.flush()


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

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}/mcp"}), flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
