"""How large answers are: bytes on the wire, and tokens of the definitions that come with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean
from typing import Any

from benchmarks.context.requests import Request, TokenCounter
from benchmarks.endtoend.connections import Connection
from benchmarks.endtoend.requests import FIRST_PAGE, WHOLE, Way, whole_list

__all__ = ["Weight", "weigh"]


@dataclass(frozen=True)
class Weight:
    """The answers to one kind of request, as means."""

    way: str
    bytes: float
    definitions: float
    tokens: float | None
    """Of name, description and parameters of each definition, as in `benchmarks.context`; `None` where nothing that
    counts them is installed."""


async def weigh(connection: Connection, ways: Mapping[str, Way], requests: int) -> list[Weight]:
    """Weigh the answers to so many requests of each kind, and to the whole list."""
    count = TokenCounter() if find_spec("bpe_openai") else None
    weights: list[Weight] = []
    for way, request in ways.items():
        answers = [await connection.ask(*request(turn)) for turn in range(requests)]
        lists = [answer.get("tools", []) for answer, _ in answers]
        weights.append(_weight(way, lists, [size for _, size in answers], count))
    page, first = await connection.ask("tools/list", {})
    tools, size = await whole_list(connection)
    lists = {FIRST_PAGE: (page["tools"], first), WHOLE: (tools, size)}
    return [*weights, *(_weight(way, [tools], [size], count) for way, (tools, size) in lists.items())]


def _weight(
    way: str, lists: Sequence[Sequence[Mapping[str, Any]]], sizes: Sequence[int], count: TokenCounter | None
) -> Weight:
    tokens = None if count is None else fmean(_tokens(tools, count) for tools in lists)
    return Weight(way, fmean(sizes), fmean(map(len, lists)), tokens)


def _tokens(tools: Sequence[Mapping[str, Any]], count: TokenCounter) -> int:
    told = [
        {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["inputSchema"]}
        for tool in tools
    ]
    return count.definitions(Request(told, [], frozenset(), 0))
