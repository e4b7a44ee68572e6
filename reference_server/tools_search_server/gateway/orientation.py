"""What a host learns of a gateway before it asks for any tool: what is there, how much, and how to find it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import anyio
from mcp_ext_tools_search.types import ServerSettings

from tools_search_server.upstreams.state import State

__all__ = ["BY_EXTENSION", "Described", "instructions", "settings"]

_MAX_TOPICS: Final = 64
_MAX_TOPIC_CHARS: Final = 80
_MAX_BYTES: Final = 3_600
"""Under 1,000 tokens, however many servers there are and in whatever language they speak."""

_LEAST_SAID: Final = 24
"""Bytes of a server's words below which they say nothing."""

_QUOTED: Final = "What stands in quotation marks are the words of that server."

BY_EXTENSION: Final = "Where the client can search tools (tools/search), describe what is needed in a few words."


class Described(Protocol):
    """A server as a caller may know it."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def instructions(self) -> str:
        """What it says of itself, as far as the caller may read it, on one line."""
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


def instructions(upstreams: Sequence[Described], tool_count: int | None, how: str = BY_EXTENSION) -> str:
    """Return what a model needs to know: the servers with their tools and their own words, within a fixed length.

    Servers share the room: one that says much gets what others leave.

    Args:
        upstreams: The servers that the caller sees.
        tool_count: Tools that it sees; `None` where that is not known.
        how: A short text on how tools are found.
    """
    is_known = tool_count is not None and _all_settled(upstreams)
    counted = f"{tool_count} tools" if is_known else "the tools"
    opening = (
        f"This server offers {counted} of {len(upstreams)} MCP servers. The name of each tool starts with its server. "
        f"{how} {_QUOTED}"
    )
    lines: list[str] = []
    room = _MAX_BYTES - _size(opening) - _size("\n- and 9999 more servers")
    for upstream in upstreams:
        line = _line(upstream)
        if room < _size(line) + 1:
            break
        room -= _size(line) + 1
        lines.append(line)
    words = [upstream.instructions if upstream.state.is_usable else "" for upstream in upstreams[: len(lines)]]
    around = _size(' says: ""')
    shares = _shares([_size(said) + around if said else 0 for said in words], room)
    lines = [line + _quotation(said, share - around) for line, said, share in zip(lines, words, shares, strict=True)]
    if len(lines) < len(upstreams):
        lines.append(f"- and {len(upstreams) - len(lines)} more servers")
    return "\n".join([opening, *lines])


def _line(upstream: Described) -> str:
    name = upstream.name[:_MAX_TOPIC_CHARS]
    if not upstream.state.is_usable:
        return f"- {name}: {'still starting' if upstream.state.kind == 'starting' else 'not available at the moment'}"
    count = "many" if upstream.tool_count is None else str(upstream.tool_count)
    return f"- {name} ({count} tools)"


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Divide `room` so that nobody gets less than another who asks for as much."""
    shares = [0] * len(wanted)
    for done, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[place] = min(wanted[place], room // (len(wanted) - done))
        room -= shares[place]
    return shares


def _quotation(said: str, room: int) -> str:
    if _size(said) > room:
        cut = said.encode()[: max(room - _size(" …"), 0)].decode("utf-8", "ignore")
        said = cut[: cut.rfind(" ") if " " in cut else None] + " …" if len(cut) >= _LEAST_SAID else ""
    return f' says: "{said}"' if said else ""


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _all_settled(upstreams: Sequence[Described]) -> bool:
    return all(upstream.settled.is_set() for upstream in upstreams)
