"""Ways to the same server: directly, through the gateway, and through FastMCP's proxy; on stdio and over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_ext_tools_search.client import TOOLS_SEARCH

__all__ = ["WAYS", "accepting", "argv_of", "connected", "free_port", "opened", "running"]

WAYS: Final = ("direct", "gateway", "fastmcp")

_ROOT: Final = Path(__file__).parents[2]
_NOWHERE: Final = Path(os.devnull).open("w")  # noqa: SIM115 - open as long as the program runs
_START_SECONDS: Final = 60


def argv_of(way: str, folder: Path, upstream: dict[str, Any], port: int | None) -> list[str]:
    """Return the command that serves the upstream's tools in one way, on stdio or at a port.

    Args:
        way: One of `WAYS`.
        folder: Where a configuration may be written.
        upstream: The entry of the server behind.
        port: Where to serve HTTP; `None` for stdio.
    """
    file = folder / f"{way}.json"
    file.write_text(json.dumps({"mcpServers": {"echo": upstream}}), encoding="utf-8")
    at = [] if port is None else [str(port)]
    match way:
        case "direct":
            return [sys.executable, "-m", "benchmarks.overhead.upstream", *at]
        case "gateway":
            http = [] if port is None else ["--http", f"127.0.0.1:{port}"]
            return [sys.executable, "-m", "tools_search_server", "--config", str(file), *http]
        case _:
            return [sys.executable, "-m", "benchmarks.overhead.fastmcp_proxy", str(file), *at]


@asynccontextmanager
async def connected(argv: Sequence[str]) -> AsyncGenerator[Client]:
    """Start a server on stdio and connect to it."""
    parameters = StdioServerParameters(command=argv[0], args=list(argv[1:]), env=dict(os.environ), cwd=str(_ROOT))
    async with opened(stdio_client(parameters, errlog=_NOWHERE)) as client:
        yield client


@asynccontextmanager
async def opened(target: Any) -> AsyncGenerator[Client]:
    """Connect to a server."""
    async with Client(target, extensions=[TOOLS_SEARCH]) as client:
        yield client


@contextmanager
def running(argv: Sequence[str], port: int) -> Generator[str]:
    """Start a server over HTTP and give its URL; it ends with the context."""
    process = subprocess.Popen(argv, cwd=_ROOT, stdout=_NOWHERE, stderr=_NOWHERE)  # noqa: S603 - commands of this benchmark
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(20)


async def accepting(port: int) -> None:
    """Wait until something listens at a port."""
    with anyio.fail_after(_START_SECONDS):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.02)
            else:
                await stream.aclose()
                return


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
