"""Delegated search: the catalog of an upstream that is searched and listed there, and not indexed here."""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import anyio
from mcp import Client, MCPError
from mcp_ext_tools_search.client import server_settings
from mcp_ext_tools_search.client.raw import raw_request
from mcp_ext_tools_search.ranking.terms import trimmed
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD, ServerSettings
from mcp_types import INVALID_PARAMS, Tool
from tools_search_hosts import own_name, qualified_name

from tools_search_server.base.redaction import quoted
from tools_search_server.upstreams.listing import (
    TOOLS,
    Allowance,
    ListingError,
    TooManyToolsError,
    entries_of,
    read_tools,
    usable_entries,
)
from tools_search_server.upstreams.session import absorb_tools

logger = logging.getLogger(__name__)

_WALK_SECONDS: Final = 10
_MOST_HITS: Final = 100
_MOST_PAGES: Final = 20
_MOST_LOOKED_AT: Final = 10
_MOST_QUERY_CHARS: Final = 1024
"""Draft, The Query: every server accepts so many."""

_MOST_CURSOR_CHARS: Final = 4096
_MOST_KEPT: Final = 1000
_FRESH_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class DelegatedPage:
    """One page of a server's list."""

    tools: Sequence[Tool]
    next_cursor: str | None


class DelegatedSearch:
    """The catalog of one server on one connection.

    Args:
        client: The connection.
        server: The server's name.
        settings: What it says of its search.
    """

    def __init__(self, client: Client, server: str, settings: ServerSettings) -> None:
        self.size = settings.catalog_size
        """About how many tools there are, where the server tells."""
        self.changes = 0
        """How often the server has told that its list has changed."""
        self._client = client
        self._server = server
        self._limit = min(settings.max_limit or _MOST_HITS, _MOST_HITS)
        self._bounds = Bounds(server)
        self._page: tuple[str | None, float, DelegatedPage] | None = None
        self._known: OrderedDict[str, Tool] = OrderedDict()

    def changed(self) -> None:
        """Note that the server has told of a change of its list."""
        self.changes += 1
        self._page = None
        self._known.clear()

    def seen(self, name: str) -> Tool | None:
        """Return a definition that has passed lately, by the server's own name for the tool."""
        return self._known.get(name)

    async def page(self, cursor: str | None) -> DelegatedPage:
        """Return the page of the list at `cursor`, or the first one.

        Raises:
            MCPError: -32602, the server does not know the cursor (any more).
            NoAnswerError: It failed otherwise, or took too long.
        """
        # A page may be larger than those that are made of it, each of which comes here.
        if self._page is not None and self._page[0] == cursor and anyio.current_time() < self._page[1]:
            return self._page[2]
        answer = await self._answered("tools/list", {} if cursor is None else {"cursor": cursor})
        following = answer.get("nextCursor")
        if not isinstance(following, str) or following == cursor or len(following) > _MOST_CURSOR_CHARS:
            if following is not None:
                logger.warning("%s: its list is cut: a cursor of it cannot be followed", self._server)
            following = None
        page = DelegatedPage(tuple((await self._usable(answer, TOOLS.method)).values()), following)
        self._page = cursor, anyio.current_time() + _FRESH_SECONDS, page
        return page

    async def search(self, query: str) -> Sequence[DelegatedHit]:
        """Return the best of what the server finds for `query`, in its order: always as many, whoever asks.

        Raises:
            NoAnswerError: It failed or took too long.
        """
        try:
            return await self._bounds.within(lambda: self._search(query))
        except MCPError as error:
            raise NoAnswerError(
                f"The MCP server {self._server!r} refused to search: {quoted(error.message)}"
            ) from error

    async def lookup(self, name: str) -> Tool | None:
        """Return the tool that the server calls `name`, which its search has to find first of all.

        Raises:
            NoAnswerError: It failed or took too long.
        """
        if name != trimmed(name) or not 0 < len(name) <= _MOST_QUERY_CHARS:
            return None
        limit = min(self._limit, _MOST_LOOKED_AT)
        try:
            answer = await self._answered(METHOD, {"query": name, "limit": limit})
            return (await self._usable(answer)).get(name)
        except MCPError as error:
            raise NoAnswerError(
                f"The MCP server {self._server!r} refused to search: {quoted(error.message)}"
            ) from error

    async def find(self, public: str) -> Tool | None:
        """Return the tool with this public name.

        A name that had to be altered says nothing of the server's own, so that its list may have to be read for it.

        Raises:
            NoAnswerError: The server failed or took too long.
        """
        if (own := own_name(self._server, public)) is not None:
            return await self.lookup(own)
        known = [name for name in self._known if qualified_name(self._server, name) == public]
        return await self.lookup(known[0]) if known else await self._walk_to(public)

    async def make_callable(self, name: str) -> None:
        """Let the session know what it has to for a call: over HTTP, arguments of some tools are sent as headers too.

        Raises:
            NoAnswerError: The server failed or took too long.
        """
        if name not in self._known:
            await self.lookup(name)

    async def _search(self, query: str) -> Sequence[DelegatedHit]:
        found: dict[str, DelegatedHit] = {}
        cursors: set[str] = set()
        params: dict[str, Any] = {"query": trimmed(query)[:_MOST_QUERY_CHARS], "limit": self._limit}
        for _ in range(_MOST_PAGES):
            page = await raw_request(self._client, METHOD, params, seconds=_BOUND_SECONDS)
            for name, tool in (await self._usable(page)).items():
                found.setdefault(name, DelegatedHit.of(tool))
            cursor = page.get("nextCursor")
            if len(found) >= _MOST_HITS or not isinstance(cursor, str) or cursor in cursors:
                break
            cursors.add(cursor)
            params["cursor"] = cursor
        return list(found.values())[:_MOST_HITS]

    async def _walk_to(self, public: str) -> Tool | None:
        cursor: str | None = None
        cursors: set[str] = set()
        with anyio.move_on_after(_WALK_SECONDS):
            while True:
                page = await self.page(cursor)
                for tool in page.tools:
                    if qualified_name(self._server, tool.name) == public:
                        return tool
                cursor = page.next_cursor
                if cursor is None or cursor in cursors:
                    return None
                cursors.add(cursor)
        raise NoAnswerError(f"The MCP server {self._server!r} has too many tools to find {public!r} in time")

    async def _answered(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return await self._bounds.within(lambda: raw_request(self._client, method, params, seconds=_BOUND_SECONDS))

    async def _usable(self, page: Mapping[str, Any], method: str = METHOD) -> dict[str, Tool]:
        try:
            entries = entries_of(page, TOOLS.member, method)
        except ListingError as error:
            raise NoAnswerError(f"The MCP server {self._server!r} did not answer: {error}") from error
        # At DEBUG: what is wrong with a page is wrong with it in each search.
        tools = cast("dict[str, Tool]", await usable_entries(entries, self._server, TOOLS, level=logging.DEBUG))
        usable = {tool.name: tool for tool in absorb_tools(self._client, list(tools.values()), complete=False)}
        self._known.update(usable)
        while len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return usable


_BOUND_SECONDS: Final = 3
"""How long one server may hold up a search or a page of a listing."""

_REST_SECONDS: Final = 10
"""How long a server that did not answer in time is left alone, so that it does not hold up every search."""

_MOST_AT_ONCE: Final = 8

_T = TypeVar("_T")


class NoAnswerError(Exception):
    """The server did not answer in time, or not with what was asked for; the text says which and why."""


class Bounds:
    """What is asked of one server.

    Args:
        server: Its name.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._limiter = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._rests_until = -math.inf

    async def within(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `ask` does.

        Raises:
            MCPError: -32602, the server refuses the parameters.
            NoAnswerError: Any other failure; or nothing was asked, since the last failure was a moment ago.
        """
        if anyio.current_time() < self._rests_until:
            raise NoAnswerError(f"The MCP server {self._server!r} did not answer in time a moment ago")
        is_asked = False
        try:
            with anyio.fail_after(_BOUND_SECONDS):
                async with self._limiter:
                    is_asked = True
                    return await ask()
        except (MCPError, TimeoutError) as error:
            if isinstance(error, MCPError) and error.code == INVALID_PARAMS:
                raise
            if is_asked:  # that there was no turn in time says how many ask, and nothing of the server
                self._rests_until = anyio.current_time() + _REST_SECONDS
            reason = quoted(error.message) if isinstance(error, MCPError) else f"it took more than {_BOUND_SECONDS} s"
            raise NoAnswerError(f"The MCP server {self._server!r} did not answer: {reason}") from error


_MEMBERS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_OF_A_HIT: Final = ("score", "matched")


@dataclass(frozen=True, slots=True)
class DelegatedHit:
    """A tool that a server has found."""

    tool: Tool
    """As the server lists it: without what speaks of its own search."""

    matched: tuple[str, ...]
    """Members of the definition that it says have matched."""

    @classmethod
    def of(cls, found: Tool) -> DelegatedHit:
        """Take the metadata of a hit off a definition."""
        meta = found.meta or {}
        published = meta.get(EXTENSION_ID)
        if not isinstance(published, dict):
            return cls(found, ())
        members = cast("dict[str, Any]", published)
        kept = {name: value for name, value in members.items() if name not in _OF_A_HIT}
        said = members.get("matched")
        matched = tuple(name for name in _MEMBERS if isinstance(said, list) and name in said)
        return cls(found.model_copy(update={"meta": {**meta, EXTENSION_ID: kept}}), matched)


async def read_catalog(
    client: Client, server: str, allowance: Allowance, *, index_at_most: int | None, page_seconds: float
) -> tuple[Mapping[str, Tool], DelegatedSearch | None]:
    """Return the tools of a server by name, or none of them and the way to search them where they are.

    Args:
        client: The connection.
        server: The server's name.
        allowance: How much of its lists is read.
        index_at_most: How many tools of a server that can be searched are indexed; `None` for all.
        page_seconds: How long the server may take for one page of its list.

    Raises:
        MCPError: The server refused to list, or took too long for a page.
        ListingTooLargeError: It lists more than is read.
    """
    settings = server_settings(client)
    if settings is not None and index_at_most is not None:
        if settings.catalog_size is None or settings.catalog_size <= index_at_most:
            try:
                return await read_tools(client, server, allowance, page_seconds=page_seconds, most=index_at_most), None
            except TooManyToolsError:
                pass
        remote = DelegatedSearch(client, server, settings)
        try:
            await remote.search(server)
        except NoAnswerError as failure:
            logger.warning("%s is indexed, since it cannot be searched: %s", server, failure, extra={"server": server})
        else:
            return {}, remote
    return await read_tools(client, server, allowance, page_seconds=page_seconds), None
