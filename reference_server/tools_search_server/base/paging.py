"""Pagination: the pages of `tools/list` in each protocol version, and signed cursors.

Some hosts read only the first page, so pages are as large as possible. The limit comes from official clients, which
refuse events of more than 1 MiB in a legacy HTTP stream; a page is one such event.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from mcp import MCPError
from mcp_ext_tools_search.server.listing import wire_form
from mcp_types import INVALID_PARAMS, Tool
from tools_search_ranking.cache import CatalogSnapshot

from tools_search_server.base.defaults import MAX_PAGE_BYTES

logger = logging.getLogger(__name__)

_MAX_REPORTED: Final = 10
_MAC_DOMAIN: Final = b"tools/list cursor\0"
_MAC_BYTES: Final = 18


class ToolPages:
    """A snapshot of a listing, in pages of at most `size` tools.

    It is immutable: a changed listing is a new `ToolPages`. A cursor is the digest of the last tool's name on a page,
    so it is valid on every replica and survives changes elsewhere in the listing. Tools that are the same objects in
    the previous snapshot (`after`) reuse their wire forms.
    """

    def __init__(self, tools: Sequence[Tool], size: int, *, after: ToolPages | None = None) -> None:
        self.tools = tools
        self._size = size
        self._entries: dict[str, Mapping[str, _Entry]] = {} if after is None else after._entries
        """The entries as last serialized, by protocol version and name."""
        self._snapshots: dict[str, CatalogSnapshot] = {} if after is None else after._snapshots
        """The listing as last searched, by protocol version."""
        self._written: Callable[[str], _WireListing] = cache(self._write)

    def part(self, names: Container[str]) -> ToolPages:
        """Return the listing of only the tools with these names. It shares this listing's wire forms.

        If it has all tools, it is this object.
        """
        tools = [tool for tool in self.tools if tool.name in names]
        if len(tools) == len(self.tools):
            return self
        part = ToolPages(tools, self._size)

        def write(protocol_version: str) -> _WireListing:
            entries = self._written(protocol_version).entries
            return _WireListing([entry for entry in entries if entry.tool.name in names])

        part._written = cache(write)
        return part

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.by_name)

    def names_in(self, everything: ToolPages) -> frozenset[str] | None:
        """Return the tools' names, as searches of `everything` take them: `None` if this object is all of it.

        They include the names of tools that some protocol version does not allow.
        """
        return None if self is everything else self._names

    def wire(self, protocol_version: str) -> dict[str, dict[str, Any]]:
        """Return the definitions by name, as listed in a protocol version: the same object for each version."""
        return self._written(protocol_version).by_name

    def snapshot(self, protocol_version: str) -> CatalogSnapshot:
        """Return the whole listing, as searches take it: the same object for each version."""
        tools, known = self.wire(protocol_version), self._snapshots.get(protocol_version)
        if known is None or known.tools is not tools:
            known = self._snapshots[protocol_version] = CatalogSnapshot(tools, after=known)
        return known

    def page(self, cursor: str | None, protocol_version: str) -> dict[str, Any]:
        """Return the page after `cursor`, as `page_of` does, without definitions that are invalid in the version.

        Raises:
            MCPError: -32602, this listing has no such cursor.
        """
        listing = self._written(protocol_version)
        # A cursor names the entry before the page, so pages stay right when others are added or removed elsewhere.
        start = 0 if cursor is None else listing.positions.get(cursor)
        if start is None:
            raise invalid_cursor()
        shown = listing.entries[start : start + self._size]
        shown = shown[: room_for([entry.size for entry in shown])]
        is_last = start + len(shown) == len(listing.entries)
        return page_of([entry.wire for entry in shown], None if is_last else cursor_after(shown[-1].tool.name))

    def counts(self, protocol_version: str) -> list[int]:
        """Return the number of tools on each page."""
        sizes, start = [entry.size for entry in self._written(protocol_version).entries], 0
        counts: list[int] = []
        while start < len(sizes):
            counts.append(room_for(sizes[start : start + self._size]))
            start += counts[-1]
        return counts

    def with_large_schemas(self, protocol_version: str, most_bytes: int) -> list[str]:
        """Return the names of the tools whose input schema has more than `most_bytes` bytes."""
        large = [entry for entry in self._written(protocol_version).entries if entry.size > most_bytes]
        # `size_of` counts a comma, which the schema has not.
        return [entry.tool.name for entry in large if size_of(entry.wire["inputSchema"]) > most_bytes + 1]

    def _write(self, protocol_version: str) -> _WireListing:
        known = self._entries.get(protocol_version, {})
        made: dict[str, _Entry] = {}
        left_out: list[str] = []
        for tool in self.tools:
            entry = known.get(tool.name)
            if entry is None or entry.tool is not tool:
                wire = wire_form(tool, protocol_version)
                entry = _Entry(tool, wire or {}, 0 if wire is None else size_of(wire))
                left_out += [tool.name] if wire is None else []
            made[tool.name] = entry
        if left_out:
            text = "left out for callers of revision %s, in which they are invalid: %s"
            logger.info(text, protocol_version, left_out[:_MAX_REPORTED])
        # Shared with the snapshots before and after: each finds the tools that are still the same objects.
        self._entries[protocol_version] = made
        return _WireListing([entry for entry in made.values() if entry.size])


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tool in one protocol version."""

    tool: Tool
    wire: dict[str, Any]
    """Its definition; empty if invalid."""
    size: int
    """Bytes of the definition; 0 if invalid."""


