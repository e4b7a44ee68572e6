"""The lists of one upstream: every page of a listing, within bounds, without invalid entries.

Tools are read whenever they change, prompts, resources and templates when somebody asks for them. A server may send
anything: an invalid entry and the second of two with one name are left out and reported, a listing without end is cut,
and the JSON of all lists of one server is bounded (`Allowance`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio.lowlevel
from mcp import Client, MCPError
from mcp.server.subscriptions import PromptsListChanged, ServerEvent
from mcp_ext_tools_search.client import raw_request
from mcp_types import (
    METHOD_NOT_FOUND,
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
from pydantic_core import to_json
from tools_search_hosts.messages import mebibytes

from tools_search_server.base.redaction import quoted
from tools_search_server.upstreams.session import absorb_tools

logger = logging.getLogger(__name__)

_MAX_PAGES: Final = 1000

_MIN_BYTES_OF_AN_ENTRY: Final = 800
"""What each entry counts for at least, of the bytes that lists may have: a small tool takes 5 kB of memory, too."""

_ENTRIES_AT_ONCE: Final = 100
"""Entries that are validated before other tasks have their turn."""

_LIST_SECONDS: Final = 5
"""How long one server may hold up a listing of prompts, resources or templates of all of them."""

_FRESH_SECONDS: Final = 5
"""How long a list stays current of a server that does not announce changes: as long as callers may keep it."""

_FAILED_SECONDS: Final = 30
"""How long a server that failed to list is left alone."""

_EXCESS_SECONDS: Final = 3600
"""How long a list is left alone that is larger than is read."""


@dataclass(frozen=True)
class Kind:
    """A list that a server may have."""

    method: str
    """The request for a page of it."""

    member: str
    """The member of a page that holds the entries."""

    page: type[PaginatedResult]
    """The model of a page."""

    model: type[BaseModel]
    """The model of an entry."""

    key: str
    """The attribute that is the key of an entry: its name or URI."""

    noun: str
    """The word for an entry in the log."""


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


class TooManyToolsError(Exception):
    """A server has more tools than are wanted."""


class ListingError(Exception):
    """A server's answer is no list; the message names the method, and the member that is wrong."""


class ListingTooLargeError(ListingError):
    """A server lists more than is read; the message says what."""


