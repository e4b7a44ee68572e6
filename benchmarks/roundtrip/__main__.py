"""The cost of a search on stdio compared with a request that does nothing: `python -m benchmarks.roundtrip`.

The client writes a line and reads a line, so this measures the server and the round trip. Requests take turns, so that
other load on the machine affects all equally. On a busy machine, compare the processor time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import IO, Any, Final, cast

import click
from mcp_ext_tools_search.types import METHOD
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from benchmarks.options import json_option, write_figures
from benchmarks.overhead.__main__ import catalog
from benchmarks.processes import ENVELOPE, ROOT

_QUERIES: Final = (
    "resize a photo", "export the invoices", "restart the cluster", "forecast the weather", "close ticket",
    "delete orders of a region", "which sensors are there", "assign a mailbox to a repository", "payroll limit",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The cost of a request."""

    seconds: float
    processor: float
    """The server's processor time in seconds; 0 if the system does not report it."""

    size: int
    """The answer's size in bytes."""


class Server:
    """A catalog server on stdio, and the connection to it.

    Args:
        file: The catalog.
        is_modern: Whether to use revision 2026-07-28, with metadata in each request instead of a handshake.
    """

    def __init__(self, file: Path, *, is_modern: bool) -> None:
        argv = [sys.executable, "-m", "tools_search_server", "--catalog", str(file)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=nowhere, cwd=ROOT)  # noqa: S603
        self._input, self._output = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._ids = count()
        self._envelope = {"_meta": ENVELOPE} if is_modern else {}
        if not is_modern:
            who = {"name": "benchmark", "version": "0"}
            self.ask("initialize", {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": who})
            self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, Any]) -> Cost:
        """Send a request and wait for its answer.

        Raises:
            RuntimeError: The server refused it or exited.
        """
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": {**params, **self._envelope}}
        worked, began = self._processor(), perf_counter()
        self._write(request)
        answer = self._output.readline()
        seconds, worked = perf_counter() - began, self._processor() - worked
        if "result" not in (json.loads(answer) if answer else {}):
            raise RuntimeError(f"the server did not answer {method}: {answer[:200]!r}")
        return Cost(seconds, worked, len(answer))

    def close(self) -> None:
        """End the server."""
        self._process.communicate()

    def _write(self, message: Mapping[str, Any]) -> None:
        self._input.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        self._input.flush()

    def _processor(self) -> float:
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def roundtrips(server: Server, nothing: str, requests: int) -> Mapping[str, Sequence[Cost]]:
    """Return the costs of `requests` turns of three requests: nothing, a search with limit 10, and one with limit 1."""
    costs: dict[str, list[Cost]] = {nothing: [], "ten tools": [], "one tool": []}
    for turn in range(-1, requests):
        query = _QUERIES[turn % len(_QUERIES)]
        turns = {nothing: server.ask(nothing, {})}
        turns["ten tools"] = server.ask(METHOD, {"query": query, "limit": 10})
        turns["one tool"] = server.ask(METHOD, {"query": query, "limit": 1})
        if turn >= 0:  # the first request waits until the tools are indexed
            for way, cost in turns.items():
                costs[way].append(cost)
    return costs


@click.command()
@click.option("--tools", type=click.IntRange(10), default=10_000, show_default=True, help="Number of tools to search.")
@click.option("--requests", type=click.IntRange(1), default=500, show_default=True, help="Of each kind.")
@json_option
def main(tools: int, requests: int, json_file: Path | None) -> None:
    """Measure a search over many tools and a request that does nothing, on stdio, in both protocol eras."""
    figures: dict[str, Any] = {}
    with TemporaryDirectory() as name:
        file = Path(name) / "catalog.json"
        file.write_text(json.dumps({"tools": catalog(tools)}), encoding="utf-8")
        for era, is_modern, nothing in (("legacy", False, "ping"), ("modern", True, "server/discover")):
            server = Server(file, is_modern=is_modern)
            try:
                costs = roundtrips(server, nothing, requests)
            finally:
                server.close()
            for way, own in costs.items():
                figures[f"{era}, {way}"] = _figures(own, costs[nothing])
    write_figures(figures, _lines, json_file)


def _lines(figures: Mapping[str, Any]) -> str:
    form = "{:24} {ms:7.3f} ms {times:5.2f} times  processor {processor_ms:7.3f} ms {processor_times:5.2f} times"
    return "\n".join(f"{form.format(row, **own)}  {own['size']} bytes" for row, own in figures.items())


def _figures(costs: Sequence[Cost], nothing: Sequence[Cost]) -> dict[str, Any]:
    seconds, processor = [cost.seconds for cost in costs], [cost.processor for cost in costs]
    return {
        "ms": 1000 * median(seconds),
        "times": median(seconds) / median(cost.seconds for cost in nothing),
        "processor_ms": 1000 * median(processor),
        "processor_times": median(processor) / (median(cost.processor for cost in nothing) or float("nan")),
        "size": round(median(cost.size for cost in costs)),
    }


if __name__ == "__main__":
    main()
