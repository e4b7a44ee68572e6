"""The miniature client's two transports: a child's streams, and an HTTP endpoint. Threads read what comes unasked."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, Final
from urllib.parse import urlsplit

Json = dict[str, Any]
Notified = Callable[[Json], None]
IsAnswer = Callable[[Json, Json], bool]

SECONDS: Final = 3


class TransportError(Exception):
    """No answer came."""


class SilentError(TransportError):
    """No answer came in time."""


class StdioTransport:
    def __init__(self, argv: list[str], env: dict[str, str], notified: Notified, is_answer: IsAnswer) -> None:
        self._child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}, bufsize=0
        )
        self._notified = notified
        self._is_answer = is_answer
        self._answers: list[Json] = []
        self._abandoned: list[Any] = []
        self._news = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def request(self, message: Json, headers: dict[str, str]) -> Json:
        self._write(message)
        with self._news:
            answer = self._news.wait_for(lambda: self._answer_to(message) or self._is_over(message), SECONDS)
            if not isinstance(answer, dict):
                raise (TransportError if answer else SilentError)(f"no answer to {message['method']}")
            return answer

    def notify(self, message: Json, headers: dict[str, str]) -> None:
        self._write(message)

    def listen(self, message: Json | None, headers: dict[str, str]) -> None:
        if message is not None:
            self._write(message)

    def abandon(self, number: Any) -> None:
        """Wait no longer for the answer to a request."""
        with self._news:
            self._abandoned.append(number)
            self._news.notify_all()

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(SECONDS)

    def lines(self, stdout: IO[bytes]) -> Iterator[bytes]:
        yield from iter(stdout.readline, b"")

    def _answer_to(self, message: Json) -> Json | None:
        for each in self._answers:
            if self._is_answer(message, each):
                self._answers.remove(each)
                return each
        return None

    def _is_over(self, message: Json) -> bool:
        return self._ended or message["id"] in self._abandoned

    def _write(self, message: Json) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise TransportError("the server is gone") from error

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self.lines(self._child.stdout):
            try:
                message: Any = json.loads(line)
            except ValueError:
                continue
            if "method" in message:
                self._notified(message)
                continue
            with self._news:
                self._answers.append(message)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class HttpTransport:
    def __init__(self, url: str, notified: Notified, is_answer: IsAnswer) -> None:
        self._address = urlsplit(url)
        self._notified = notified
        self._is_answer = is_answer
        self._sockets: dict[Any, socket.socket | None] = {}
        self._idle: list[http.client.HTTPConnection] = []
        self._session: dict[str, str] = {}
        self._streams: list[http.client.HTTPConnection] = []
        self.status = 200
        """The status of the last response."""

    def request(self, message: Json, headers: dict[str, str]) -> Json:
        for each in self._exchange(message, headers):
            if "method" in each:
                self._notified(each)
            elif self._is_answer(message, each):
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

    def abandon(self, number: Any) -> None:
        """End the response stream of a request."""
        if (connected := self._sockets.get(number)) is not None:
            with suppress(OSError):  # it has ended
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for connection in (*self._streams, *self._idle):
            if connection.sock is not None:
                connection.sock.close()

    def _read(self, response: http.client.HTTPResponse) -> None:
        with suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            for message in self.events(response):
                self._notified(message)

    def _exchange(self, message: Json, headers: dict[str, str]) -> Iterator[Json]:
        connection = self._idle.pop() if self._idle else self._connection(SECONDS)
        is_read = False
        try:
            if connection.sock is None:
                connection.connect()
            self._sockets[message.get("id")] = connection.sock  # so that it can be abandoned once it is sent
            self._send(connection, message, headers)
            response = connection.getresponse()
            self.status = response.status
            if session := response.headers.get("Mcp-Session-Id"):
                self._session = {"Mcp-Session-Id": session}
            if response.headers.get_content_type() == "text/event-stream":
                yield from self.events(response)
            else:
                body, is_read = self.body(response), not response.will_close
                if body:
                    yield json.loads(body)
        except TimeoutError as error:
            raise SilentError(str(error)) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise TransportError(str(error)) from error
        finally:
            self._sockets.pop(message.get("id"), None)
            if is_read:
                self._idle.append(connection)
            else:
                connection.close()

    def _connection(self, seconds: float | None) -> http.client.HTTPConnection:
        assert self._address.hostname is not None
        return http.client.HTTPConnection(self._address.hostname, self._address.port, timeout=seconds)

    def _send(self, connection: http.client.HTTPConnection, message: Json | None, headers: dict[str, str]) -> None:
        accept = "text/event-stream" if message is None else "application/json, text/event-stream"
        dressed = {"Accept": accept, "Content-Type": "application/json", **self._session, **headers}
        body = None if message is None else json.dumps(message).encode()
        connection.request("GET" if message is None else "POST", self._address.path, body, dressed)

    def body(self, response: http.client.HTTPResponse) -> bytes:
        return response.read()

    def events(self, response: http.client.HTTPResponse) -> Iterator[Json]:
        name, data = b"", list[bytes]()
        for line in iter(response.readline, b""):
            field, _, value = line.rstrip(b"\r\n").partition(b":")
            if field == b"event":
                name = value.strip()
            elif field == b"data":
                data.append(value)
            elif not line.strip():
                if data and name in {b"", b"message"}:
                    yield json.loads(b"\n".join(data))
                name, data = b"", []
