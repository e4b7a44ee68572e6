"""What a process takes of its machine, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2

__all__ = ["Footprint", "children", "footprint", "is_alive"]


@dataclass(frozen=True)
class Footprint:
    """At one moment."""

    processes: int
    """Its children, without those that have ended."""
    descriptors: int
    threads: int
    tasks: int
    """Of its event loop."""
    memory_mib: float
    """Resident."""

    def figures(self) -> dict[str, float]:
        """Return it in numbers."""
        return asdict(self)


async def footprint(process: int, url: str) -> Footprint:
    """Look at a gateway.

    Args:
        process: Its id.
        url: Where it serves.
    """
    async with httpx2.AsyncClient(trust_env=False) as http:
        health = (await http.get(url.replace("/mcp", "/healthz"), timeout=30)).json()
    status = _status(process)
    return Footprint(
        processes=len(children(process)),
        descriptors=len(os.listdir(f"/proc/{process}/fd")),  # noqa: PTH208 - counted, not read
        threads=int(status["Threads"]),
        tasks=int(health["tasks"]),
        memory_mib=round(int(status["VmRSS"].split()[0]) / 1024, 1),
    )


def _status(process: int) -> Mapping[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def children(process: int) -> Sequence[int]:
    """Return the ids of the child processes that run."""
    tasks = Path(f"/proc/{process}/task")
    ids = [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    return [child for child in ids if is_alive(child)]


def is_alive(process: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
