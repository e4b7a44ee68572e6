"""Searches that an upstream performs itself, and the catalogs of upstreams with too many tools to index here.

Servers are untrusted, and others must not wait for them. Invalid tools are omitted. Time, pages, sizes and concurrent
requests are limited. A server that did not answer in time is not asked again for a while.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import anyio
from mcp import Client, MCPError
from mcp_ext_search_primitives import RESOURCES, PrimitivesServerSettings
from mcp_ext_search_primitives.client import primitives_settings
from mcp_ext_tools_search.client import absorb, raw_request
from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.ranking.floor import trimmed
from mcp_ext_tools_search.types import TOOLS, ServerSettings, cache_hints, published_metadata
from mcp_types import INVALID_PARAMS, Tool
from tools_search_hosts import own_name, qualified_name
from tools_search_hosts.counts import number_of
from tools_search_hosts.json_values import as_object
from tools_search_hosts.results import UNREAD

from tools_search_server.base.redaction import quoted
from tools_search_server.upstreams.listing import Kind, ListingError, entries_of, usable_entries
from tools_search_server.upstreams.state import explained, is_modern

logger = logging.getLogger(__name__)

_BOUND_SECONDS: Final = 3
"""Timeout for one page of a server's listing, or for all pages of its search."""

_REST_SECONDS: Final = 10
"""How long not to ask a server that did not answer in time, so that it does not delay every search."""

_MAX_CONCURRENT: Final = 8
_WALK_SECONDS: Final = 10
_MAX_HITS: Final = 100
_MAX_SEARCH_PAGES: Final = 20
_LOOKUP_LIMIT: Final = 10
_MAX_QUERY_CHARS: Final = 1024
"""Every server accepts this many (draft: Request)."""

_MAX_CURSOR_CHARS: Final = 4096
_MAX_KNOWN: Final = 1000
_MAX_KNOWN_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of the JSON of definitions that are cached for later calls."""

_PAGE_FRESH_SECONDS: Final = 5

_MEMBERS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")

_T = TypeVar("_T")


class NoAnswerError(Exception):
    """The server did not answer in time, or failed. The message says which server, and why."""


class DelegatedPage(NamedTuple):
    """One page of a server's list."""

    tools: Sequence[Tool] = ()
    next_cursor: str | None = None


class UpstreamHits(NamedTuple):
    """A server's hits."""

    entries: Sequence[Any]
    """Valid definitions, in the server's order."""

    ttl_ms: float
    """How long the server allows to cache them."""

    is_unread: bool
    """Whether the server, a gateway, went without texts that it has not read yet."""


