"""A connected server whose catalog stays where it is: listed there page by page, and searched there.

What it sends may be anything: what is no tool is left out, and time, pages and sizes are bounded.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio
from mcp import Client, MCPError
from mcp_ext_tools_search.client.raw import raw_request
from mcp_ext_tools_search.ranking.terms import trimmed
from mcp_ext_tools_search.types import METHOD, ServerSettings
from mcp_types import Tool
from tools_search_hosts import own_name, qualified_name

from tools_search_server.base.revealing import quoted
from tools_search_server.upstreams.remote_bounds import BOUND_SECONDS, Bounds, NotAnswered
from tools_search_server.upstreams.remote_hits import RemoteHit
from tools_search_server.upstreams.upstream_listing import TOOLS, ListingError, entries_of, usable_entries
from tools_search_server.upstreams.upstream_session import absorb_tools

__all__ = ["Remote", "RemotePage"]

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
class RemotePage:
    """One page of a server's list."""

    tools: Sequence[Tool]
    next_cursor: str | None


class Remote:
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
        self._page: tuple[str | None, float, RemotePage] | None = None
        self._known: OrderedDict[str, Tool] = OrderedDict()

    def changed(self) -> None:
        """Note that the server has told of a change of its list."""
        self.changes += 1
        self._page = None
        self._known.clear()

    def seen(self, name: str) -> Tool | None:
        """Return a definition that has passed lately, by the server's own name for the tool."""
        return self._known.get(name)

    async def page(self, cursor: str | None) -> RemotePage:
        """Return the page of the list at `cursor`, or the first one.

        Raises:
            MCPError: -32602, the server does not know the cursor (any more).
            NotAnswered: It failed otherwise, or took too long.
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
        page = RemotePage(tuple((await self._usable(answer, TOOLS.method)).values()), following)
        self._page = cursor, anyio.current_time() + _FRESH_SECONDS, page
        return page

    async def search(self, query: str) -> Sequence[RemoteHit]:
        """Return the best of what the server finds for `query`, in its order: always as many, whoever asks.

        Raises:
            NotAnswered: It failed or took too long.
        """
        try:
            return await self._bounds.within(lambda: self._search(query))
        except MCPError as error:
            raise NotAnswered(f"The MCP server {self._server!r} refused to search: {quoted(error.message)}") from error

    async def lookup(self, name: str) -> Tool | None:
        """Return the tool that the server calls `name`, which its search has to find first of all.

        Raises:
            NotAnswered: It failed or took too long.
        """
        if name != trimmed(name) or not 0 < len(name) <= _MOST_QUERY_CHARS:
            return None
        limit = min(self._limit, _MOST_LOOKED_AT)
        try:
            answer = await self._answered(METHOD, {"query": name, "limit": limit})
            return (await self._usable(answer)).get(name)
        except MCPError as error:
            raise NotAnswered(f"The MCP server {self._server!r} refused to search: {quoted(error.message)}") from error

    async def find(self, public: str) -> Tool | None:
        """Return the tool with this public name.

        A name that had to be altered says nothing of the server's own, so that its list may have to be read for it.

        Raises:
            NotAnswered: The server failed or took too long.
        """
        if (own := own_name(self._server, public)) is not None:
            return await self.lookup(own)
        known = [name for name in self._known if qualified_name(self._server, name) == public]
        return await self.lookup(known[0]) if known else await self._walk_to(public)

    async def make_callable(self, name: str) -> None:
        """Let the session know what it has to for a call: over HTTP, arguments of some tools are sent as headers too.

        Raises:
            NotAnswered: The server failed or took too long.
        """
        if name not in self._known:
            await self.lookup(name)

    async def _search(self, query: str) -> Sequence[RemoteHit]:
        found: dict[str, RemoteHit] = {}
        cursors: set[str] = set()
        params: dict[str, Any] = {"query": trimmed(query)[:_MOST_QUERY_CHARS], "limit": self._limit}
        for _ in range(_MOST_PAGES):
            page = await raw_request(self._client, METHOD, params, seconds=BOUND_SECONDS)
            for name, tool in (await self._usable(page)).items():
                found.setdefault(name, RemoteHit.of(tool))
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
        raise NotAnswered(f"The MCP server {self._server!r} has too many tools to find {public!r} in time")

    async def _answered(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return await self._bounds.within(lambda: raw_request(self._client, method, params, seconds=BOUND_SECONDS))

    async def _usable(self, page: Mapping[str, Any], method: str = METHOD) -> dict[str, Tool]:
        try:
            entries = entries_of(page, TOOLS.member, method)
        except ListingError as error:
            raise NotAnswered(f"The MCP server {self._server!r} did not answer: {error}") from error
        # At DEBUG: what is wrong with a page is wrong with it in each search.
        tools = cast("dict[str, Tool]", await usable_entries(entries, self._server, TOOLS, level=logging.DEBUG))
        usable = {tool.name: tool for tool in absorb_tools(self._client, list(tools.values()), complete=False)}
        self._known.update(usable)
        while len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return usable
