"""The prompts, resources and templates of all servers that a caller sees, as one list cut into pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from mcp import MCPError
from mcp_types import INVALID_PARAMS, PaginatedResult, methods
from pydantic import BaseModel, ValidationError

from tools_search_server.base.paging import MOST_PAGE_BYTES, size_of
from tools_search_server.gateway.views import SeenUpstream, View
from tools_search_server.upstreams.listing import Kind

__all__ = ["Entry", "Public", "entries_by_server", "merged", "page"]

Public: TypeAlias = Callable[[str, str], str]
"""Gives the public form of what tells the entries of a server apart, from the server's name and that."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list of all servers."""

    seen: SeenUpstream
    own_name: str
    """The name or URI that its server knows it by."""

    listed: BaseModel
    """What the server lists."""


async def entries_by_server(view: View, kind: Kind) -> list[tuple[SeenUpstream, Mapping[str, BaseModel]]]:
    """Return what each server that can be asked lists, in the order of the configuration.

    They are asked at the same time; one that fails or takes too long is left out.
    """
    found: dict[str, Mapping[str, BaseModel]] = {}

    async def ask(seen: SeenUpstream) -> None:
        if (lists := seen.upstream.lists) is not None:
            found[seen.name] = await lists.entries(kind)

    asked = [seen for seen in view.upstreams if seen.rule.shows_more]
    async with anyio.create_task_group() as tasks:
        for seen in asked:
            tasks.start_soon(ask, seen)
    return [(seen, found[seen.name]) for seen in asked if seen.name in found]


async def merged(view: View, kind: Kind, public: Public) -> dict[str, Entry]:
    """Return the entries of all servers by their public names or URIs."""
    entries: dict[str, Entry] = {}
    for seen, listed in await entries_by_server(view, kind):
        for own, entry in listed.items():
            entries.setdefault(public(seen.name, own), Entry(seen, own, entry))
    return entries


def page(entries: Mapping[str, Entry], kind: Kind, cursor: str | None, size: int, version: str) -> PaginatedResult:
    """Return the page after `cursor`, without the entries that are invalid in that protocol version.

    A cursor names the last entry of a page by digest, so that it holds on every replica.

    Raises:
        MCPError: -32602, this listing has no such cursor.
    """
    names = list(entries)
    start = 0 if cursor is None else {_cursor(name): place for place, name in enumerate(names, start=1)}.get(cursor)
    if start is None:
        reason = "is not from this listing, or the listing has changed; list again from the start"
        raise MCPError(INVALID_PARAMS, "Invalid cursor", {"field": "cursor", "reason": reason})
    listed: list[dict[str, Any]] = []
    room = MOST_PAGE_BYTES
    end = start
    for name in names[start : start + size]:
        entry = entries[name].listed.model_copy(update={kind.key: name})
        room -= size_of(entry.model_dump(by_alias=True, mode="json", exclude_none=True))
        if room < 0 and end > start:
            break
        end += 1
        listed += _sieved(entry, kind, version)
    more = {"nextCursor": _cursor(names[end - 1])} if end < len(names) else {}
    return kind.page.model_validate({kind.member: listed, **more}, by_name=False)


def _sieved(entry: BaseModel, kind: Kind, version: str) -> Sequence[dict[str, Any]]:
    dumped = entry.model_dump(by_alias=True, mode="json", exclude_none=True)
    try:
        methods.serialize_server_result(
            kind.method, version, {kind.member: [dumped], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        )
    except ValidationError:
        return ()
    return (dumped,)


def _cursor(last: str) -> str:
    return "after-" + hashlib.sha256(last.encode("utf-8", "surrogatepass")).hexdigest()[:24]
