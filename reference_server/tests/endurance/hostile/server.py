"""One MCP server that misbehaves in one way: `server MODE` on stdio, or `server MODE PORT` over HTTP.

Standard library only. Each runs at the lowest priority: what is measured is what it makes the gateway do, not how much
of the processor it takes itself.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["HTTP_MODES", "STDIO_MODES"]

_TOOL: Final[dict[str, Any]] = {"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}
_BIG: Final = 60_000_000


Request: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Request], None]


class Server:
    """A correct server of revision 2025-11-25 on stdio; modes replace what they spoil."""

    def __init__(self) -> None:
        self.tools: Any = [_TOOL]
        self.writing = threading.Lock()
        self.initialize: Handler = self._initialize
        self.list: Handler = lambda request: self.answer(request, {"tools": self.tools})
        self.call: Handler = lambda request: self.answer(request, {"content": [{"type": "text", "text": "echo"}]})
        self.started: Callable[[], None] = lambda: None
        self.serve: Callable[[], None] = self.answer_all

    def write(self, data: bytes) -> None:
        """Write bytes that may be no message."""
        with self.writing:
            while data:
                data = data[os.write(1, data) :]

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request: Request, result: Any) -> None:
        """Answer a request."""
        self.send({"id": request["id"], "result": result})

    def _initialize(self, request: Request) -> None:
        capabilities = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}}
        info = {"name": "hostile", "version": "1"}
        self.answer(request, {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})

    def answer_all(self) -> None:
        """Answer until standard input ends."""
        for line in sys.stdin.buffer:
            message: dict[str, Any] = json.loads(line)
            method = message.get("method")
            if method == "notifications/initialized":
                self.started()
            elif "id" not in message or method is None:
                continue
            elif method == "initialize":
                self.initialize(message)
            elif method == "tools/list":
                self.list(message)
            elif method == "tools/call":
                self.call(message)
            elif method == "ping":
                self.answer(message, {})
            else:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


Mode: TypeAlias = Callable[[Server], None]


def _exits(server: Server) -> None:
    sys.exit(3)


def _dies_in_call(server: Server) -> None:
    server.call = lambda _: os._exit(9)


def _frozen(server: Server) -> None:
    server.call = lambda _: os.kill(os.getpid(), signal.SIGSTOP)


def _hangs_at(member: str) -> Mode:
    def hang(_: Request) -> None:
        return

    return lambda server: setattr(server, member, hang)


def _drips_pages(server: Server) -> None:
    def page(request: Request) -> None:
        time.sleep(1)
        server.answer(request, {"tools": [], "nextCursor": str(time.time())})

    server.list = page


def _pages(cursor: Callable[[], str], size: int = 1) -> Mode:
    def mode(server: Server) -> None:
        def page(request: Request) -> None:
            text = "x" * size
            tools = [{**_TOOL, "name": f"t{time.time_ns()}", "description": text}]
            server.answer(request, {"tools": tools, "nextCursor": cursor()})

        server.list = page

    return mode


def _calls(result: Any) -> Mode:
    def mode(server: Server) -> None:
        server.call = lambda request: server.answer(request, result)

    return mode


def _call_line(line: str) -> Mode:
    """Answer calls with a line in which `%s` is the id."""

    def mode(server: Server) -> None:
        server.call = lambda request: server.write((line % json.dumps(request["id"])).encode() + b"\n")

    return mode


def _list_line(line: str) -> Mode:
    def mode(server: Server) -> None:
        server.list = lambda request: server.write((line % json.dumps(request["id"])).encode() + b"\n")

    return mode


def _floods(data: bytes, descriptor: int = 1) -> Mode:
    """Write without end once the handshake is over."""

    def mode(server: Server) -> None:
        def flood() -> None:
            while True:
                os.write(descriptor, data)

        server.started = lambda: threading.Thread(target=flood, daemon=True).start()

    return mode


def _lists(tools: Callable[[], Any]) -> Mode:
    return lambda server: setattr(server, "tools", tools())


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _progress_flood(server: Server) -> None:
    def call(request: Request) -> None:
        token = request["params"].get("_meta", {}).get("progressToken", 1)
        for number in range(20_000):
            params = {"progressToken": token, "progress": number, "message": "x" * 200}
            server.send({"method": "notifications/progress", "params": params})
        server.answer(request, {"content": []})

    server.call = call


def _grandchild(server: Server) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(86400)"], start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def deaf() -> None:
        server.answer_all()
        while True:
            time.sleep(60)

    server.serve = deaf


def _notification(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": {"uri": "x://1"}}).encode() + b"\n"


def _request(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "same", "method": method, "params": {}}).encode() + b"\n"


_DEEP: Final = '{"jsonrpc":"2.0","id":%s,"result":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}"
_ODD_NAMES: Final = (
    "a\nb",
    "\x1b[31mred",
    "\u202egnp",
    "nul\0",
    "x" * 500,
    "../../etc",
    "🔥",
    "search_tools",
    "",
    " ",
    "a",
)

STDIO_MODES: Final[Mapping[str, Mode]] = {
    "exits": _exits,
    "dies-in-call": _dies_in_call,
    "frozen": _frozen,
    "hangs-at-initialize": _hangs_at("initialize"),
    "hangs-at-list": _hangs_at("list"),
    "hangs-at-call": _hangs_at("call"),
    "drips-pages": _drips_pages,
    "same-cursor": _pages(lambda: "same"),
    "endless-cursors": _pages(lambda: str(time.time_ns())),
    "empty-cursor": _pages(lambda: ""),
    "large-pages": _pages(lambda: str(time.time_ns()), 5_000_000),
    "huge-description": _lists(lambda: [{**_TOOL, "description": "x " * (_BIG // 2)}]),
    "many-tools": _lists(lambda: [{**_TOOL, "name": f"t{number}"} for number in range(60_000)]),
    "tools-no-array": _lists(dict),
    "tools-of-numbers": _lists(lambda: [1, None, "x", []]),
    "odd-names": _lists(lambda: [{**_TOOL, "name": name} for name in (*_ODD_NAMES, *_ODD_NAMES)]),
    "deep-schema": _lists(lambda: [{**_TOOL, "inputSchema": _nested(400)}]),
    "remote-ref": _lists(lambda: [{**_TOOL, "inputSchema": {"$ref": "http://127.0.0.1:9/x"}}]),
    "slow-pattern": _lists(
        lambda: [{**_TOOL, "inputSchema": {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}}]
    ),
    "schema-no-object": _lists(lambda: [{**_TOOL, "inputSchema": []}]),
    "list-null": _list_line('{"jsonrpc":"2.0","id":%s,"result":null}'),
    "list-deep": _list_line(_DEEP),
    "call-null": _call_line('{"jsonrpc":"2.0","id":%s,"result":null}'),
    "call-deep": _call_line(_DEEP),
    "call-surrogate": _call_line('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"\\ud800"}]}}'),
    "call-nan": _call_line('{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":NaN}}'),
    "call-digits": _call_line('{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":' + "9" * 5_000 + "}}"),
    "call-string-code": _call_line('{"jsonrpc":"2.0","id":%s,"error":{"code":"x","message":"y"}}'),
    "call-result-and-error": _call_line('{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":"y"}}'),
    "call-error-of-digits": _call_line(
        '{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"' + "9" * 500_000 + '"}}'
    ),
    "call-error-like-tokens": _calls({"isError": True, "content": [{"type": "text", "text": "eyJ-" * 100_000}]}),
    "call-twice": _call_line(
        '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    ),
    "call-wrong-id": _call_line('{"jsonrpc":"2.0","id":"x%s","result":{"content":[]}}'),
    "call-bad-block": _calls({"content": [{"type": "text"}, {"type": "text", "text": "kept"}], "isError": True}),
    "call-of-another-type": _calls({"content": 5}),
    "call-huge": _calls({"content": [{"type": "text", "text": "x" * _BIG}]}),
    "call-progress": _progress_flood,
    "garbage": _floods(b"this is no message\n" * 50),
    "endless-line": _floods(b"x" * 65_536),
    "foreign-ids": _floods(b'{"jsonrpc":"2.0","id":987654,"result":{}}\n' * 20),
    "log-flood": _floods(b"log line\n" * 50, 2),
    "log-like-tokens": _floods(b"eyJ-" * 2_000 + b"\n", 2),
    "log-without-end-of-line": _floods(b"x" * 65_536, 2),
    "list-changed-flood": _floods(_notification("notifications/tools/list_changed") * 20),
    "resource-flood": _floods(_notification("notifications/resources/updated") * 20),
    "request-flood": _floods(_request("sampling/createMessage") * 20),
    "nonsense-flood": _floods(_request("no/such/method") * 20),
    "grandchild": _grandchild,
}
"""What a server on stdio does, by name."""


def _http(sending: Callable[[socket.socket], None]) -> Callable[[int], None]:
    def serve(port: int) -> None:
        with socket.create_server(("127.0.0.1", port)) as listening:
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=_respond, args=(connection, sending), daemon=True).start()

    return serve


def _respond(connection: socket.socket, sending: Callable[[socket.socket], None]) -> None:
    with connection:
        try:
            connection.recv(65_536)
            sending(connection)
        except OSError:
            return


def _whole(status: str, headers: str, body: bytes) -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + body)


def _endless(first: str, chunk: bytes, pause: float = 0) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + first.encode())
        while True:
            connection.sendall(chunk)
            time.sleep(pause)

    return send


def _bomb() -> bytes:
    """Return a few megabytes of gzip that are two and a half gigabytes of JSON."""
    compressor = gzip.compress(b" " * 25_000_000, 9)
    return compressor * 100  # members of one gzip stream follow each other


_JSON: Final = "Content-Type: application/json\r\n"
_SSE: Final = "Content-Type: text/event-stream\r\n"

HTTP_MODES: Final[Mapping[str, Callable[[], Callable[[socket.socket], None]]]] = {
    "http-page": lambda: _whole("200 OK", "Content-Type: text/html\r\n", b"<h1>hello</h1>"),
    "http-500": lambda: _whole("500 Oops", _JSON, b"{}"),
    "http-401": lambda: _whole("401 No", 'WWW-Authenticate: Bearer realm="x"\r\n', b""),
    "http-empty": lambda: _whole("200 OK", _JSON, b""),
    "http-redirects": lambda: _whole("307 Go", "Location: /mcp\r\n", b""),
    "http-bomb": lambda: _whole("200 OK", _JSON + "Content-Encoding: gzip\r\n", _bomb()),
    "http-endless-body": lambda: _endless(f'{_JSON}\r\n{{"jsonrpc":"2.0","x":"', b"x" * 65_536),
    "http-endless-event": lambda: _endless(f"{_SSE}\r\nevent: message\ndata: ", b"x" * 65_536),
    "http-endless-comments": lambda: _endless(f"{_SSE}\r\n", b": x\n" * 4_096),
    "http-endless-events": lambda: _endless(f"{_SSE}\r\n", b"event: message\ndata: {}\n\n" * 100),
    "http-drip": lambda: _endless(f"{_JSON}\r\n{{", b" ", 0.5),
    "http-silent-stream": lambda: _endless(f"{_SSE}\r\n", b"", 5),
    "http-endless-headers": lambda: _endless("", b"X-Header: x\r\n" * 4_096),
    "http-nothing": lambda: _endless("", b"", 5),
}
"""What a server over HTTP answers to anything, by name."""


def main() -> None:
    """Misbehave until the process is ended."""
    os.nice(19)
    mode, *port = sys.argv[1:]
    if port:
        _http(HTTP_MODES[mode]())(int(port[0]))
    server = Server()
    STDIO_MODES[mode](server)
    server.serve()


if __name__ == "__main__":
    main()
