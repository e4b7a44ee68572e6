"""An MCP server that sends what no client should read: `excessive.py WAY ERA BEHAVIOR [PORT]`. Standard library only.

WAY is `stdio`, or `json`, `events` or `old-sse` at a port of this machine; ERA is `modern` or `legacy`. A call is
answered with the text of its argument `answer`, in which `ID` is the id of the request. Over HTTP, a call that `holds`
is answered after one that `releases`; while another is held, the response to one that `breaks` ends without an answer,
and there is no response to one that `vanishes`; that to one that `drips` begins, after so many seconds, and never ends.
One that `refuses` gets that HTTP status with its `answer`, if it `waits` while another is held. The response to one
that `begins` does so at once, and goes on after a call that `releases`. One that `moves` is redirected with that HTTP
status, `to` an address. With `old-sse`, one that `thanks` has that text as its response, besides the event.
BEHAVIOR is how the tools are listed, or `good`, or `compressed`, as all answers then are; it may be `at-greeting` for a
first answer that is the text in the variable ANSWER, `gone-at-greeting` for none, or `late` for a server that takes its
time over a notification, and refuses to list tools before.
"""

from __future__ import annotations

import gzip
import json
import os
import queue
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAY, ERA, BEHAVIOR = sys.argv[1:4]
MIB = 1024 * 1024
TOOL: dict[str, Any] = {"name": "say", "inputSchema": {"type": "object"}}
LISTED: list[bool] = []
"""One for each listing of a server that counts: every second one is refused."""