class Bounds:
    """Limits on requests to one server that others wait for: timeout, concurrency, and pauses after failures.

    `patience` is the factor for the timeout.
    """

    def __init__(self, server: str, patience: float = 1) -> None:
        self._server = server
        self._patience = patience
        self._limiter = anyio.CapacityLimiter(_MAX_CONCURRENT)
        self._rests_until = -math.inf

    @property
    def seconds(self) -> float:
        """How long one request may take."""
        return _BOUND_SECONDS * self._patience

    async def within(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of `ask`.

        Raises:
            MCPError: -32602, the server refused the parameters.
            NoAnswerError: Any other failure; or nothing was sent, because the last failure was a moment ago.
        """
        if anyio.current_time() < self._rests_until:
            raise NoAnswerError(f"The MCP server {self._server!r} did not answer in time a moment ago")
        is_asked = False
        try:
            # Including the wait for a turn: this is how long a caller may be delayed.
            with anyio.fail_after(self.seconds):
                async with self._limiter:
                    is_asked = True
                    return await ask()
        except (MCPError, TimeoutError) as error:
            # It has answered: the parameters, such as an expired cursor, are wrong and not the server.
            if isinstance(error, MCPError) and error.code == INVALID_PARAMS:
                raise
            if is_asked:  # a request that timed out in the queue says nothing about the server
                self._rests_until = anyio.current_time() + _REST_SECONDS
            reason = explained(error) if isinstance(error, MCPError) else f"it took more than {self.seconds:g} s"
            raise NoAnswerError(f"The MCP server {self._server!r} did not answer: {reason}") from error


class UpstreamSearch:
    """One server's search for one kind of items, on one connection to a server that advertises it.

    `max_limit` is the server's maximum page size, if it is stated, and `patience` the factor for time limits.
    """

    def __init__(self, client: Client, server: str, kind: Kind, max_limit: int | None, patience: float) -> None:
        self._client = client
        self._server = server
        self._kind = kind
        self._limit = min(max_limit or _MAX_HITS, _MAX_HITS)
        self.patience: Final = patience
        self._bounds = Bounds(server, patience)

    async def search(self, query: str) -> UpstreamHits:
        """Return the server's best hits for `query`, the same number for any caller.

        Raises:
            NoAnswerError: The server failed or took too long.
        """
        # By key, because a server may repeat a hit on a later page.
        found: dict[str, Any] = {}
        ttl_ms, is_unread = math.inf, False

        async def read_page(cursor: str | None) -> str | None:
            nonlocal ttl_ms, is_unread
            page = await self._search_page(query, self._limit, cursor)
            if is_modern(self._client):
                ttl_ms = min(ttl_ms, cache_hints(page)[0])
            is_unread |= as_object(page.get("_meta")).get(UNREAD) is True
            found.update({key: entry for key, entry in (await self._usable(page)).items() if key not in found})
            following = page.get("nextCursor")
            return following if isinstance(following, str) and len(found) < _MAX_HITS else None

        await self._searched(lambda: follow_cursors(read_page, _MAX_SEARCH_PAGES))
        return UpstreamHits(list(found.values())[:_MAX_HITS], ttl_ms, is_unread)

    async def _search_page(self, query: str, limit: int, cursor: str | None = None) -> dict[str, Any]:
        params = {"query": trimmed(query)[:_MAX_QUERY_CHARS], "limit": limit}
        params |= {} if cursor is None else {"cursor": cursor}
        return await raw_request(self._client, self._kind.method, params, seconds=self._bounds.seconds)

    async def _searched(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await self._bounds.within(ask)
        except MCPError as error:
            text = f"The MCP server {self._server!r} refused to search: {quoted(error.message)}"
            raise NoAnswerError(text) from error

    async def _usable(self, page: Mapping[str, Any], method: str = "") -> dict[str, Any]:
        """Return a page's valid entries by key. `method` is the page's method, if it is not a search."""
        try:
            entries = entries_of(page, self._kind.member, method or self._kind.method)
        except ListingError as error:
            raise NoAnswerError(f"The MCP server {self._server!r} did not answer: {error}") from error
        usable, faults = await usable_entries(entries, self._kind)
        if faults:  # at DEBUG level, because each search finds the same invalid entries
            count = number_of(len(faults), "entry", "entries")
            logger.debug("%s: %s left out, such as: %s", self._server, count, faults[0])
        return usable


@dataclass(frozen=True)
class OfferedSearches:
    """A server's own searches for resources, templates and prompts, on one connection."""

    by_kind: Mapping[Kind, UpstreamSearch] = field(default_factory=dict[Kind, UpstreamSearch])

    contents: bool = False
    """Whether the server searches the content of resources."""

    unlisted: bool = False
    """Whether the server finds unlisted resources (draft: Resources That Are Not Listed)."""

    @classmethod
    def of(cls, client: Client, server: str, kinds: Iterable[Kind], patience: float = 1) -> OfferedSearches:
        """Return the searches for `kinds` that a connected server advertises."""
        stated = primitives_settings(client) or PrimitivesServerSettings()
        settings = {"resources": stated.resources, "prompts": stated.prompts}
        by_kind = {
            kind: UpstreamSearch(client, server, kind, own.max_limit, patience)
            for kind in kinds
            if (own := settings[kind.setting]) is not None
        }
        resources = stated.resources if RESOURCES in by_kind else None
        return cls(by_kind, bool(resources and resources.contents), bool(resources and resources.unlisted))


class DelegatedSearch(UpstreamSearch):
    """The tools of one server on one connection, which the server itself searches and lists."""

    def __init__(self, client: Client, server: str, settings: ServerSettings, patience: float = 1) -> None:
        super().__init__(client, server, TOOLS, settings.max_limit, patience)
        self.size = settings.catalog_size
        """The approximate number of tools, if the server states it."""
        self.changes = 0
        """The number of list changes that the server has announced."""
        self._page: tuple[str | None, float, DelegatedPage] | None = None
        self._known: OrderedDict[str, Tool] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._absorbed = 0
        """Number of definitions absorbed by the session since all but the known ones were last removed from it."""

    def changed(self) -> None:
        """Record that the server has announced a list change."""
        self.changes += 1
        self._page = None
        self._known.clear()
        self._sizes.clear()

    def seen(self, name: str) -> Tool | None:
        """Return a recently listed or found definition, by the server's own name for the tool."""
        return self._known.get(name)

    async def page(self, cursor: str | None) -> DelegatedPage:
        """Return the page of the list at `cursor`, or the first page.

        Raises:
            MCPError: -32602, the server does not accept the cursor.
            NoAnswerError: The server failed otherwise, or took too long.
        """
        # A server's page may be larger than the gateway's, so several gateway pages may be made from it.
        if self._page is not None and self._page[0] == cursor and anyio.current_time() < self._page[1]:
            return self._page[2]
        params = {} if cursor is None else {"cursor": cursor}
        answer = await self._bounds.within(
            lambda: raw_request(self._client, TOOLS.list_method, params, seconds=self._bounds.seconds)
        )
        following = answer.get("nextCursor")
        # The gateway's cursors contain it, and a server that returns the cursor it was given would never end.
        if not isinstance(following, str) or following == cursor or len(following) > _MAX_CURSOR_CHARS:
            if following is not None:
                logger.warning("%s: its list is truncated: one of its cursors cannot be followed", self._server)
            following = None
        page = DelegatedPage(tuple((await self._usable(answer, TOOLS.list_method)).values()), following)
        self._page = cursor, anyio.current_time() + _PAGE_FRESH_SECONDS, page
        return page

    async def lookup(self, name: str) -> Tool | None:
        """Search for the tool with the server's own name `name`, which ranks first (draft: Order and Matching).

        Raises:
            NoAnswerError: The server failed or took too long.
        """
        if name != trimmed(name) or not 0 < len(name) <= _MAX_QUERY_CHARS:
            return None
        page = await self._searched(lambda: self._search_page(name, min(self._limit, _LOOKUP_LIMIT)))
        return (await self._usable(page)).get(name)

    async def find(self, public: str) -> Tool | None:
        """Return the tool with this public name.

        An altered name does not contain the server's own name, so this may have to read the server's list.

        Raises:
            NoAnswerError: The server failed or took too long.
        """
        if (own := own_name(self._server, public)) is not None:
            return await self.lookup(own)
        if known := [name for name in self._known if qualified_name(self._server, name) == public]:
            return await self.lookup(known[0])  # which finds its current definition
        found: list[Tool] = []

        async def read_page(cursor: str | None) -> str | None:
            page = await self.page(cursor)
            found.extend(tool for tool in page.tools if qualified_name(self._server, tool.name) == public)
            return None if found else page.next_cursor

        with anyio.move_on_after(_WALK_SECONDS):
            await follow_cursors(read_page)
            return found[0] if found else None
        raise NoAnswerError(f"The MCP server {self._server!r} has too many tools to find {public!r} in time")

    async def _usable(self, page: Mapping[str, Any], method: str = "") -> dict[str, Tool]:
        tools = await super()._usable(page, method)
        # The session must know a tool's headers before it is called. It refuses tools with invalid ones.
        usable = {tool.name: tool for tool in absorb(self._client.session, [*tools.values()])}
        self._known.update(usable)
        self._sizes.update({name: len(tool.model_dump_json()) for name, tool in usable.items()})
        size = sum(self._sizes.values())
        while len(self._known) > _MAX_KNOWN or (size > _MAX_KNOWN_BYTES and self._known):
            size -= self._sizes.pop(self._known.popitem(last=False)[0])
        self._absorbed += len(usable)
        if self._absorbed > _MAX_KNOWN:  # the session removes nothing, and such a server may have any number of tools
            absorb(self._client.session, [*self._known.values()], complete=True)
            self._absorbed = 0
        return usable


def matched_members(found: Tool) -> tuple[str, ...]:
    """Return the matching members of a hit's definition, as stated by its server."""
    stated = published_metadata(found.meta).get("matched")
    return tuple(name for name in _MEMBERS if isinstance(stated, list) and name in stated)
