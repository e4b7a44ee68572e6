"""One server: its tools found by search where it offers that, by listing and ranking here where not, and called.

A listing comes from a server that may never stop: pages, tools and cursors are bounded.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_tools_search.client import hit_metadata, read_pages, server_settings
from mcp_ext_tools_search.client.listing import ListedPage, list_page
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import METHOD, WHITE_SPACE, HitMetadata, SearchToolsResult, ServerSettings
from mcp_types import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ListToolsResult,
    RequestParamsMeta,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_ranking import default_ranker

from tools_search_client.errors import (
    InvalidServerResultError,
    ServerBusyError,
    ServerRefusedError,
    ServerUnavailableError,
)
from tools_search_client.found import Era, Found, FoundTool, Mode
from tools_search_client.servers.cache import CacheScope, ExpiringCache, canonical_key
from tools_search_client.servers.faults import server_faults

FetchPage = Callable[[str | None], Awaitable[ListedPage]]
"""Asks for the page at a cursor, `None` for the first."""


@dataclass(frozen=True, slots=True)
class ListingBounds:
    """How much of a listing is believed before it counts as endless."""

    max_pages: int = 1_000
    max_tools: int = 100_000


@dataclass(frozen=True, slots=True)
class Listing:
    """Every tool of a server, in its own order, each name once."""

    tools: tuple[Tool, ...]

    ttl_seconds: float | None
    """How long the server lets it be kept: the shortest of its pages; `None` where it does not say."""

    scope: CacheScope
    """`private` if any page is."""

    left_out: int = 0
    """How many definitions are missing, because the protocol forbids them."""


async def list_everything(fetch: FetchPage, bounds: ListingBounds) -> Listing:
    """Return all pages of `tools/list` as one listing.

    An empty page is no end, and the first definition of a name is the one that counts. Definitions that the protocol
    forbids are left out and counted.

    Raises:
        InvalidServerResultError: A cursor came back that was used before, or the listing goes beyond its bounds.
    """
    pages: list[ListToolsResult] = []
    left_out = 0
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    used: set[str] = set()
    while True:
        listed = await fetch(cursor)
        page = listed.result
        pages.append(page)
        left_out += listed.left_out
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in used:
            raise InvalidServerResultError("tools/list gave a cursor a second time: its pages go round in a circle")
        if len(pages) >= bounds.max_pages:
            raise InvalidServerResultError(f"tools/list has no end after {len(pages)} pages")
        if len(tools) > bounds.max_tools:
            raise InvalidServerResultError(f"tools/list has no end after {len(tools)} tools")
        used.add(cursor)
    stated = [page.ttl_ms / 1000 for page in pages if "ttl_ms" in page.model_fields_set]
    private = any(page.cache_scope == "private" for page in pages)
    return Listing(tuple(tools.values()), min(stated, default=None), "private" if private else "public", left_out)


class LocalIndex:
    """The tools of one listing, ready to be searched on this side with the ranking of the reference server."""

    def __init__(self, tools: Sequence[Tool], ranker: Ranker) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._index = floored(ranker)(list(self._tools.values()))

    def search(self, query: str, limit: int) -> tuple[FoundTool, ...]:
        """Return the best `limit` tools for `query`; nothing for a blank one."""
        hits = self._index.search(query)[:limit]
        metadata = (HitMetadata(score=hit.score, matched=list(hit.matched)) for hit in hits)
        found = zip(hits, metadata, strict=True)
        return tuple(FoundTool(hit.name, "", self._tools[hit.name], own) for hit, own in found)


CALL_SECONDS: Final = 120.0
"""As long as a person waits; a gateway gives up earlier, so that it can say which of its servers did not answer."""

_MOST_EXTENSION: Final = 10
"""How many times as long as without it a call may take that reports progress."""

_LIST_METHOD: Final = "tools/list"

_LEGACY_CRASH: Final = 0
"""The code of an unexpected exception in an extension handler on legacy connections of the Python SDK."""

_UNSUPPORTED: Final = frozenset({METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY})
"""Codes that say that there is no search; the draft obliges to list after them."""

_BROKEN: Final = frozenset({INTERNAL_ERROR, _LEGACY_CRASH})
"""Codes that say that a search failed; the draft leaves open what follows.