def bomb() -> Iterator[bytes]:
    """Yield the answer of which 1 kB becomes 1 MiB, 2.5 GB in all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    yield packer.compress(b'{"jsonrpc":"2.0","id":1,"result":{"tools":["')
    zeros = b"0" * MIB
    for _ in range(2500):
        yield packer.compress(zeros)
    yield packer.flush()


def endless(start: bytes) -> Iterator[bytes]:
    yield start
    while True:
        yield b"0" * 65_536


def listing(params: dict[str, Any]) -> dict[str, Any]:
    match BEHAVIOR:
        case "large-description":
            return {"tools": [TOOL | {"description": "x" * 60_000_000}]}
        case "many-tools":
            return {"tools": [TOOL | {"name": f"tool_{number}"} for number in range(60_000)]}
        case "many-values":
            return {"tools": [{}] * 4_000_000}
        case "counting":
            LISTED.append(True)
            return {"tools": [TOOL | {"name": f"tool_{len(LISTED)}"}]}
        case "breaking-off":
            return {"tools": [TOOL], "nextCursor": "next"}
        case "large-pages":
            page = int(params.get("cursor", 0))
            tool = TOOL | {"name": f"tool_{page}", "description": "x" * 3_000_000}
            return {"tools": [tool], "nextCursor": str(page + 1)}
        case _:
            return {"tools": [TOOL]}


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    fresh: dict[str, Any] = {} if ERA == "legacy" else {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    capabilities: dict[str, Any] = {"prompts": {}} if BEHAVIOR == "no-tools" else {"tools": {}, "prompts": {}}
    match method:
        case "initialize":
            info = {"name": "hostile", "version": "0"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
        case "server/discover" if ERA == "modern":
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities} | fresh
        case "tools/list" if BEHAVIOR == "counting" and len(LISTED) % 2:
            LISTED.append(False)
            return None
        case "tools/list" if BEHAVIOR == "late" and not NOTIFIED.is_set():
            return None
        case "tools/list" if BEHAVIOR != "no-tools":
            return listing(params) | fresh
        case "prompts/list":
            return {"prompts": [{"name": str(number), "description": "x" * 3_000_000} for number in range(5)]} | fresh
        case "tools/call" | "ping":
            return {"content": [{"type": "text", "text": "fine"}]} | fresh
        case _:
            return None


def text_for(request: dict[str, Any]) -> str:
    own = json.dumps(request["id"])
    params = request.get("params", {})
    asked = params.get("arguments", {}).get("answer") if request["method"] == "tools/call" else None
    if BEHAVIOR == "at-greeting":
        asked = os.environ["ANSWER"]
    if asked is not None:
        return asked.replace("ID", own)
    found = result(request["method"], params)
    error = {"code": -32601, "message": "Method not found"}
    return json.dumps(
        {"jsonrpc": "2.0", "id": request["id"]} | ({"error": error} if found is None else {"result": found})
    )


def serve_stdio() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request.get("method") == "tools/list" and BEHAVIOR == "endless":
            for piece in endless(b""):
                sys.stdout.buffer.write(piece)
        if "method" in request and "id" in request:
            sys.stdout.buffer.write(text_for(request).encode("utf-8", "surrogatepass") + b"\n")
            sys.stdout.buffer.flush()


STREAMS: list[queue.Queue[str]] = []
HELD, RELEASED, NOTIFIED = threading.Event(), threading.Event(), threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name in the base class

    def do_GET(self) -> None:
        if WAY != "old-sse":
            self.reply(405, {}, [])
            return
        events: queue.Queue[str] = queue.Queue(maxsize=100)  # so that one without end waits for its reader
        STREAMS.append(events)
        if BEHAVIOR == "endless-event":
            self.reply(200, {"Content-Type": "text/event-stream"}, endless(b"data: "))
        events.put("event: endpoint\r\ndata: /post\r\n\r\n")
        self.reply(200, {"Content-Type": "text/event-stream"}, (text.encode() for text in iter(events.get, "")))

    def do_DELETE(self) -> None:
        self.reply(200, {}, [])

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if WAY == "old-sse" and not self.path.startswith("/post"):
            self.reply(405, {}, [])
        elif "method" in request and "id" in request:
            self.answer(request)
        else:
            if BEHAVIOR == "late":
                time.sleep(0.2)
            NOTIFIED.set()
            self.reply(202, {}, [])

    def answer(self, request: dict[str, Any]) -> None:
        is_list = request["method"] == "tools/list"
        if is_list and BEHAVIOR in ATTACKS and WAY != "old-sse":
            ATTACKS[BEHAVIOR](self)
            return
        if BEHAVIOR == "breaking-off" and "cursor" in request.get("params", {}):
            self.reply(200, {"Content-Type": "text/event-stream"}, [])
            return
        if self.is_ended(request.get("params", {}).get("arguments", {})):
            return
        text = text_for(request)
        if WAY == "json":
            session = {"Mcp-Session-Id": "1"} if request["method"] == "initialize" else {}
            kind = {"Content-Type": "application/json"}
            self.reply(200, kind | session, [text.encode("utf-8", "surrogatepass")])
            return
        event = f"event: message\r\ndata: {text}\r\n\r\n"
        if WAY == "events":
            pieces: Iterable[bytes] = [event.encode("utf-8", "surrogatepass")]
            if "begins" in request.get("params", {}).get("arguments", {}):
                pieces = self.held(pieces)
            self.reply(200, {"Content-Type": "text/event-stream"}, pieces)
            return
        events = STREAMS[-1]  # of this session, even once the next one has begun
        if is_list and BEHAVIOR == "endless":
            while True:
                events.put("data: " + "0" * 65_536)
        events.put(event)
        thanks = request.get("params", {}).get("arguments", {}).get("thanks", "")
        self.reply(202, JSON, [thanks.replace("ID", json.dumps(request["id"])).encode()])

    def held(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        yield b": it has begun\n\n"
        HELD.set()
        RELEASED.wait(60)
        yield from pieces

    def is_ended(self, arguments: dict[str, Any]) -> bool:
        """Return whether the response to a call is over, after the wait that its arguments ask for."""
        if "releases" in arguments:
            RELEASED.set()
        if "holds" in arguments:
            HELD.set()
            RELEASED.wait(60)
        if "breaks" in arguments:
            HELD.wait(60)
            self.reply(200, {"Content-Type": "text/event-stream"}, [b": nothing else\n\n"])
        if "vanishes" in arguments:
            HELD.wait(60)
        if "vanishes" in arguments or BEHAVIOR == "gone-at-greeting":
            self.connection.shutdown(socket.SHUT_RDWR)
            return True
        if "moves" in arguments and not self.path.endswith("?again"):
            self.reply(int(arguments["moves"]), {"Location": arguments["to"] + "?again"}, [])
            return True
        if "refuses" in arguments:
            HELD.wait(60 if "waits" in arguments else 0)
            body = arguments.get("answer", "").encode()
            kind = "application/json" if body else "text/plain"
            self.reply(int(arguments["refuses"]), {"Content-Type": kind}, [body])
        if "drips" in arguments:
            time.sleep(float(arguments["drips"] or 0))
            kind, piece = ("application/json", b" ") if WAY == "json" else ("text/event-stream", b": nothing yet\n\n")
            self.reply(200, {"Content-Type": kind}, (time.sleep(0.1) or piece for _ in iter(int, 1)))
        return bool({"breaks", "drips", "refuses"} & arguments.keys())

    def reply(self, status: int, headers: dict[str, str], pieces: Any) -> None:
        self.send_response(status)
        if BEHAVIOR == "compressed":
            headers = headers | {"Content-Encoding": "gzip"}
            pieces = [gzip.compress(b"".join(pieces)), b"what follows it"]
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def endless_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"X-Many: %s\r\n" % (b"x" * 1000))

    def small_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"1\r\n0\r\n" * 10_000)


JSON = {"Content-Type": "application/json"}
ATTACKS: dict[str, Callable[[Handler], None]] = {
    "bomb": lambda to: to.reply(200, JSON | {"Content-Encoding": "gzip"}, bomb()),
    "unasked-encoding": lambda to: to.reply(200, JSON | {"Content-Encoding": "br"}, [b"0"]),
    "endless": lambda to: to.reply(200, JSON, endless(b'{"jsonrpc":"2.0","id":1,"result":{"x":"')),
    "endless-event": lambda to: to.reply(200, {"Content-Type": "text/event-stream"}, endless(b"data: ")),
    "endless-headers": Handler.endless_headers,
    "small-chunks": Handler.small_chunks,
}

if WAY == "stdio":
    serve_stdio()
else:
    ThreadingHTTPServer.daemon_threads, ThreadingHTTPServer.request_queue_size = True, 100
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[4])), Handler).serve_forever()
