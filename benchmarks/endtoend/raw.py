"""Clients that do the least that can be done: they write JSON, and read the JSON that is answered.

What they wait for is the server's work and the way there and back. Revision 2026-07-28 needs no handshake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from select import select
from typing import Any, Final

from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

__all__ = ["RawHTTP", "RawStdio", "opened_stdio"]

_ROOT: Final = Path(__file__).parents[2]
_DEADLINE_SECONDS: Final = 120
"""For one answer; the first search has to wait until the tools are indexed."""
_END_SECONDS: Final = 20

_ENVELOPE: Final[Mapping[str, Any]] = {
    PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    CLIENT_INFO_META_KEY: {"name": "benchmark", "version": "0"},
    CLIENT_CAPABILITIES_META_KEY: {"extensions": {EXTENSION_ID: {}}},
}


class RawStdio:
    """One end of a server's pipes, by their descriptors."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._ids = count()
        self._read = bytearray()

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the result, and how many bytes the answer had.

        Raises:
            RuntimeError: The server refused, has ended or takes too long.
        """
        line = _request(next(self._ids), method, params) + b"\n"
        os.write(self._requests, line)
        answer = self._line()
        return _result(answer), len(answer)

    def _line(self) -> bytes:
        searched = 0
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            ready, _, _ = select([self._answers], [], [], _DEADLINE_SECONDS)
            chunk = os.read(self._answers, 1 << 16) if ready else b""
            if not chunk:
                raise RuntimeError("the server has ended" if ready else "the server takes too long")
            self._read += chunk
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line


class RawHTTP:
    """One connection, which is kept open until it is closed.

    Args:
        port: Where the server is on this machine.
        path: Of its endpoint.
    """

    def __init__(self, port: int, path: str = "/mcp") -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_SECONDS)
        self._path = path
        self._ids = count()
        self.sent_bytes = 0
        """Of the JSON of all requests so far."""

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the result, and how many bytes the answer had.

        Raises:
            RuntimeError: The server refused.
            OSError: It has ended or takes too long.
        """
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": LATEST_MODERN_VERSION,
            "mcp-method": method,
            **({"mcp-name": params["name"]} if method == "tools/call" else {}),
        }
        body = _request(next(self._ids), method, params)
        self.sent_bytes += len(body)
        self._connection.request("POST", self._path, body, headers)
        answer = self._connection.getresponse().read()
        return _result(answer), len(answer)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def opened_stdio(argv: Sequence[str]) -> Generator[RawStdio]:
    """Start a server on stdio; it ends with the context."""
    command = [sys.executable, *argv]
    (server_reads, requests), (answers, server_writes) = os.pipe(), os.pipe()
    process = subprocess.Popen(  # noqa: S603 - a command of this benchmark
        command, cwd=_ROOT, stdin=server_reads, stdout=server_writes, stderr=subprocess.DEVNULL
    )
    os.close(server_reads)
    os.close(server_writes)
    try:
        yield RawStdio(requests, answers)
    finally:
        os.close(requests)
        os.close(answers)
        process.terminate()
        process.wait(_END_SECONDS)


def _request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": _ENVELOPE}}
    return json.dumps(message, separators=(",", ":")).encode()


def _result(answer: bytes) -> dict[str, Any]:
    # An answer that took long may come as an event of a stream, after events that only keep the connection.
    lines = [line.removeprefix(b"data:") for line in answer.splitlines() if line.startswith(b"data:")]
    message = json.loads(lines[-1] if lines else answer)
    if "result" not in message:
        raise RuntimeError(f"the server refused: {message.get('error')}")
    return message["result"]
