"""Many callers who search one catalog at once, over plain HTTP, while one process serves it or several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD

from benchmarks.overhead.measure import QUERIES, catalog
from benchmarks.overhead.ways import accepting, free_port

__all__ = ["Throughput", "throughput"]

_REVISION: Final = "2026-07-28"
_META: Final[Mapping[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": _REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "callers", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION_ID: {}}},
}
_HEAD_BYTES: Final = 65_536
_ANSWER_SECONDS: Final = 60
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Throughput:
    """What some replicas of a server did."""

    replicas: int
    callers: int
    searches_per_second: float
    p50_ms: float
    p95_ms: float
    processor_ms: float
    """Of all replicas together, for each search."""


async def throughput(replicas: int, *, tools: int, callers: int, seconds: float) -> Throughput:
    """Serve a catalog with some processes, of which each gets its part of the callers, and search it for a while.

    Raises:
        TimeoutError: A server does not start or answer.
        RuntimeError: An answer is none.
    """
    with TemporaryDirectory() as folder, ExitStack() as running:
        file = Path(folder) / "catalog.json"
        file.write_text(json.dumps({"tools": catalog(tools)}), encoding="utf-8")
        ports = [free_port() for _ in range(replicas)]
        processes = [running.enter_context(_serving(file, port)) for port in ports]
        for port in ports:
            await accepting(port)
            await _search_for(0, port)  # what is made once is made
        before = sum(map(_processor_seconds, processes))
        took: list[float] = []
        began = perf_counter()
        async with anyio.create_task_group() as group:
            for caller in range(callers):
                group.start_soon(_caller, seconds, ports[caller % replicas], took)
        elapsed = perf_counter() - began
        worked = sum(map(_processor_seconds, processes)) - before
    return Throughput(
        replicas=replicas,
        callers=callers,
        searches_per_second=len(took) / elapsed,
        p50_ms=1000 * median(took),
        p95_ms=1000 * quantiles(took, n=20)[-1],
        processor_ms=1000 * worked / len(took),
    )


@contextmanager
def _serving(file: Path, port: int) -> Generator[int]:
    """Serve a catalog, and give the number of the process; it ends with the context."""
    argv = [sys.executable, "-m", "tools_search_server", "--catalog", str(file), "--http", f"127.0.0.1:{port}"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - of this benchmark
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


async def _caller(seconds: float, port: int, took: list[float]) -> None:
    took += await _search_for(seconds, port)


async def _search_for(seconds: float, port: int) -> Sequence[float]:
    """Search over one connection, once at least, and return how long each search took."""
    took: list[float] = []
    end = perf_counter() + seconds
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        answers = BufferedByteReceiveStream(stream)
        while not took or perf_counter() < end:
            began = perf_counter()
            with anyio.fail_after(_ANSWER_SECONDS):
                await stream.send(_request(QUERIES[len(took) % len(QUERIES)], port))
                head = await answers.receive_until(b"\r\n\r\n", _HEAD_BYTES)
                body = await answers.receive_exactly(int(_header(head, b"content-length")))
            took.append(perf_counter() - began)
            if b'"tools":[{' not in body:
                raise RuntimeError(f"not what a search answers: {body[:200]!r}")
    return took


def _request(query: str, port: int) -> bytes:
    params: dict[str, Any] = {"query": query, "_meta": _META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params}).encode()
    headers = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": _REVISION,
        "Mcp-Method": METHOD,
    }
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value
    raise RuntimeError(f"an answer without {name.decode()}: {head!r}")


def _processor_seconds(process: int) -> float:
    """Return the processor time that a process has taken, in all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
