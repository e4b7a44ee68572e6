"""`tools/list` by pages, in the form that each protocol era allows.

Texts that come back unchanged or not at all: what a cursor holds of a list that is elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, cast

from mcp import MCPError
from mcp_ext_tools_search.server.listing import wire_form
from mcp_types import INVALID_PARAMS, Tool

logger = logging.getLogger(__name__)

_REPORTED: Final = 10

MOST_PAGE_BYTES: Final = 896 * 1024
"""What the definitions on one page may come to: some hosts read the first page alone, so it is as large as can be.

A page is one event of a legacy HTTP stream, and official clients refuse events of more than 1 MiB.
"""


class ToolPages:
    """One state of a listing, cut into pages of at most `size` tools.

    The object never changes: a changed listing is a new `ToolPages`. A cursor names the last tool of a page by digest,
    so that it holds on every replica, and over changes elsewhere in the listing.

    Args:
        tools: The listing.
        size: Tools on one page.
        after: The state that this one follows: what both hold as the same object is not worked on again.
    """

    def __init__(self, tools: Sequence[Tool], size: int, *, after: ToolPages | None = None) -> None:
        self.tools = tools
        self._size = size
        self._known: dict[str, Mapping[str, _Entry]] = {} if after is None else after._known | after._made
        self._made: dict[str, Mapping[str, _Entry]] = {}
        self._of_era: Callable[[str], _Era] = cache(self._sieve)
        self.wire: Callable[[str], dict[str, dict[str, Any]]] = cache(self._wire)
        """Returns the definitions by name as a listing in a protocol version carries them: one object a version."""

    def part(self, names: Container[str]) -> ToolPages:
        """Return the listing that holds the tools with these names alone."""
        part = ToolPages([tool for tool in self.tools if tool.name in names], self._size)

        def of_era(protocol_version: str) -> _Era:
            return self._of_era(protocol_version).part(names)

        def wire(protocol_version: str) -> dict[str, dict[str, Any]]:
            return {name: tool for name, tool in self.wire(protocol_version).items() if name in names}

        part._of_era = cache(of_era)
        part.wire = cache(wire)
        return part

    def _wire(self, protocol_version: str) -> dict[str, dict[str, Any]]:
        entries = self._entries(protocol_version)
        return {name: entry.wire for name, entry in entries.items() if entry.wire is not None}

    def page(self, cursor: str | None, protocol_version: str) -> dict[str, Any]:
        """Return the page after `cursor`, as `page_of` does, without the definitions that are invalid in that version.

        Raises:
            MCPError: -32602, this listing has no such cursor.
        """
        era = self._of_era(protocol_version)
        start = 0 if cursor is None else era.positions.get(cursor)
        if start is None:
            raise invalid_cursor()
        end = start + room_for(era.sizes[start : start + self._size])
        return page_of(era.tools[start:end], _cursor(era.names[end - 1]) if end < len(era.tools) else None)

    def first_page(self, protocol_version: str) -> int:
        """Return how many tools stand on the first page."""
        return room_for(self._of_era(protocol_version).sizes[: self._size])

    def page_count(self, protocol_version: str) -> int:
        """Return how many pages the listing has."""
        sizes, pages, start = self._of_era(protocol_version).sizes, 0, 0
        while start < len(sizes):
            start += room_for(sizes[start : start + self._size])
            pages += 1
        return pages

    def with_large_schemas(self, protocol_version: str, most_bytes: int) -> list[str]:
        """Return the names of the tools whose input schema is larger than that."""
        era = self._of_era(protocol_version)
        large = [tool for tool, size in zip(era.tools, era.sizes, strict=True) if size > most_bytes]
        return [tool["name"] for tool in large if size_of(tool["inputSchema"]) > most_bytes + 1]

    def _sieve(self, protocol_version: str) -> _Era:
        wire, entries = self.wire(protocol_version), self._entries(protocol_version)
        return _Era(list(wire), list(wire.values()), [entries[name].size for name in wire])

    def _entries(self, protocol_version: str) -> Mapping[str, _Entry]:
        if protocol_version not in self._made:
            known = self._known.pop(protocol_version, {})
            new = {
                tool.name: _entry(tool, protocol_version)
                for tool in self.tools
                if tool.name not in known or known[tool.name].tool is not tool
            }
            if left_out := [name for name, entry in new.items() if entry.wire is None]:
                text = "left out for callers of %s, where they are invalid: %s"
                logger.info(text, protocol_version, left_out[:_REPORTED])
            self._made[protocol_version] = {tool.name: new.get(tool.name) or known[tool.name] for tool in self.tools}
        return self._made[protocol_version]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tool as one protocol version has it."""

    tool: Tool
    wire: dict[str, Any] | None
    """Its definition; `None` where that is not allowed."""
    size: int


def _entry(tool: Tool, protocol_version: str) -> _Entry:
    wire = wire_form(tool, protocol_version)
    return _Entry(tool, wire, size_of(wire))


@dataclass(frozen=True)
class _Era:
    names: Sequence[str]
    tools: Sequence[dict[str, Any]]
    """As they are sent."""
    sizes: Sequence[int]

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Where the page begins that follows a cursor."""
        return {_cursor(name): position for position, name in enumerate(self.names, start=1)}

    def part(self, names: Container[str]) -> _Era:
        kept = [place for place, name in enumerate(self.names) if name in names]
        return _Era(
            [self.names[place] for place in kept],
            [self.tools[place] for place in kept],
            [self.sizes[place] for place in kept],
        )


def _cursor(last: str) -> str:
    return "after-" + hashlib.sha256(last.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def page_of(tools: Sequence[dict[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    """Return a result of `tools/list` in wire form, so that no model is left for the SDK to write out.

    It may not be kept, unless whoever answers with it says otherwise.
    """
    page: dict[str, Any] = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return page if next_cursor is None else {**page, "nextCursor": next_cursor}


def room_for(sizes: Sequence[int]) -> int:
    """Return how many of the first entries, of which these are the lengths, one page may hold: one, if there is one."""
    room = MOST_PAGE_BYTES
    for place, size in enumerate(sizes):
        room -= size
        if room < 0 and place:
            return place
    return len(sizes)


def size_of(wire: Mapping[str, Any] | None) -> int:
    """Return how many bytes an entry of a list is on the wire; none where it is not sent."""
    if wire is None:
        return 0
    text = json.dumps(wire, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass")) + 1  # with the comma behind it


def invalid_cursor() -> MCPError:
    """Return the -32602 error for a cursor that the listing does not have."""
    reason = "is not from this listing, or the listing has changed; list again from the start"
    return MCPError(INVALID_PARAMS, "Invalid cursor", {"field": "cursor", "reason": reason})


_DOMAIN: Final = b"tools/list cursor\0"
_MAC_BYTES: Final = 18


class CursorSigner:
    """Makes texts of lists of JSON values, and reads its own.

    Args:
        key: Secret that replicas share; without one, a random one of this process.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key or secrets.token_bytes(hashlib.sha256().digest_size)

    def sign(self, values: list[Any]) -> str:
        """Return the text that stands for `values`, which everyone can read and nobody else can make."""
        body = json.dumps(values, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mac(body) + body).decode("ascii").rstrip("=")

    def verify(self, text: str) -> list[Any] | None:
        """Return what a text stands for, or `None` where it was not made with this key."""
        try:
            token = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        mac, body = token[:_MAC_BYTES], token[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            return None
        return cast("list[Any]", json.loads(body))

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, _DOMAIN + body, hashlib.sha256).digest()[:_MAC_BYTES]