After a timeout nothing is listed: a slow server does not get faster by it.
"""

_MOST_FAILURES: Final = 3
"""In a row; then the tools are listed for a while, however many they are."""

_CHEAP_LISTING: Final = 200
"""Tools that are listed for the sake of one search that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """How one server is searched; the defaults suit a host."""

    ranker: Ranker = field(default_factory=default_ranker)
    """Ranks on this side what had to be listed."""

    listing_ttl: float = 30.0
    """Seconds for which a listing is kept when the server does not say; 0 means until it announces a change."""

    bounds: ListingBounds = field(default_factory=ListingBounds)

    request_timeout: float | None = 30.0
    """Seconds for one search or listing as a whole, all pages; `None` means without limit."""

    call_timeout: float | None = CALL_SECONDS
    """Seconds for one call of a tool, counted again from each progress report, ten times as many in all; `None` means
    without limit."""

    retry_after: float = 1.0
    """Seconds until the next search is sent after one that failed; twice as long after each in a row."""

    busy_patience: float = 2.0
    """Seconds for which one search waits for a server that is too busy; then that is what the search comes to."""

    search_again_after: float = 300.0
    """Seconds for which a server is listed that refuses to be searched, or fails again and again."""

    authorization: Callable[[], str] = str
    """Names the authorization of the moment; what a server calls private is only answered to the one that asked."""


