"""What a host learns of a gateway before it asks for any tool: what is there, how much, and how to find it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import anyio
from mcp_ext_tools_search.types import ServerSettings

from tools_search_server.upstream_state import State

__all__ = ["Described", "instructions", "settings"]

_MAX_TOPICS: Final = 64
_MAX_TOPIC_CHARS: Final = 80
_MAX_CHARS: Final = 3000
"""Under 1,000 tokens, however many servers there are."""

_HOW: Final = "Where the client can search tools (tools/search), describe what is needed in a few words."


class Described(Protocol):
    """A server as a caller may know it."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def about(self) -> str:
        """What it says it is for."""
        ...

    @property
    def state(self) -> State:
        """How it is."""
        ...

    @property
    def settled(self) -> anyio.Event:
        """Set once it has been reached or has failed."""
        ...

    @property
    def tool_count(self) -> int | None:
        """About how many of its tools the caller sees, where that is known."""
        ...


def settings(upstreams: Sequence[Described], tool_count: int | None) -> ServerSettings:
    """Say what can be searched: the names of the servers, and how many tools once that is known.

    Args:
        upstreams: The servers that the caller sees.
        tool_count: Tools that it sees; `None` where that differs from caller to caller, or is not known.
    """
    facts: dict[str, Any] = {"topics": [upstream.name[:_MAX_TOPIC_CHARS] for upstream in upstreams[:_MAX_TOPICS]]}
    if tool_count is not None and _all_settled(upstreams):
        facts["catalog_size"] = tool_count
    return ServerSettings(**facts)


def instructions(upstreams: Sequence[Described], tool_count: int | None, how: str = _HOW) -> str:
    """Return what a model needs to know: the servers with their tools and purposes, within a fixed length.

    Args:
        upstreams: The servers that the caller sees.
        tool_count: Tools that it sees; `None` where that is not known.
        how: A short text on how tools are found.
    """
    is_known = tool_count is not None and _all_settled(upstreams)
    counted = f"{tool_count} tools" if is_known else "the tools"
    opening = (
        f"This server offers {counted} of {len(upstreams)} MCP servers. The name of each tool starts with its server. "
        f"{how}\n"
    )
    lines: list[str] = []
    room = _MAX_CHARS - len(opening) - len("- and 9999 more servers")
    for position, upstream in enumerate(upstreams):
        line = _line(upstream)
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(upstreams) - position} more servers")
            break
        lines.append(line)
    return opening + "\n".join(lines)


def _line(upstream: Described) -> str:
    name = upstream.name[:_MAX_TOPIC_CHARS]
    if not upstream.state.is_usable:
        return f"- {name}: {'still starting' if upstream.state.kind == 'starting' else 'not available at the moment'}"
    about = f": {upstream.about}" if upstream.about else ""
    count = "many" if upstream.tool_count is None else str(upstream.tool_count)
    return f"- {name} ({count} tools){about}"


def _all_settled(upstreams: Sequence[Described]) -> bool:
    return all(upstream.settled.is_set() for upstream in upstreams)
