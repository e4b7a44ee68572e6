"""Servers in separate processes, and connections to them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from subprocess import DEVNULL
from time import perf_counter
from typing import Any, Final

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

ROOT: Final = Path(__file__).parents[1]
_START_SECONDS: Final = 60
_ANSWER_SECONDS: Final = 120
"""In seconds. Long, because the first search has to wait until the tools are indexed."""

_ENVELOPE: Final[Mapping[str, Any]] = {
    PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    CLIENT_INFO_META_KEY: {"name": "benchmark", "version": "0"},
    CLIENT_CAPABILITIES_META_KEY: {"extensions": {EXTENSION_ID: {}}},
}


@asynccontextmanager
async def connected(argv: Sequence[str]) -> AsyncGenerator[Client]:
    """Start a server on stdio and connect to it."""
    parameters = StdioServerParameters(command=argv[0], args=list(argv[1:]), env=dict(os.environ), cwd=str(ROOT))
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - this file opens at once
        async with Client(stdio_client(parameters, errlog=nowhere), extensions=[TOOLS_SEARCH]) as client:
            yield client


@asynccontextmanager
async def serving(argv: Sequence[str], port: int) -> AsyncGenerator[str]:
    """Start a server over HTTP, wait until it listens, and yield its URL; it ends with the context."""
    process = await anyio.open_process(argv, cwd=ROOT, stdin=None, stdout=DEVNULL, stderr=DEVNULL)
    try:
        with anyio.fail_after(_START_SECONDS):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await anyio.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        with suppress(ProcessLookupError):  # it has already exited
            process.terminate()
        with anyio.CancelScope(shield=True), anyio.fail_after(20):
            await process.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Traffic:
    """Requests, and their cost on the wire."""

    requests: int = 0
    bytes: int = 0
    """Bytes of JSON in both directions."""

    seconds: float = 0.0


class Wire:
    """A minimal HTTP client that writes JSON and reads the JSON answers.

    Its time is the server's work and the round trip. Revision 2026-07-28 needs no handshake. `traffic` can be replaced
    at any time.

    Args:
        port: The server's port on this machine.
        path: The endpoint's path.
    """

    def __init__(self, port: int, path: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
        self._path = path
        self.traffic = Traffic()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's result.

        Raises:
            RuntimeError: The server refused the request.
            OSError: The server has exited or takes too long.
        """
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": LATEST_MODERN_VERSION,
            "mcp-method": method,
            **({"mcp-name": params["name"]} if method == "tools/call" else {}),
        }
        began = perf_counter()
        request = {
            "jsonrpc": "2.0",
            "id": self.traffic.requests,
            "method": method,
            "params": {**params, "_meta": _ENVELOPE},
        }
        body = json.dumps(request, separators=(",", ":")).encode()
        self._connection.request("POST", self._path, body, headers)
        answer = self._connection.getresponse().read()
        # A slow answer can arrive as an event in a stream, after keep-alive events.
        events = [line.removeprefix(b"data:") for line in answer.splitlines() if line.startswith(b"data:")]
        message = json.loads(events[-1] if events else answer)
        self.traffic.seconds += perf_counter() - began
        self.traffic.bytes += len(body) + len(answer)
        self.traffic.requests += 1
        if "result" not in message:
            raise RuntimeError(f"the server refused: {message.get('error')}")
        return message["result"]

    def listed(self) -> list[dict[str, Any]]:
        """Return the tools on all pages of the list."""
        page = self.ask("tools/list", {})
        tools: list[dict[str, Any]] = page["tools"]
        while (cursor := page.get("nextCursor")) is not None:
            page = self.ask("tools/list", {"cursor": cursor})
            tools += page["tools"]
        return tools

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
