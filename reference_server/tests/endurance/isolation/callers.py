"""Connections of a caller to a gateway: answers and notifications, byte for byte but for times."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

Era: TypeAlias = Literal["modern", "legacy"]

_VERSIONS: Final[Mapping[Era, str]] = {"modern": "2026-07-28", "legacy": "2025-11-25"}
_SECONDS: Final = 60
_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00)?")
_TOKEN: Final = re.compile(rb'(progressToken[\\\\"]*: [\\\\"]*)[0-9a-f]{32}')
"""A token of progress that a server repeats, where it is random; one that counts is compared."""
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PROCESS_HEADERS: Final = frozenset({"date", "mcp-session-id"})
_KEPT_SECONDS: Final = 2
"""How long an idle connection is used again: the gateway closes it after 5 s, and a request may just then be sent."""

_ENVELOPE: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "isolation", "version": "1"}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer without the parts that differ between any two: times, names of sessions, random tokens."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def messages(self) -> list[Any]:
        """The JSON values in the body."""
        lines = self.body.splitlines()
        data = [line[5:] for line in lines if line.startswith(b"data:")] or [self.body]
        return [json.loads(line) for line in data if line.strip()]

    @property
    def result(self) -> Mapping[str, Any]:
        """The result in it; empty where there is none."""
        results: list[dict[str, Any]] = [message["result"] for message in self.messages if "result" in message]
        return results[0] if results else {}


@dataclass
class Connection:
    """A caller's connection to one gateway.

    Args:
        url: Of its plain endpoint.
        token: The caller's.
    """

    url: str
    token: str
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    """Its sessions of the legacy era, by what follows the path of the plain endpoint."""

    def __post_init__(self) -> None:
        self._connection = self._connect()
        self._used = time.monotonic()
        self._last = ""

    def send(self, era: Era, mode: str, method: str, params: Mapping[str, Any]) -> None:
        """Send a request; `received` returns its answer.

        Args:
            era: In which to ask.
            mode: What follows the path of the plain endpoint, such as `/meta-tools`.
            method: Of the protocol.
            params: Its own parameters.
        """
        self._send(era, mode, {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)})

    def send_get(self, path: str) -> None:
        """Ask for a page that is no endpoint of the protocol."""
        self._kept().request("GET", path, headers={"Authorization": f"Bearer {self.token}"})

    def received(self) -> Answer:
        """Return the answer to what was sent last.

        Raises:
            OSError: There is none in time.
            HTTPException: What comes is none.
        """
        response = self._connection.getresponse()
        self._used = time.monotonic()
        self._last = response.headers.get("mcp-session-id") or ""
        body = _TOKEN.sub(rb"\1TOKEN", _TIME.sub(b"TIME", response.read()))
        headers = {
            name.lower(): value for name, value in response.headers.items() if name.lower() not in _PROCESS_HEADERS
        }
        return Answer(response.status, sorted(headers.items()), body)

    def asked(self, era: Era, mode: str, method: str, params: Mapping[str, Any]) -> Answer:
        """Send a request and return its answer."""
        self.send(era, mode, method, params)
        return self.received()

    def open_session(self, mode: str) -> Answer:
        """Open a session of the legacy era, which later requests of that era are part of; return its greeting."""
        params = {"protocolVersion": _VERSIONS["legacy"], "capabilities": {}, "clientInfo": _CLIENT}
        greeting = self.asked("legacy", mode, "initialize", params)
        self.sessions[mode] = self._last
        self._send("legacy", mode, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.received()
        return greeting

    def listen(self, era: Era, mode: str, uris: Sequence[str] = ()) -> Stream:
        """Return the notifications from now on; in the legacy era, in the session."""
        connection = self._connect(None)
        if era == "legacy":
            connection.request("GET", self._path(mode), headers=self._headers(era, mode))
        else:
            kinds = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
            wanted = {**dict.fromkeys(kinds, True), "resourceSubscriptions": list(uris)}
            message = {"id": 1, "method": "subscriptions/listen", "params": {"notifications": wanted}}
            self._send(era, mode, {"jsonrpc": "2.0", **message}, connection)
        return Stream(connection)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _kept(self) -> HTTPConnection:
        if time.monotonic() - self._used > _KEPT_SECONDS:
            self._connection.close()  # which the next request opens again
        self._used = time.monotonic()
        return self._connection

    def _connect(self, seconds: float | None = _SECONDS) -> HTTPConnection:
        parts = urlsplit(self.url)
        return HTTPConnection(parts.hostname or "", parts.port or 0, timeout=seconds)

    def _path(self, mode: str) -> str:
        return urlsplit(self.url).path + mode

    def _headers(self, era: Era, mode: str) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Mcp-Protocol-Version": _VERSIONS[era],
        }
        if era == "legacy" and mode in self.sessions:
            headers["Mcp-Session-Id"] = self.sessions[mode]
        return headers

    def _send(self, era: Era, mode: str, message: dict[str, Any], connection: HTTPConnection | None = None) -> None:
        headers = self._headers(era, mode)
        if message["method"] == "initialize":
            del headers["Mcp-Protocol-Version"]
            headers.pop("Mcp-Session-Id", None)
        if era == "modern":
            meta = {"protocolVersion": _VERSIONS[era], "clientInfo": _CLIENT, "clientCapabilities": {}}
            params = message["params"] | {"_meta": {_ENVELOPE + name: value for name, value in meta.items()}}
            message = message | {"params": params}
            headers["Mcp-Method"] = message["method"]
            if member := _NAMED_BY.get(message["method"]):
                headers["Mcp-Name"] = str(params[member])
        (connection or self._kept()).request("POST", self._path(mode), json.dumps(message).encode(), headers)


class Stream:
    """Collects the messages of one open answer."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._received: list[str] = []
        self.heard = time.monotonic()
        """When the last of them came."""
        self.began = threading.Event()
        """Set with the first of them, or where none can come."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def notifications(self) -> frozenset[str]:
        """Return the notifications, each once: those close together are merged."""
        with self._lock:
            return frozenset(self._received)

    def forget(self) -> None:
        """Drop the notifications so far."""
        with self._lock:
            self._received.clear()

    def close(self) -> None:
        """Stop collecting."""
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join(_SECONDS)
        self._connection.close()

    def _read(self) -> None:
        try:
            response = self._connection.getresponse()
            if response.headers.get("mcp-session-id"):
                self.began.set()
            while line := response.readline():
                if line.startswith(b"data:") and line[5:].strip():
                    with self._lock:
                        self._received.append(line[5:].decode().strip())
                        self.heard = time.monotonic()
                    self.began.set()
        except (HTTPException, OSError, ValueError):  # the end, which is ours
            pass
        finally:
            self.began.set()