@dataclass(frozen=True)
class _WireListing:
    """A listing in one protocol version."""

    entries: Sequence[_Entry]

    @cached_property
    def by_name(self) -> dict[str, dict[str, Any]]:
        return {entry.tool.name: entry.wire for entry in self.entries}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The start of the page after each cursor."""
        return {cursor_after(entry.tool.name): position for position, entry in enumerate(self.entries, start=1)}


def cursor_after(last: str) -> str:
    """Return the cursor of the page after an entry: a digest of its name, so every replica understands it."""
    return "after-" + hashlib.sha256(last.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def page_of(tools: Sequence[dict[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    """Return a `tools/list` result in wire form, so the SDK has no model to serialize.

    The result is not cacheable unless the caller changes that.
    """
    page: dict[str, Any] = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return page if next_cursor is None else {**page, "nextCursor": next_cursor}


def room_for(sizes: Sequence[int]) -> int:
    """Return how many of the first entries with these sizes fit on one page: at least one, unless there are none."""
    room = MAX_PAGE_BYTES
    for place, size in enumerate(sizes):
        room -= size
        if room < 0 and place:  # a page without its first entry would never end
            return place
    return len(sizes)


def size_of(wire: Mapping[str, Any]) -> int:
    """Return the size of a list entry on the wire, in bytes."""
    text = json.dumps(wire, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass")) + 1  # including the comma


def invalid_cursor() -> MCPError:
    """Return the -32602 error for a cursor that the listing does not have."""
    reason = "is not from this listing, or the listing has changed; list again from the start"
    return MCPError(INVALID_PARAMS, "Invalid cursor", {"field": "cursor", "reason": reason})


class CursorSigner:
    """Makes and verifies cursors that contain a list of JSON values. Anyone can read them, but nobody can forge them.

    Replicas share the secret key. Without one, this process uses a random key.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key or secrets.token_bytes()

    def sign(self, values: list[Any]) -> str:
        """Return a cursor that contains `values`."""
        body = json.dumps(values, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mac(body) + body).decode().rstrip("=")

    def verify(self, cursor: str) -> list[Any] | None:
        """Return the values in a cursor, or `None` if it was not made with this key."""
        try:
            token = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        mac, body = token[:_MAC_BYTES], token[_MAC_BYTES:]
        return json.loads(body) if hmac.compare_digest(mac, self._mac(body)) else None

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, _MAC_DOMAIN + body, "sha256")[:_MAC_BYTES]
