"""Servers behind a gateway, with tools and answers that a caller can check to the letter.

Standard library only: the servers are many, and start in processes of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

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
class Upstream:
    """One server behind the gateway."""

    name: str
    era: Era
    """The only one that it speaks."""
    host: int | None
    """The process that serves it over HTTP, with others; `None` for a process of its own, over stdio."""
    numbers: range
    """The numbers of its tools, among those of all servers."""

    @cached_property
    def tools(self) -> Mapping[str, dict[str, Any]]:
        """Definitions by the names that the server gives them."""
        return dict(map(_tool, self.numbers))


@dataclass(frozen=True)
class Fleet:
    """All servers and tools, the same in every process with the same numbers.

    Args:
        size: Number of servers: a tenth of them over stdio, the others over HTTP from a few processes.
        tools: Number of tools of all servers together.
    """

    size: int
    tools: int

    @cached_property
    def upstreams(self) -> Sequence[Upstream]:
        """The servers: speakers of both eras over both transports."""
        stdio = -(-self.size // _STDIO_SHARE)
        hosts = -(-(self.size - stdio) // _SERVERS_OF_ONE_PROCESS)
        upstreams: list[Upstream] = []
        for number in range(self.size):
            numbers = range(number * self.tools // self.size, (number + 1) * self.tools // self.size)
            host = None if number < stdio else number % hosts
            upstreams.append(Upstream(f"s{number:03}", "modern" if number // 2 % 2 else "legacy", host, numbers))
        return upstreams

    @cached_property
    def by_public_name(self) -> Mapping[str, tuple[Upstream, str]]:
        """Server and own name of each tool, by the name under which the gateway offers it."""
        return {f"{server.name}__{name}": (server, name) for server in self.upstreams for name in server.tools}

    @cached_property
    def hosts(self) -> Mapping[int, Sequence[Upstream]]:
        """The servers of each process that serves HTTP."""
        numbers = sorted({server.host for server in self.upstreams if server.host is not None})
        return {number: [server for server in self.upstreams if server.host == number] for number in numbers}

    def stdio_entry(self, upstream: Upstream) -> dict[str, Any]:
        """Return the entry of an `mcp.json` that starts a server over stdio."""
        script = Path(__file__).with_name("fleet_stdio.py")
        return {"command": sys.executable, "args": [str(script), str(self.size), str(self.tools), upstream.name]}


def answer(upstream: Upstream, tool: str, arguments: Mapping[str, Any], process: int) -> dict[str, Any]:
    """Return the result of a call, which says who has answered which request."""
    proof = {"server": upstream.name, "tool": tool, "arguments": dict(arguments), "process": process}
    return {"content": [{"type": "text", "text": f"{upstream.name} {tool}"}], "structuredContent": proof}


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
            "seconds": {"type": "number", "description": "How long to take"},
        },
        "required": ["text"],
    }
    name = f"{verb}_{topic}_{number}"
    text = f"{verb.capitalize()} the {topic} of a customer and report the result. Known as {word}"
    return name, {"name": name, "description": text, "inputSchema": schema}
