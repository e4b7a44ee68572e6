"""What one upstream server lists: all pages of a listing, within bounds, without what is no entry of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import Client
from mcp_ext_tools_search.client.raw import raw_request
from mcp_types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from pydantic import BaseModel, ValidationError

from tools_search_server.upstream_session import absorb_tools

__all__ = [
    "PROMPTS",
    "RESOURCES",
    "TEMPLATES",
    "TOOLS",
    "Kind",
    "ListingError",
    "TooMany",
    "entries_of",
    "read_entries",
    "read_tools",
    "usable_entries",
]

logger = logging.getLogger(__name__)

_MAX_PAGES: Final = 1000
_MAX_ENTRIES: Final = 50_000


@dataclass(frozen=True)
class Kind:
    """A list that a server may have."""

    method: str
    """Asks for a page of it."""

    member: str
    """Where the entries stand in a page."""

    page: type[PaginatedResult]
    """What a page is."""

    model: type[BaseModel]
    """What an entry is."""

    key: str
    """The attribute that tells two entries apart."""

    noun: str
    """What to call an entry in the log."""


TOOLS: Final = Kind("tools/list", "tools", ListToolsResult, Tool, "name", "tool")
PROMPTS: Final = Kind("prompts/list", "prompts", ListPromptsResult, Prompt, "name", "prompt")
RESOURCES: Final = Kind("resources/list", "resources", ListResourcesResult, Resource, "uri", "resource")
TEMPLATES: Final = Kind(
    "resources/templates/list",
    "resourceTemplates",
    ListResourceTemplatesResult,
    ResourceTemplate,
    "uri_template",
    "resource template",
)


class TooMany(Exception):
    """A list is longer than is wanted."""


class ListingError(Exception):
    """What a server sent is no list; the text names the method, and the member that is wrong."""


async def read_tools(client: Client, server: str, *, page_seconds: float, most: int | None = None) -> dict[str, Tool]:
    """Return the tools of a server by name, as `read_entries` does.

    Raises:
        TooMany: There are more than `most`.
        ListingError: It sent no list, or one without a single valid tool.
        MCPError: The server refused to list, or took longer than `page_seconds` for one page.
    """
    if client.server_capabilities.tools is None:
        return {}
    tools = cast("dict[str, Tool]", await _read(client, server, TOOLS, page_seconds, most))
    kept = {tool.name: tool for tool in absorb_tools(client, list(tools.values()), complete=True)}
    for name in tools.keys() - kept.keys():
        logger.warning("%s: tool %r is left out: its x-mcp-header is invalid", server, name, extra={"server": server})
    return kept


async def read_entries(client: Client, server: str, kind: Kind, *, page_seconds: float) -> Mapping[str, BaseModel]:
    """Return what a server lists, by what tells the entries apart, in its order.

    What a server sends may be anything: an entry that is none and the second of two with one name are left out and
    reported, and a listing that does not end is cut.

    Raises:
        ListingError: It sent no list, or one without a single valid entry.
        MCPError: The server refused to list, or took longer than `page_seconds` for one page.
    """
    return await _read(client, server, kind, page_seconds)


async def _read(
    client: Client, server: str, kind: Kind, page_seconds: float, most: int | None = None
) -> dict[str, BaseModel]:
    entries = await _entries(client, server, kind, page_seconds, most)
    usable = usable_entries(entries, server, kind)
    if entries and not usable:
        raise ListingError(
            f"its {kind.method} holds no valid {kind.noun}; the log says at which member the first fails"
        )
    return usable


async def _entries(client: Client, server: str, kind: Kind, page_seconds: float, most: int | None = None) -> list[Any]:
    entries: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MAX_PAGES):
        params = {} if cursor is None else {"cursor": cursor}
        page = await raw_request(client, kind.method, params, seconds=page_seconds)
        entries += entries_of(page, kind.member, kind.method)
        if most is not None and len(entries) > most:
            raise TooMany
        following: object = page.get("nextCursor")
        if following is None:
            return entries
        if not isinstance(following, str):
            raise ListingError(f"its {kind.method} is malformed: `nextCursor` is no string")
        cursor = following
        if cursor in seen or len(entries) > _MAX_ENTRIES:
            break
        seen.add(cursor)
    used = entries[:_MAX_ENTRIES]
    text = "%s: its list of %ss does not end; the first %d are used"
    logger.warning(text, server, kind.noun, len(used), extra={"server": server})
    return used


def entries_of(page: Mapping[str, Any], member: str, method: str) -> list[Any]:
    """Return what a page lists, whatever each entry is.

    Raises:
        ListingError: `member` of the page is no array.
    """
    listed = page.get(member)
    if not isinstance(listed, list):
        problem = "is missing" if listed is None else "is no array"
        raise ListingError(f"its {method} is malformed: `{member}` {problem}")
    return cast("list[Any]", listed)


def usable_entries(
    entries: Sequence[Any], server: str, kind: Kind, *, level: int = logging.WARNING
) -> dict[str, BaseModel]:
    """Return the entries by what tells them apart; what is none and the second of two alike is reported at `level`."""
    usable: dict[str, BaseModel] = {}
    for entry in entries:
        try:
            read = kind.model.model_validate(entry, by_name=False)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            text = "%s: a %s is left out: it is invalid at %r"
            logger.log(level, text, server, kind.noun, place, extra={"server": server})
            continue
        key = str(getattr(read, kind.key))
        if key in usable:
            text = "%s: the second %s named %r is left out"
            logger.log(level, text, server, kind.noun, key, extra={"server": server})
            continue
        usable[key] = read
    return usable
