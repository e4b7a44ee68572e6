"""The servers of a soak, their tools and answers, and the ledger of what happened."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import quantiles
from typing import Any, Final, Literal, TypeAlias

import anyio

Era: TypeAlias = Literal["modern", "legacy"]
TOPICS: Final[Sequence[str]] = (
    "weather", "invoice", "calendar", "parcel", "recipe", "train", "museum", "payment", "garden", "concert",
    "passport", "insurance", "library", "football", "vaccine", "satellite", "bicycle", "language", "election", "wine",
)  # fmt: skip
_VERBS: Final = ("create", "read", "update", "delete", "watch", "export", "compare", "approve", "merge", "count")
_SYLLABLES: Final = ("ba", "ce", "di", "fo", "gu", "ha", "ji", "ko", "lu", "me")
_STDIO_SHARE: Final = 10
_SERVERS_OF_ONE_PROCESS: Final = 40


@dataclass(frozen=True)
class Plan:
    """One server behind the gateway."""

    name: str
    era: Era
    """The only one that it speaks."""
    host: int | None
    """The process that serves it over HTTP, with others; `None` for a process of its own, over stdio."""
    numbers: range
    """Of its tools, among those of all servers."""

    @cached_property
    def tools(self) -> Mapping[str, dict[str, Any]]:
        """Definitions by the names that the server gives them."""
        return dict(map(_tool, self.numbers))


@dataclass(frozen=True)
class World:
    """All servers and tools, the same in every process with the same numbers.

    Args:
        upstreams: Number of servers: a tenth of them over stdio, the others over HTTP from a few processes.
        tools: Number of tools of all servers together.
    """

    upstreams: int
    tools: int

    @cached_property
    def plans(self) -> Sequence[Plan]:
        """The servers: speakers of both eras over both transports."""
        stdio = -(-self.upstreams // _STDIO_SHARE)
        hosts = -(-(self.upstreams - stdio) // _SERVERS_OF_ONE_PROCESS)
        plans: list[Plan] = []
        for number in range(self.upstreams):
            numbers = range(number * self.tools // self.upstreams, (number + 1) * self.tools // self.upstreams)
            host = None if number < stdio else number % hosts
            era: Era = "modern" if number // 2 % 2 else "legacy"
            plans.append(Plan(f"s{number:03}", era, host, numbers))
        return plans

    @cached_property
    def by_public_name(self) -> Mapping[str, tuple[Plan, str]]:
        """Server and own name of each tool, by the name under which the gateway offers it."""
        return {f"{plan.name}__{name}": (plan, name) for plan in self.plans for name in plan.tools}

    @cached_property
    def hosts(self) -> Mapping[int, Sequence[Plan]]:
        """The servers of each process that serves HTTP."""
        numbers = sorted({plan.host for plan in self.plans if plan.host is not None})
        return {number: [plan for plan in self.plans if plan.host == number] for number in numbers}


def answer(plan: Plan, tool: str, arguments: Mapping[str, Any], process: int) -> dict[str, Any]:
    """Return what a call comes to: who has answered, and what it was asked."""
    proof = {"server": plan.name, "tool": tool, "arguments": dict(arguments), "process": process}
    return {"content": [{"type": "text", "text": f"{plan.name} {tool}"}], "structuredContent": proof}


def codeword(definition: Mapping[str, Any]) -> str:
    """Return the word that stands in the description of this tool and of no other."""
    return str(definition["description"]).rsplit(" ", 1)[-1]


def _tool(number: int) -> tuple[str, dict[str, Any]]:
    verb, topic = _VERBS[number % len(_VERBS)], TOPICS[number // len(_VERBS) % len(TOPICS)]
    word = "".join(_SYLLABLES[int(digit)] for digit in f"{number:05}") + "k"
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": f"What to {verb}"},
            "seconds": {"type": "number", "description": "How long to take over it"},
        },
        "required": ["text"],
    }
    name = f"{verb}_{topic}_{number}"
    text = f"{verb.capitalize()} the {topic} of a customer and say what came of it. Known as {word}"
    return name, {"name": name, "description": text, "inputSchema": schema}


_KEPT: Final = 50
"""Failures that are described; all are counted."""


@dataclass
class Outage:
    """The time in which a server need not answer: from its end until it has answered again."""

    server: str
    start: float
    end: float = math.inf


@dataclass
class Ledger:
    """Kept while the soak runs."""

    done: Counter[str] = field(default_factory=Counter[str])
    """Operations that came to what they must, by kind."""

    excused: Counter[str] = field(default_factory=Counter[str])
    """Operations that failed while the server was down, by kind."""

    failures: list[str] = field(default_factory=list[str])
    failed: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    outages: list[Outage] = field(default_factory=list[Outage])

    def succeed(self, kind: str, began: float) -> None:
        """Note an operation that came to what it must."""
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
            "milliseconds": {kind: _spread([1000 * one for one in took]) for kind, took in self.seconds.items()},
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
