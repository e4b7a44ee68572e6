"""What is asked of the measured server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mcp_ext_tools_search.types import METHOD

from benchmarks.endtoend.connections import Connection
from benchmarks.endtoend.server import NOTHING

__all__ = ["DO_NOTHING", "FIRST_PAGE", "LIMITS", "WHOLE", "Way", "search_of", "ways_of", "whole_list"]

LIMITS: Final = (1, 5, 10)
"""Tools of a page; ten is what a server answers where nothing is said."""

DO_NOTHING: Final = "nothing"
FIRST_PAGE: Final = "first page of the list"
WHOLE: Final = "the whole list"

Way: TypeAlias = Callable[[int], tuple[str, Mapping[str, Any]]]
"""Gives the request of a turn: its method and its parameters."""


def ways_of(queries: Sequence[str]) -> Mapping[str, Way]:
    """Return each kind of request that takes turns; searches of one turn have different queries."""
    searches = {
        search_of(limit): _search(queries, limit, place * len(queries) // len(LIMITS))
        for place, limit in enumerate(LIMITS)
    }
    return {DO_NOTHING: lambda _turn: (NOTHING, {}), **searches}


def search_of(limit: int) -> str:
    """Return what a search for so many tools is called."""
    return f"search, {limit} tools" if limit > 1 else "search, 1 tool"


def _search(queries: Sequence[str], limit: int, first: int) -> Way:
    return lambda turn: (METHOD, {"query": queries[(first + turn) % len(queries)], "limit": limit})


async def whole_list(connection: Connection) -> tuple[list[Any], int]:
    """Read every page of `tools/list`, and return the tools and how many bytes carried them."""
    tools: list[Any] = []
    size = 0
    cursor: str | None = None
    while True:
        page, length = await connection.ask("tools/list", {} if cursor is None else {"cursor": cursor})
        tools += page["tools"]
        size += length
        cursor = page.get("nextCursor")
        if cursor is None:
            return tools, size
