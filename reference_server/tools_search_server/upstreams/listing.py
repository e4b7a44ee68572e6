"""The lists of one upstream: every page of a listing, within bounds, without invalid entries."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import anyio
import anyio.lowlevel
from mcp import Client, MCPError
from mcp.server.subscriptions import PromptsListChanged, ServerEvent
from mcp_ext_tools_search.client.raw import raw_request
from mcp_types import (
    METHOD_NOT_FOUND,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedResult,
    Prompt,
    PromptsCapability,
    Resource,
    ResourcesCapability,
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
_BYTES_OF_AN_ENTRY: Final = 800
"""Of the bytes that lists may have, each entry counts for so many at least: a small tool takes 5 kB of memory, too."""

_AT_ONCE: Final = 100
"""Entries that are read before others have their turn."""


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


class TooManyToolsError(Exception):
    """A list is longer than is wanted."""


class ListingError(Exception):
    """What a server sent is no list; the text names the method, and the member that is wrong."""


class ListingTooLargeError(ListingError):
    """A server lists more than is read; the text says what."""


class Allowance:
    """What one server may make this program keep: so many bytes of JSON for all of its lists together.

    Args:
        max_bytes: How many.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_entries = max_bytes // _BYTES_OF_AN_ENTRY
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


async def read_tools(
    client: Client, server: str, allowance: Allowance, *, page_seconds: float, most: int | None = None
) -> dict[str, Tool]:
    """Return the tools of a server by name, as `read_entries` does.

    Raises:
        TooManyToolsError: There are more than `most`.
        ListingError: It sent no list, or one without a single valid tool.
        ListingTooLargeError: There is more than is read of any server.
        MCPError: The server refused to list, or took longer than `page_seconds` for one page.
    """
    if client.server_capabilities.tools is None:
        return {}
    tools = cast("dict[str, Tool]", await _read(client, server, TOOLS, allowance, page_seconds, most))
    kept = {tool.name: tool for tool in absorb_tools(client, list(tools.values()), complete=True)}
    for name in tools.keys() - kept.keys():
        logger.warning("%s: tool %r is left out: its x-mcp-header is invalid", server, name, extra={"server": server})
    return kept


async def read_entries(
    client: Client, server: str, kind: Kind, allowance: Allowance, *, page_seconds: float
) -> Mapping[str, BaseModel]:
    """Return what a server lists, by what tells the entries apart, in its order.

    What a server sends may be anything: an entry that is none and the second of two with one name are left out and
    reported, and a listing that does not end is cut.

    Raises:
        ListingError: It sent no list, or one without a single valid entry.
        MCPError: The server refused to list, or took longer than `page_seconds` for one page.
        ListingTooLargeError: There is more than is read of any server.
    """
    return await _read(client, server, kind, allowance, page_seconds)


async def _read(
    client: Client, server: str, kind: Kind, allowance: Allowance, page_seconds: float, most: int | None = None
) -> dict[str, BaseModel]:
    entries = await _entries(client, server, kind, allowance, page_seconds, most)
    usable = await usable_entries(entries, server, kind)
    if entries and not usable:
        raise ListingError(
            f"its {kind.method} holds no valid {kind.noun}; the log says at which member the first fails"
        )
    return usable


async def _entries(
    client: Client, server: str, kind: Kind, allowance: Allowance, page_seconds: float, most: int | None = None
) -> list[Any]:
    entries: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    allowance.release(kind)
    for _ in range(_MAX_PAGES):
        params = {} if cursor is None else {"cursor": cursor}
        page = await raw_request(client, kind.method, params, seconds=page_seconds)
        allowance.take(kind, page)
        entries += entries_of(page, kind.member, kind.method)
        if most is not None and len(entries) > most:
            raise TooManyToolsError
        if len(entries) > allowance.max_entries:
            allowance.release(kind)
            raise ListingTooLargeError(f"it lists more than {allowance.max_entries:,} {kind.noun}s")
        following: object = page.get("nextCursor")
        if following is None:
            return entries
        if not isinstance(following, str):
            raise ListingError(f"its {kind.method} is malformed: `nextCursor` is no string")
        cursor = following
        if cursor in seen:
            break
        seen.add(cursor)
    text = "%s: its list of %ss does not end; the first %d are used"
    logger.warning(text, server, kind.noun, len(entries), extra={"server": server})
    return entries


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


