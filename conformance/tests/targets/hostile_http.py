"""What a hostile server sends over HTTP: any bytes at all on the connection."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .hostile import Hostile

Json = dict[str, Any]
CHUNK: Final = 65536
DRIP_SECONDS: Final = 0.05


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


JSON: Final = "Content-Type: application/json"
EVENTS: Final = "Content-Type: text/event-stream"


def redirects(to: str) -> Iterator[bytes]:
    yield head(f"Location: {to}", "Content-Length: 0", status="307 Temporary Redirect")


def endless(begin: bytes, chunk: bytes, seconds: float = 0) -> Iterator[bytes]:
    yield begin
    while True:
        time.sleep(seconds)
        yield chunk


def whole(kind: str, body: bytes, *headers: str) -> Iterator[bytes]:
    yield head(f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers) + body


def of_length(length: int, body: bytes) -> Iterator[bytes]:
    yield head(JSON, f"Content-Length: {length}") + body


def answer(number: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {"tools": []}}).encode()


def bomb() -> bytes:
    return gzip.compress(b"[" + b" " * (200 * 1024 * 1024) + b"]", 9)


KINDS: Final[dict[str, Callable[[Any, str], Iterator[bytes]]]] = {
    "redirect-loop": lambda number, url: redirects(url),
    "redirect-away": lambda number, url: redirects("http://192.0.2.1/mcp"),
    "redirect-file": lambda number, url: redirects("file:///etc/passwd"),
    "redirect-nonsense": lambda number, url: redirects("http://[::1/\x80"),
    "html": lambda number, url: whole("text/html", b"<html>" + answer(number)),
    "untyped": lambda number, url: whole("", b"hello"),
    "events-empty": lambda number, url: endless(head(EVENTS), b"\n" * CHUNK),
    "events-comments": lambda number, url: endless(head(EVENTS), b": hello\n\n" * 8000),
    "events-alive": lambda number, url: endless(head(EVENTS), b": alive\n\n", DRIP_SECONDS),
    "events-unfinished": lambda number, url: endless(head(EVENTS), b"data\n" * 10_000),
    "events-others": lambda number, url: endless(head(EVENTS), b"data: " + answer("another") + b"\n\n"),
    "body-endless": lambda number, url: endless(head(JSON), b" " * CHUNK),
    "body-drips": lambda number, url: endless(head(JSON), b" ", DRIP_SECONDS),
    "too-long": lambda number, url: of_length(10**12, answer(number)),
    "too-short": lambda number, url: of_length(20, answer(number)),
    "gzip": lambda number, url: whole("application/json", bomb(), "Content-Encoding: gzip"),
    "headers": lambda number, url: endless(b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"x" * 100 + b"\r\n"),
    "header-drips": lambda number, url: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x", DRIP_SECONDS),
    "informational": lambda number, url: endless(b"", head(status="103 Early Hints") * 1000),
    "tls": lambda number, url: iter((b"\x15\x03\x03\x00\x02\x02\x28",)),
    "no-http": lambda number, url: endless(b"", b"\x00" * CHUNK),
}


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hostile: Hostile
    kind: str
    url: str
    asked = 0

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked += 1
        if self.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        if self.kind in KINDS and self.hostile.is_its_moment(message):
            self.close_connection = True
            try:
                for chunk in KINDS[self.kind](message["id"], self.url):
                    self.wfile.write(chunk)
            except OSError:
                return
            return
        self._answer(self.hostile.respond(message))

    def _answer(self, response: Json | None) -> None:
        body = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.kind == "cookies":
            for n in range(100):
                self.send_header("Set-Cookie", f"c{self.asked}-{n}={'x' * 500}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


class _Eager(_Endpoint):
    """Answers at great length before anything was asked."""

    def handle(self) -> None:
        try:
            for chunk in KINDS["events-comments"](0, self.url):
                self.wfile.write(chunk)
        except OSError:
            return


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def serve_http(hostile: Hostile, kind: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Eager if kind == "eager" else _Endpoint)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_port}/mcp"
    _Endpoint.hostile, _Endpoint.kind, _Endpoint.url = hostile, kind, url
    match kind:
        case "url-remote":
            write('{"url": "http://192.0.2.1/mcp"}\n')
        case "url-file":
            write('{"url": "file:///etc/passwd"}\n')
        case "url-endless":
            while True:
                write("x" * CHUNK)
        case "url-never":
            threading.Event().wait()
        case _:
            write(json.dumps({"url": url}) + "\n")
    if kind == "stdout":
        threading.Thread(target=flood, daemon=True).start()
    server.serve_forever()


def flood() -> None:
    for _ in range(200):
        write("x" * 1024 * 1024)
