"""The miniature client's two transports: a child's streams, and an HTTP endpoint. Threads read what comes unasked."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

Json = dict[str, Any]
Told = Callable[[Json], None]

SECONDS: Final = 5


class TransportError(Exception):
    """No answer came."""


class StdioTransport:
    def __init__(self, argv: list[str], env: dict[str, str], told: Told) -> None:
        self._child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}, bufsize=0
        )
        self._told = told
        self._answers: dict[Any, Json] = {}
        self._news = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def request(self, message: Json, headers: dict[str, str]) -> Json:
        self._write(message)
        with self._news:
            self._news.wait_for(lambda: message["id"] in self._answers or self._ended, SECONDS)
            if message["id"] not in self._answers:
                raise TransportError(f"no answer to {message['method']}")
            return self._answers.pop(message["id"])

    def notify(self, message: Json, headers: dict[str, str]) -> None:
        self._write(message)

    def listen(self, message: Json | None, headers: dict[str, str]) -> None:
        if message is not None:
            self._write(message)

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(SECONDS)

    def _write(self, message: Json) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise TransportError("the server is gone") from error

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in iter(self._child.stdout.readline, b""):
            try:
                message: Any = json.loads(line)
            except ValueError:
                continue
            if "method" in message:
                self._told(message)
                continue
            with self._news:
                self._answers[message.get("id")] = message
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class HttpTransport:
    def __init__(self, url: str, told: Told) -> None:
        self._address = urlsplit(url)
        self._told = told
        self._session: dict[str, str] = {}
        self._streams: list[http.client.HTTPConnection] = []

    def request(self, message: Json, headers: dict[str, str]) -> Json:
        for each in self._exchange(message, headers):
            if "method" in each:
                self._told(each)
            elif each.get("id") == message["id"]:
                return each
        raise TransportError(f"no answer to {message['method']}")

    def notify(self, message: Json, headers: dict[str, str]) -> None:
        for _ in self._exchange(message, headers):
            pass

    def listen(self, message: Json | None, headers: dict[str, str]) -> None:
        connection = self._connection(None)
        self._streams.append(connection)
        self._send(connection, message, headers)
        response = connection.getresponse()
        threading.Thread(target=self._read, args=(response,), daemon=True).start()

    def close(self) -> None:
        for connection in self._streams:
            if connection.sock is not None:
                connection.sock.close()

    def _read(self, response: http.client.HTTPResponse) -> None:
        with suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            for message in _events(response):
                self._told(message)

    def _exchange(self, message: Json, headers: dict[str, str]) -> Iterator[Json]:
        connection = self._connection(SECONDS)
        try:
            self._send(connection, message, headers)
            response = connection.getresponse()
            if session := response.headers.get("Mcp-Session-Id"):
                self._session = {"Mcp-Session-Id": session}
            if response.headers.get_content_type() == "text/event-stream":
                yield from _events(response)
            elif body := response.read():
                yield json.loads(body)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise TransportError(str(error)) from error
        finally:
            connection.close()

    def _connection(self, seconds: float | None) -> http.client.HTTPConnection:
        assert self._address.hostname is not None
        return http.client.HTTPConnection(self._address.hostname, self._address.port, timeout=seconds)

    def _send(self, connection: http.client.HTTPConnection, message: Json | None, headers: dict[str, str]) -> None:
        accept = "text/event-stream" if message is None else "application/json, text/event-stream"
        dressed = {"Accept": accept, "Content-Type": "application/json", **self._session, **headers}
        body = None if message is None else json.dumps(message).encode()
        connection.request("GET" if message is None else "POST", self._address.path, body, dressed)


def _events(response: http.client.HTTPResponse) -> Iterator[Json]:
    for line in iter(response.readline, b""):
        if line.startswith(b"data:"):
            yield json.loads(line[5:])