async def usable_entries(
    entries: Sequence[Any], server: str, kind: Kind, *, level: int = logging.WARNING
) -> dict[str, BaseModel]:
    """Return the entries by what tells them apart; what is none and the second of two alike is reported at `level`."""
    usable: dict[str, BaseModel] = {}
    for number, entry in enumerate(entries, 1):
        if number % _AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
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


_SECONDS: Final = 5
"""How long one server may hold up a listing of all of them."""

_FRESH_SECONDS: Final = 5
"""How long the list of a server is taken for current that does not tell of changes: as long as callers may keep it."""

_FAILED_SECONDS: Final = 30
"""How long a server that failed to list is left alone."""

_EXCESS_SECONDS: Final = 3600
"""How long a list is left alone that is larger than is read."""

_NEVER: Final[tuple[float, Mapping[str, BaseModel]]] = -math.inf, {}


class Listed(Protocol):
    """What a server lists beside its tools, wherever that is known from."""

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind, by what tells them apart."""
        ...

    def forget(self, event: ServerEvent) -> bool:
        """Read again what has changed when it is asked for next; tell whether it was known before."""
        ...


class KeptLists:
    """What a server listed when it was last connected.

    Args:
        kept: The entries by the method that lists them.
    """

    def __init__(self, kept: Mapping[str, Mapping[str, BaseModel]]) -> None:
        self._kept = kept

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind, by what tells them apart."""
        return self._kept.get(kind.method, {})

    def forget(self, event: ServerEvent) -> bool:
        """There is no connection to read anything again from."""
        return False


class Lists:
    """What a server lists beside its tools.

    Args:
        client: The connection.
        server: Its name, for the log.
        allowance: How much of its lists is read.
        on_faults: Called with what is wrong with its lists whenever that has changed, with nothing when nothing is.
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
        """Return the entries of a kind, by what tells them apart; none where the server has none or fails to list."""
        capability = self._capability(kind)
        if capability is None:
            return {}
        async with self._locks[kind.method]:
            until, entries = self._read.get(kind.method, _NEVER)
            if anyio.current_time() < until:
                return entries
            before = self._changes
            seconds = math.inf if capability.list_changed else _FRESH_SECONDS
            try:
                with anyio.fail_after(_SECONDS):
                    entries = await read_entries(
                        self._client, self._server, kind, self._allowance, page_seconds=_SECONDS
                    )
                self._note(kind, None)
            except (ListingError, MCPError, TimeoutError) as error:
                is_excess = isinstance(error, ListingTooLargeError)
                entries, seconds = _NEVER[1], _EXCESS_SECONDS if is_excess else _FAILED_SECONDS
                # Templates are optional, and there is no capability that says so.
                if not isinstance(error, MCPError) or error.code != METHOD_NOT_FOUND or kind is not TEMPLATES:
                    told = {"server": self._server}
                    reason = quoted(error.message) if isinstance(error, MCPError) else str(error)
                    reason = reason or f"it took more than {_SECONDS} s"
                    logger.warning("%s: its list of %ss failed: %s", self._server, kind.noun, reason, extra=told)
                    self._note(kind, f"its list of {kind.noun}s failed: {reason}")
            if before == self._changes:
                self._read[kind.method] = anyio.current_time() + seconds, entries
            return entries

    def forget(self, event: ServerEvent) -> bool:
        """Read again what has changed when it is asked for next; tell whether it was known before."""
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

    def _capability(self, kind: Kind) -> PromptsCapability | ResourcesCapability | None:
        offered = self._client.server_capabilities
        return offered.prompts if kind is PROMPTS else offered.resources
