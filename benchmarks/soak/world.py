"""What a soak consists of: servers, their tools, and what each of them answers.

Standard library only, so that the many programs that are servers start at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

__all__ = ["TOPICS", "Era", "Plan", "World"]

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
    """The process that serves it over HTTP, beside others; `None` for a process of its own, over stdio."""
    numbers: range
    """Of its tools, among those of all servers."""

    @cached_property
    def tools(self) -> Mapping[str, dict[str, Any]]:
        """Definitions by the names that the server gives them."""
        return dict(map(_tool, self.numbers))


@dataclass(frozen=True)
class World:
    """All servers and tools, the same in every process that is told the same numbers.

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