class ServerTools:
    """The tools of one connected server.

    It never probes: a server is searched because it advertised that, in either era and in either legacy place. Where it
    did, a failed search decides about the next one:

        searched -> paused      it failed: for a while, longer after each failure in a row, the next ones fail alike
        searched, paused -> listed      it was refused as unsupported, or failed for the third time in a row
        paused, listed -> searched      the time is over, or the server's tools changed

    After one failure, the tools are listed all the same where that is cheap. A server that is too busy is paused for as
    long as it said, and that does not count as a failure.

    Args:
        client: Connected, and declaring the extension (`extensions=[TOOLS_SEARCH]`); `open_server` sees to both.
        options: How to search.
        ended: Returns why the connection ended, for the errors that say so; empty where that is not known.
    """

    def __init__(
        self, client: Client, options: DiscoveryOptions | None = None, *, ended: Callable[[], str] = str
    ) -> None:
        self._client = client
        self._ended = ended
        self._options = options or DiscoveryOptions()
        self._settings = server_settings(client)
        # Read now, since a client forgets them when its connection ends, and reports are written after that.
        self.protocol_version: Final = client.protocol_version
        self.info: Final = client.server_info
        self.instructions: Final = client.instructions
        self._search_fault: ServerRefusedError | InvalidServerResultError | None = None
        self._search_failures = 0
        self._search_off_until = -math.inf
        self._retry_at = -math.inf
        self._left_out = 0
        self._answers: ExpiringCache[tuple[FoundTool, ...]] = ExpiringCache()
        self._listings: ExpiringCache[Listing] = ExpiringCache(capacity=1)
        self._index: tuple[Listing, LocalIndex] | None = None
        self._listing_turn = anyio.Lock()

    @property
    def settings(self) -> ServerSettings | None:
        """What the server says of its search; `None` where it offers none."""
        return self._settings

    @property
    def mode(self) -> Mode:
        """How the next search will be made, unless it fails."""
        return "list" if self._settings is None or anyio.current_time() < self._search_off_until else "search"

    @property
    def left_out(self) -> int:
        """How many tools the listing that was read last is without, because the protocol forbids their definitions."""
        return self._left_out

    @property
    def era(self) -> Era:
        """The family of revisions that the connection speaks."""
        return "modern" if self.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"

    @property
    def client(self) -> Client:
        """The connection, for everything that is not about finding tools."""
        return self._client

    async def search(self, query: str, *, limit: int = 10) -> Found:
        """Return the tools that fit `query`, best first, at most `limit` of them.

        Raises:
            ValueError: The query is blank or no Unicode text, or `limit` is not positive.
            ServerError: The server failed in a way that listing does not help, or the listing failed as well. After one
                search that failed the tools are listed where that is cheap; where it is not, the failure is raised. A
                server that stays too busy (`ServerBusyError`) is not listed, nor searched before it said.
        """
        found = await self._searched_or_listed(query, limit)
        if isinstance(found, Found):
            return found
        return Found(self._ranked_here(found, query, limit), "list", self._fallback)

    async def search_or_list(self, query: str, *, limit: int = 10) -> Found:
        """Search as `search` does, but leave the ranking of what had to be listed to the caller (`Found.listed`)."""
        found = await self._searched_or_listed(query, limit)
        return found if isinstance(found, Found) else Found((), "list", self._fallback, found.tools)

    async def list(self) -> tuple[Tool, ...]:
        """Return every tool, in the server's order, but for those whose definition is invalid (see `left_out`).

        Raises:
            ServerError: The server failed, or its listing has no end.
        """
        return (await self._listing()).tools

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> CallToolResult:
        """Call a tool that a search or a listing of this connection returned; nothing is listed for it.

        Raises:
            ServerError: The server failed. A tool that fails is a result with `is_error`, not an exception; so is a
                result of which nothing can be read. One that the protocol forbids in part keeps the rest, with a text
                for what is left out, where the client was made by `open_server`.
        """
        report = progress
        seconds = self._options.call_timeout or math.inf
        latest = anyio.current_time() + seconds * _MOST_EXTENSION
        async with self._deadline(self._options.call_timeout) as scope:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = max(scope.deadline, min(anyio.current_time() + seconds, latest))
                if report is not None:
                    await report(progress, total, message)

            try:
                return await self._client.call_tool(name, arguments, progress_callback=progressed, meta=meta)
            except RuntimeError as error:
                # The SDK's word for structured content that breaks the tool's own output schema.
                raise InvalidServerResultError(f"{error}; the call may have taken effect") from error

    def forget(self) -> None:
        """Drop everything that was kept, because the server's tools changed; a refused search is tried again."""
        self._answers.clear()
        self._listings.clear()
        self._index = None
        self._left_out = 0
        self._search_fault = None
        self._search_failures = 0
        self._search_off_until = self._retry_at = -math.inf

    async def _searched_or_listed(self, query: str, limit: int) -> Found | Listing:
        require_request(query, limit)
        if self.mode == "search":
            try:
                return await self._tried(query, limit)
            except (InvalidServerResultError, ServerRefusedError) as error:
                if not self._is_helped_by_listing(error):
                    raise
        return await self._listing()

    async def _tried(self, query: str, limit: int) -> Found:
        """Search, unless the last search failed a moment ago: that failure is raised again."""
        if self._search_fault is not None and anyio.current_time() < self._retry_at:
            raise self._search_fault
        try:
            found = Found(await self._searched(query, limit), "search")
        except (InvalidServerResultError, ServerRefusedError) as error:
            self._note_failed_search(error)
            raise
        self._search_fault, self._search_failures = None, 0
        return found

    def _note_failed_search(self, error: InvalidServerResultError | ServerRefusedError) -> None:
        if isinstance(error, ServerRefusedError) and error.code not in _UNSUPPORTED | _BROKEN:
            return
        self._search_fault = error
        now = anyio.current_time()
        if isinstance(error, ServerBusyError):
            self._retry_at = now + min(error.retry_after, self._options.search_again_after)
            return
        self._search_failures += 1
        self._retry_at = now + self._options.retry_after * 2 ** min(self._search_failures - 1, _MOST_FAILURES)
        is_unsupported = isinstance(error, ServerRefusedError) and error.code in _UNSUPPORTED
        if is_unsupported or self._search_failures >= _MOST_FAILURES:
            self._search_off_until = now + self._options.search_again_after

    def _is_helped_by_listing(self, error: InvalidServerResultError | ServerRefusedError) -> bool:
        if isinstance(error, InvalidServerResultError) or error.code in _UNSUPPORTED:
            return True
        kept = self._listings.get(self._key(_LIST_METHOD), partition=self._options.authorization())
        if isinstance(error, ServerBusyError):
            return kept is not None  # so that nothing has to be sent for it
        size = self._settings.catalog_size if self._settings else None
        is_cheap = kept is not None or (size is not None and size <= _CHEAP_LISTING)
        return error.code in _BROKEN and (self.mode == "list" or is_cheap)

    def _key(self, method: str, **params: Any) -> str:
        return canonical_key(method, {"protocolVersion": self.protocol_version, **params})

    @property
    def _fallback(self) -> str | None:
        """Why the tools are listed although the server offers a search."""
        match self._search_fault:
            case None:
                return None
            case InvalidServerResultError():
                return f"the search gave an invalid result: {self._search_fault}"
            case ServerRefusedError():
                return f"the search was refused: {self._search_fault}"

    async def _searched(self, query: str, limit: int) -> tuple[FoundTool, ...]:
        key = self._key(METHOD, query=query, limit=limit)
        partition = self._options.authorization()
        kept = self._answers.get(key, partition=partition)
        if kept is not None:
            return kept
        generation = self._answers.generation
        async with self._deadline(self._options.request_timeout):
            pages = await read_pages(
                self._client,
                query,
                limit=limit,
                enough=lambda pages: len(_each_once(pages)) >= limit,
                patience=self._options.busy_patience,
            )
        tools = _each_once(pages)[:limit]
        ttl = min(page.ttl_ms for page in pages) / 1000
        scope: CacheScope = "private" if any(page.cache_scope == "private" for page in pages) else "public"
        if len(tools) == limit or pages[-1].next_cursor is None:  # or a later page failed, and may not the next time
            self._answers.put(key, tools, ttl_seconds=ttl, scope=scope, partition=partition, generation=generation)
        return tools

    def _ranked_here(self, listing: Listing, query: str, limit: int) -> tuple[FoundTool, ...]:
        if self._index is None or self._index[0] is not listing:
            self._index = (listing, LocalIndex(listing.tools, self._options.ranker))
        return self._index[1].search(query, limit)

    async def _listing(self) -> Listing:
        key = self._key(_LIST_METHOD)
        partition = self._options.authorization()
        async with self._deadline(self._options.request_timeout), self._listing_turn:
            kept = self._listings.get(key, partition=partition)
            if kept is not None:
                return kept
            generation = self._listings.generation
            listing = await list_everything(partial(list_page, self._client), self._options.bounds)
        self._left_out = listing.left_out
        ttl = self._options.listing_ttl or math.inf
        if listing.ttl_seconds is not None and self.era == "modern":  # a legacy server states no time
            ttl = listing.ttl_seconds
        self._listings.put(
            key, listing, ttl_seconds=ttl, scope=listing.scope, partition=partition, generation=generation
        )
        return listing

    @asynccontextmanager
    async def _deadline(self, seconds: float | None) -> AsyncGenerator[anyio.CancelScope]:
        with server_faults(self._ended), anyio.fail_after(seconds) as scope:
            self._require_connection()
            yield scope

    def _require_connection(self) -> None:
        try:
            _ = self._client.session
        except RuntimeError as error:  # the SDK's word for a client that was left
            raise ServerUnavailableError("the connection ended") from error


def require_request(query: str, limit: int) -> None:
    """Refuse a search that no server could answer, before anything is sent.

    Raises:
        ValueError: The query is blank or no Unicode text, or the limit is not positive.
    """
    if not query.strip(WHITE_SPACE):
        raise ValueError("the query is blank: say in a few words what is needed")
    if any(unicodedata.category(character) == "Cs" for character in query):
        raise ValueError("the query is no Unicode text: it holds half a character")
    if limit < 1:
        raise ValueError("the limit must be at least 1")


async def list_as_found(tools: ServerTools) -> Found:
    """Return every tool of a server as an answer, in the server's order."""
    return Found(tuple(FoundTool(tool.name, "", tool) for tool in await tools.list()), "list")


def _each_once(pages: Sequence[SearchToolsResult]) -> tuple[FoundTool, ...]:
    tools: dict[str, FoundTool] = {}
    for page in pages:
        for tool in page.tools:
            tools.setdefault(tool.name, FoundTool(tool.name, "", tool, hit_metadata(tool) or HitMetadata(), "search"))
    return tuple(tools.values())