class Allowance:
    """How much one server may make this program keep: so many bytes of JSON for all of its lists together.

    Args:
        max_bytes: That many.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_entries = max_bytes // _MIN_BYTES_OF_AN_ENTRY
        """How many entries one list may have."""
        self._max_bytes = max_bytes
        self._taken: dict[str, int] = {}

    def release(self, kind: Kind) -> None:
        """Note that nothing of a list is kept any more, since it is read again or was refused."""
        self._taken.pop(kind.method, None)

    def take(self, kind: Kind, page: Mapping[str, Any]) -> None:
        """Note that a page of a list is kept.

        Raises:
            ListingTooLargeError: That is more than the server may make this program keep.
        """
        self._taken[kind.method] = self._taken.get(kind.method, 0) + len(to_json(page))
        if sum(self._taken.values()) > self._max_bytes:
            self.release(kind)
            raise ListingTooLargeError(f"its lists are larger than {mebibytes(self._max_bytes)} in all")


async def follow_cursors(read_page: Callable[[str | None], Awaitable[str | None]], max_pages: float = math.inf) -> bool:
    """Read the pages of a listing, one after the other; return whether the last one was reached.

    Args:
        read_page: Reads the page at a cursor, and returns the next cursor, or `None` if no other page is wanted.
        max_pages: How many pages are read. A cursor that comes a second time ends the listing, too: it has no end.
    """
    cursor: str | None = None
    seen: set[str] = set()
    while len(seen) < max_pages:
        cursor = await read_page(cursor)
        if cursor is None:
            return True
        if cursor in seen:
            return False
        seen.add(cursor)
    return False


async def read_list(
    client: Client, server: str, kind: Kind, allowance: Allowance, *, page_seconds: float, most: int | None = None
) -> dict[str, BaseModel]:
    """Return the entries of a list by key, in the order of the server.

    Raises:
        TooManyToolsError: There are more than `most`.
        ListingError: It sent no list, or one without a single valid entry.
        ListingTooLargeError: There is more than is read of any server.
        MCPError: The server refused to list, or took longer than `page_seconds` for one page.
    """
    entries: list[Any] = []
    allowance.release(kind)

    async def read_page(cursor: str | None) -> str | None:
        page = await raw_request(
            client, kind.method, {} if cursor is None else {"cursor": cursor}, seconds=page_seconds
        )
        allowance.take(kind, page)
        entries.extend(entries_of(page, kind.member, kind.method))
        if most is not None and len(entries) > most:
            raise TooManyToolsError
        if len(entries) > allowance.max_entries:
            allowance.release(kind)
            raise ListingTooLargeError(f"it lists more than {allowance.max_entries:,} {kind.noun}s")
        following: object = page.get("nextCursor")
        if following is not None and not isinstance(following, str):
            raise ListingError(f"its {kind.method} is malformed: `nextCursor` is no string")
        return following

    if not await follow_cursors(read_page, _MAX_PAGES):
        text = "%s: its list of %ss does not end; the first %d are used"
        logger.warning(text, server, kind.noun, len(entries), extra={"server": server})
    usable = await usable_entries(entries, server, kind)
    if entries and not usable:
        place = "the log says at which member the first fails"
        raise ListingError(f"its {kind.method} holds no valid {kind.noun}; {place}")
    return usable


async def read_tools(
    client: Client, server: str, allowance: Allowance, *, page_seconds: float, most: int | None = None
) -> dict[str, Tool]:
    """Return the tools of a server by name, callable without being listed again; raises what `read_list` raises."""
    if client.server_capabilities.tools is None:
        return {}
    listed = await read_list(client, server, TOOLS, allowance, page_seconds=page_seconds, most=most)
    tools = cast("list[Tool]", [*listed.values()])
    kept = {tool.name: tool for tool in absorb_tools(client, tools, complete=True)}
    for name in listed.keys() - kept.keys():
        logger.warning("%s: tool %r is left out: its x-mcp-header is invalid", server, name, extra={"server": server})
    return kept


def entries_of(page: Mapping[str, Any], member: str, method: str) -> list[Any]:
    """Return the entries of a page, valid or not.

    Raises:
        ListingError: `member` of the page is no array.
    """
    listed = page.get(member)
    if not isinstance(listed, list):
        problem = "is missing" if listed is None else "is no array"
        raise ListingError(f"its {method} is malformed: `{member}` {problem}")
    return cast("list[Any]", listed)


async def usable_entries(
    entries: Sequence[Any], server: str, kind: Kind, *, level: int = logging.WARNING
) -> dict[str, BaseModel]:
    """Return the valid entries by key; the others, and duplicates, are reported at `level`."""
    usable: dict[str, BaseModel] = {}

    def leave_out(text: str, detail: str) -> None:
        logger.log(level, text, server, kind.noun, detail, extra={"server": server})

    for number, entry in enumerate(entries, 1):
        if number % _ENTRIES_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        try:
            valid = kind.model.model_validate(entry, by_name=False)
        except ValidationError as error:
            leave_out("%s: a %s is left out: it is invalid at %r", ".".join(map(str, error.errors()[0]["loc"])))
            continue
        key = str(getattr(valid, kind.key))
        if key in usable:
            leave_out("%s: the second %s named %r is left out", key)
        else:
            usable[key] = valid
    return usable


class Lists:
    """The prompts, resources and templates of one server on one connection, read when somebody asks for them.

    Args:
        client: The connection.
        server: The server's name, for the log.
        allowance: How much of its lists is read.
        on_faults: Called with the faults of its lists whenever they have changed, with an empty text when none is left.
    """

    def __init__(
        self, client: Client, server: str, allowance: Allowance, on_faults: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = client
        self._allowance = allowance
        self._server = server
        self._on_faults = on_faults
        self._faults: dict[str, str] = {}
        self._read: dict[str, tuple[float, Mapping[str, BaseModel]]] = {}
        self._locks = {kind.method: anyio.Lock() for kind in (PROMPTS, RESOURCES, TEMPLATES)}
        self._changes = 0

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind by key; none where the server has none or fails to list."""
        offered = self._client.server_capabilities
        capability = offered.prompts if kind is PROMPTS else offered.resources
        if capability is None:
            return {}
        async with self._locks[kind.method]:
            until, entries = self._read.get(kind.method, (-math.inf, {}))
            if anyio.current_time() < until:
                return entries
            before = self._changes
            entries, failed_seconds = await self._read_again(kind)
            seconds = failed_seconds or (math.inf if capability.list_changed else _FRESH_SECONDS)
            if before == self._changes:
                self._read[kind.method] = anyio.current_time() + seconds, entries
            return entries

    async def _read_again(self, kind: Kind) -> tuple[Mapping[str, BaseModel], float]:
        """Return the entries, and for how long the server is left alone if it failed to list them."""
        try:
            with anyio.fail_after(_LIST_SECONDS):
                entries = await read_list(self._client, self._server, kind, self._allowance, page_seconds=_LIST_SECONDS)
        except (ListingError, MCPError, TimeoutError) as error:
            # Templates are optional, and there is no capability that says so.
            if not isinstance(error, MCPError) or error.code != METHOD_NOT_FOUND or kind is not TEMPLATES:
                reason = quoted(error.message) if isinstance(error, MCPError) else str(error)
                fault = f"its list of {kind.noun}s failed: {reason or f'it took more than {_LIST_SECONDS} s'}"
                logger.warning("%s: %s", self._server, fault, extra={"server": self._server})
                self._note(kind, fault)
            return {}, _EXCESS_SECONDS if isinstance(error, ListingTooLargeError) else _FAILED_SECONDS
        self._note(kind, None)
        return entries, 0

    def forget(self, event: ServerEvent) -> bool:
        """Read the changed lists again at the next request for them; return whether any was known before."""
        self._changes += 1
        kinds: Sequence[Kind] = (PROMPTS,) if isinstance(event, PromptsListChanged) else (RESOURCES, TEMPLATES)
        known = [self._read.pop(kind.method, None) is not None for kind in kinds]
        return any(known)

    def _note(self, kind: Kind, fault: str | None) -> None:
        if self._faults.get(kind.method) == fault:
            return
        self._faults.pop(kind.method, None)
        if fault is not None:
            self._faults[kind.method] = fault
        self._on_faults("; ".join(self._faults.values()))


class SavedLists:
    """The prompts, resources and templates of a server that is not connected, as it listed them last.

    Args:
        saved: The entries of each kind.
    """

    def __init__(self, saved: Mapping[Kind, Sequence[BaseModel]]) -> None:
        self._saved = {
            kind.method: {str(getattr(one, kind.key)): one for one in entries} for kind, entries in saved.items()
        }

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind by key."""
        return self._saved.get(kind.method, {})

    def forget(self, event: ServerEvent) -> bool:
        """Return `False`: there is no connection to read a list from again."""
        return False
