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
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from .hostile import ENDS, RESULTS, result_of

if TYPE_CHECKING:
    from .hostile import Hostile

Json = dict[str, Any]
CHUNK: Final = 65536
DRIP_SECONDS: Final = 0.05


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


JSON: Final = "Content-Type: application/json"
EVENTS: Final = "Content-Type: text/event-stream"


NOTE: Final = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'


def redirects(to: str, status: str = "307 Temporary Redirect") -> Iterator[bytes]:
    yield head(f"Location: {to}", "Content-Length: 0", status=status)


def endless(begin: bytes, chunk: bytes, seconds: float = 0) -> Iterator[bytes]:
    yield begin
    while True:
        time.sleep(seconds)
        yield chunk


def whole(kind: str, body: bytes, *headers: str, status: str = "200 OK") -> Iterator[bytes]:
    yield head(f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers, status=status) + body


def of_length(length: int, body: bytes) -> Iterator[bytes]:
    yield head(JSON, f"Content-Length: {length}") + body


def events(number: Any, before: bytes, after: bytes = b"") -> Iterator[bytes]:
    """Send an event stream that ends, with the response at its place."""
    yield head(EVENTS, "Connection: close") + before + b"data: " + answer(number) + after


def answer(number: Any) -> bytes:
    result: Json = {"tools": [], "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


def gone() -> bytes:
    return b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'


@cache
def bomb() -> bytes:
    return gzip.compress(b"[" + b" " * (200 * 1024 * 1024) + b"]", 9)


def cut_off(number: Any) -> Iterator[bytes]:
    yield head(JSON, "Content-Length: 1000") + answer(number)[:20]


def chunked(*chunks: bytes) -> Iterator[bytes]:
    yield head(JSON, "Transfer-Encoding: chunked") + b"".join(chunks)


def silent() -> Iterator[bytes]:
    threading.Event().wait()
    yield b""


PING: Final = b'data: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n'
SIZE: Final = 2_000_000_000

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
    "redirect-permanent": lambda number, url: redirects(url, "301 Moved Permanently"),
    "redirect-empty": lambda number, url: redirects("", "302 Found"),
    "redirect-port": lambda number, url: redirects("http://127.0.0.1:99999999/mcp"),
    "redirect-names": lambda number, url: redirects("http://xn--\u00e9.\u00e9..example/" + "x" * 20_000),
    "no-content": lambda number, url: whole("", b"", status="204 No Content"),
    "not-modified": lambda number, url: whole("", b"", status="304 Not Modified"),
    "accepted": lambda number, url: whole("", b"", status="202 Accepted"),
    "gone": lambda number, url: whole("text/plain", b"gone", status="404 Not Found"),
    "gone-by-error": lambda number, url: whole("application/json", gone(), status="404 Not Found"),
    "unauthorized": lambda number, url: whole(
        "text/plain",
        b"who?",
        'WWW-Authenticate: Bearer resource_metadata="http://127.0.0.1/\x9b2J"',
        status="401 Unauthorized",
    ),
    "overloaded": lambda number, url: whole(
        "text/html", b"<html>", "Retry-After: 1e9", status="503 Service Unavailable"
    ),
    "status-199": lambda number, url: whole("application/json", answer(number), status="199 Odd"),
    "status-99": lambda number, url: whole("application/json", answer(number), status="099 Odd"),
    "status-1000": lambda number, url: whole("application/json", answer(number), status="1000 Odd"),
    "status-text": lambda number, url: whole("application/json", answer(number), status="OK"),
    "switching": lambda number, url: endless(
        head("Upgrade: websocket", status="101 Switching Protocols"), b"\x00" * CHUNK
    ),
    "continue": lambda number, url: endless(b"", head(status="100 Continue") * 1000, DRIP_SECONDS),
    "multipart": lambda number, url: whole('multipart/mixed; boundary="x', answer(number)),
    "events-promised": lambda number, url: whole("text/event-stream", answer(number)),
    "events-hidden": lambda number, url: whole("application/json", b"data: " + answer(number) + b"\n\n"),
    "charset": lambda number, url: whole("application/json; charset=utf-16", answer(number).decode().encode("utf-16")),
    "charset-unknown": lambda number, url: whole("application/json; charset=\x80\xff", answer(number)),
    "events-half": lambda number, url: events(number, b""),
    "events-endless-line": lambda number, url: endless(head(EVENTS), b"data: " + b"x" * CHUNK),
    "events-endless-data": lambda number, url: endless(head(EVENTS), b"data: " + b"x" * CHUNK + b"\n"),
    "events-garbage": lambda number, url: events(number, b"data: \xff\xfe\n\n", b"\n\n"),
    "events-notifications": lambda number, url: endless(head(EVENTS), NOTE * 1000),
    "events-pings": lambda number, url: endless(head(EVENTS), PING * 10),
    "events-late": lambda number, url: endless(head(EVENTS), NOTE, DRIP_SECONDS),
    "body-huge": lambda number, url: endless(head(JSON, f"Content-Length: {SIZE}"), b" " * CHUNK),
    "body-cut-off": lambda number, url: cut_off(number),
    "length-negative": lambda number, url: of_length(-1, answer(number)),
    "length-zero": lambda number, url: of_length(0, answer(number)),
    "length-twice": lambda number, url: whole("application/json", answer(number), "Content-Length: 7"),
    "chunks-broken": lambda number, url: chunked(b"zz\r\n", answer(number)),
    "chunks-negative": lambda number, url: chunked(b"-5\r\n", answer(number)),
    "chunks-huge": lambda number, url: chunked(b"ffffffffffffffff\r\n", answer(number)),
    "chunks-endless": lambda number, url: endless(head(JSON, "Transfer-Encoding: chunked"), b"1\r\n \r\n" * 8000),
    "header-huge": lambda number, url: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x" * CHUNK),
    "header-odd": lambda number, url: whole("application/json", answer(number), "X\x00: \xff", ": 7", "Y"),
    "session-odd": lambda number, url: whole("application/json", answer(number), "Mcp-Session-Id: \xff\xfe\x80 7"),
    "session-long": lambda number, url: whole("application/json", answer(number), f"Mcp-Session-Id: {'s' * 50_000}"),
    "cookie-odd": lambda number, url: whole("application/json", answer(number), "Set-Cookie: \xff=\x80; expires=never"),
    "old-http": lambda number, url: iter((answer(number),)),
    "http-2": lambda number, url: iter((b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x12\x04" * 10,)),
    "closed": lambda number, url: iter((b"",)),
    "mute": lambda number, url: silent(),
}
"""What is sent over HTTP, of the id of a request and the address of the server."""


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
        kind = self._bytes_of_kind()
        if kind is not None and self.hostile.is_its_moment(message):
            self.close_connection = True
            try:
                for chunk in kind(message["id"], self.url):
                    self.wfile.write(chunk)
            except OSError:
                return
        elif (sent := self.hostile.altered(message)) is not None:
            self._answer(sent)
        else:
            response = self.hostile.respond(message)
            self._answer(json.dumps(response).encode() if response is not None else None)

    def _bytes_of_kind(self) -> Callable[[Any, str], Iterator[bytes]] | None:
        if (own := KINDS.get(self.kind)) is not None:
            return own
        if (value := RESULTS.get(self.kind)) is not None:
            return lambda number, url: whole("application/json", result_of(number, value()))
        ends = ENDS.get(self.kind)
        return ends and (lambda number, url: ends(number))

    def do_DELETE(self) -> None:
        self._answer(None)

    def _answer(self, body: bytes | None) -> None:
        self.send_response(200 if body is not None else 202)
        body = body or b""
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
