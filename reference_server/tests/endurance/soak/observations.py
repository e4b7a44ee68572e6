"""What the callers of a soak have seen: operations that were right, excused and wrong, and outages of servers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Final

import anyio

_KEPT: Final = 50
"""Failures that are described; all are counted."""


@dataclass
class Outage:
    """The time in which a server need not answer: from its end until it has answered again."""

    server: str
    start: float
    end: float = math.inf


@dataclass
class Observations:
    """Collected while the soak runs."""

    done: Counter[str] = field(default_factory=Counter[str])
    """Operations with the right outcome, by kind."""

    excused: Counter[str] = field(default_factory=Counter[str])
    """Operations that failed while the server was down, by kind."""

    failures: list[str] = field(default_factory=list[str])
    failed: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    outages: list[Outage] = field(default_factory=list[Outage])

    def succeed(self, kind: str, began: float) -> None:
        """Note an operation with the right outcome."""
        self.done[kind] += 1
        self.seconds.setdefault(kind, []).append(anyio.current_time() - began)

    def fail(self, what: str) -> None:
        """Note what must not happen."""
        self.failed += 1
        if len(self.failures) < _KEPT:
            self.failures.append(what)

    def begin_outage(self, server: str) -> Outage:
        """Note that a server is about to be ended."""
        outage = Outage(server, anyio.current_time())
        self.outages.append(outage)
        return outage

    def was_down(self, server: str, since: float) -> bool:
        """Return whether a server was down at any time from `since` until now."""
        return any(outage.end >= since for outage in self.outages if outage.server == server)

    def any_was_down(self, since: float) -> bool:
        """Return whether any server was down at any time from `since` until now."""
        return any(outage.end >= since for outage in self.outages)

    def recoveries(self) -> Sequence[float]:
        """Return how long servers were down, in seconds."""
        return [outage.end - outage.start for outage in self.outages if outage.end < math.inf]

    def figures(self) -> dict[str, Any]:
        """Return all of it in numbers."""
        return {
            "done": dict(self.done),
            "excused": dict(self.excused),
            "failed": self.failed,
            "failures": self.failures,
            "outages": len(self.outages),
            "downSeconds": _spread(self.recoveries()),
            "milliseconds": {kind: _spread([1000 * own for own in took]) for kind, took in self.seconds.items()},
        }


def _spread(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"max": round(max(values, default=0), 1)}
    cuts = quantiles(values, n=100)
    return {
        "median": round(cuts[49], 1),
        "p95": round(cuts[94], 1),
        "p99": round(cuts[98], 1),
        "max": round(max(values), 1),
    }
