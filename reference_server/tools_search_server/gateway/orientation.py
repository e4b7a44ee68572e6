"""Information about a gateway that clients get before they request any tool: topics, catalog size, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mcp_ext_tools_search.types import ServerSettings
from tools_search_hosts.counts import number_of

from tools_search_server.gateway.views import VisibleServer

BY_EXTENSION: Final = "Where the client can search tools (tools/search), describe what is needed in a few words."

_MAX_TOPICS: Final = 64
_MAX_TOPIC_CHARS: Final = 80
_MAX_BYTES: Final = 3_600
"""Less than 1,000 tokens, in any language and with any number of servers."""

_MIN_QUOTED_BYTES: Final = 24
"""Shorter quotations are useless."""


def settings(servers: Sequence[VisibleServer], tool_count: int | None) -> ServerSettings:
    """Return the topics, which are the names of the servers with tools, and the number of tools once it is known.

    `tool_count` is `None` if it is unknown or differs between callers.
    """
    facts: dict[str, Any] = {
        "topics": topics([server for server in servers if not (server.state.is_usable and server.tool_count == 0)])
    }
    if tool_count is not None and _all_settled(servers):
        facts["catalog_size"] = tool_count
    return ServerSettings(**facts)


def topics(servers: Sequence[VisibleServer]) -> list[str]:
    """Return the names of the servers: at most 64, truncated to 80 characters."""
    return [server.name[:_MAX_TOPIC_CHARS] for server in servers[:_MAX_TOPICS]]


def instructions(servers: Sequence[VisibleServer], tool_count: int | None, guide: str = BY_EXTENSION) -> str:
    """Return instructions that list the servers, with their numbers of tools and their own texts, within a fixed size.

    The servers share the space: long texts get what shorter ones leave. `guide` says how to find tools.
    """
    counted = number_of(tool_count, "tool") if tool_count is not None and _all_settled(servers) else "the tools"
    opening = (
        f"This server offers {counted} of {number_of(len(servers), 'MCP server')}. "
        f"The name of each tool starts with its server. {guide} "
        "What stands in quotation marks are the words of that server."
    )
    lines: list[str] = []
    room = _MAX_BYTES - _size(opening) - _size("\n- and 9,999 more servers")
    for server in servers:
        line = f"- {server.name[:_MAX_TOPIC_CHARS]}"
        if server.state.is_usable:
            line += f" ({'many tools' if server.tool_count is None else number_of(server.tool_count, 'tool')})"
        else:
            line += f": {'still starting' if server.state.kind == 'starting' else 'not available at the moment'}"
        if room < _size(line) + 1:
            break
        room -= _size(line) + 1
        lines.append(line)
    # First the line of every server, then the texts in the room that is left.
    words = [server.instructions if server.state.is_usable else "" for server in servers[: len(lines)]]
    around = _size(' says: ""')
    # Shortest first, so that texts of the same size get the same space.
    for done, place in enumerate(sorted(range(len(words)), key=lambda place: _size(words[place]))):
        share = room // (len(words) - done)
        if quoted := _cut(words[place], share - around):
            lines[place] += f' says: "{quoted}"'
        room -= min(share, _size(words[place]) + around if words[place] else 0)
    if len(lines) < len(servers):
        lines.append(f"- and {number_of(len(servers) - len(lines), 'more server')}")
    return "\n".join([opening, *lines])


def _cut(text: str, room: int) -> str:
    """Truncate a text to `room` bytes, at a word boundary if possible. Return nothing if that leaves too little."""
    if _size(text) <= room:
        return text
    cut = text.encode()[: max(room - _size(" …"), 0)].decode("utf-8", "ignore")
    return cut.rsplit(" ", 1)[0] + " …" if len(cut) >= _MIN_QUOTED_BYTES else ""


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _all_settled(servers: Sequence[VisibleServer]) -> bool:
    return all(server.upstream.settled.is_set() for server in servers)
