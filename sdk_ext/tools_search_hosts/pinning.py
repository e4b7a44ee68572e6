"""Pinned tools: those whose server asks that a model always has them.

This is no part of `tools/search`: a server lists and finds such tools as any others, and hosts read the member.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from mcp_types import Tool

ALWAYS_LOAD: Final = "anthropic/alwaysLoad"
"""Member of a tool's `_meta` by which its server asks that the definition is never deferred: Claude Code's name."""

MOST_PINNED_PER_SERVER: Final = 5
"""Pinned tools of one server that are honored: what every definition costs is paid by all the others."""

MOST_PINNED: Final = 20
"""Pinned tools of all servers that are honored."""

Server = TypeVar("Server")
Pinned = TypeVar("Pinned")


def is_pinned(tool: Tool) -> bool:
    """Whether the server of a tool asks that its definition is always loaded: `true`, and nothing else."""
    return (tool.meta or {}).get(ALWAYS_LOAD) is True


def pinned_within_bounds(pinned: Iterable[tuple[Server, Pinned]]) -> list[Pinned]:
    """Return the pinned tools that are honored: the first ones of each server, and of those the first ones.

    Args:
        pinned: Each pinned tool with its server, in the order of the listing.
    """
    counts: dict[Server, int] = {}
    kept: list[Pinned] = []
    for server, tool in pinned:
        counts[server] = counts.get(server, 0) + 1
        if counts[server] <= MOST_PINNED_PER_SERVER:
            kept.append(tool)
    return kept[:MOST_PINNED]
