"""Gateways in processes of their own, and the resources that a process holds."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

_START_SECONDS: Final = 120
_STOP_SECONDS: Final = 20
_ANSWER_SECONDS: Final = 60


@dataclass(frozen=True)
class Gateway:
    """A gateway that serves HTTP on loopback."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    async def health(self) -> dict[str, Any]:
        """Return the answer of `/healthz`."""
        async with httpx2.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as http:
            return (await http.get(self.url.replace("/mcp", "/healthz"))).json()

    async def until(self, is_ready: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for an answer of `/healthz`.

        Raises:
            TimeoutError: None comes in time.
        """
        with anyio.fail_after(_START_SECONDS):
            while not is_ready(await self.health()):  # noqa: ASYNC110 - another process sets no events
                await anyio.sleep(0.1)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code; it is killed where it takes too long."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode

    def logged_error(self) -> str:
        """Return the beginning of the first traceback in its log, or nothing."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return text[text.index("Traceback") :][:2_000] if "Traceback" in text else ""


@contextmanager
def running_gateway(configuration: Path, *options: str, env: Mapping[str, str] | None = None) -> Generator[Gateway]:
    """Start a gateway over the servers of a configuration; its log is written next to that file.

    Raises:
        RuntimeError: It does not start.
    """
    argv = [sys.executable, "-m", "tools_search_server", "--http", "127.0.0.1:0", "--config", str(configuration)]
    log = configuration.with_suffix(".log")
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            [*argv, *options], stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **(env or {})}
        )
    gateway = Gateway(process, "", log)
    try:
        if process.stdout is None or not (line := process.stdout.readline()):
            raise RuntimeError(f"a gateway does not start: {log.read_text(encoding='utf-8')}")
        yield Gateway(process, json.loads(line)["url"], log)
    finally:
        gateway.stop()


@dataclass(frozen=True)
class Footprint:
    """The resources of a gateway at one moment."""

    processes: int
    """Its children, without those that have ended."""
    descriptors: int
    threads: int
    tasks: int
    """The tasks of its event loop."""
    memory_mib: float
    """Resident."""


async def footprint(gateway: Gateway) -> Footprint:
    """Return the resources that a gateway holds now."""
    pid = gateway.process.pid
    return Footprint(
        processes=len(children(pid)),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - counted, not read
        threads=int(_status(pid)["Threads"]),
        tasks=int((await gateway.health())["tasks"]),
        memory_mib=resident_mib(pid),
    )


def resident_mib(pid: int) -> float:
    """Return the memory of a process that is in use; 0 where it has ended."""
    return round(int(_status(pid).get("VmRSS", "0").split()[0]) / 1024, 1)


def children(pid: int) -> Sequence[int]:
    """Return the ids of the child processes that run."""
    ids = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [child for child in ids if is_running(child)]


def kill_child(pid: int, argument: str) -> None:
    """Kill the child processes with `argument` as the last one of their command lines."""
    for child in children(pid):
        if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[-2] == argument.encode():
            os.kill(child, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def write_entries(file: Path, entries: Mapping[str, Any]) -> None:
    """Write the configuration of a gateway over these servers."""
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens at."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _status(pid: int) -> Mapping[str, str]:
    return dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
