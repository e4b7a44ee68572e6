"""Finds the items of one list of a server: by search if the server supports it, otherwise by listing.

Tools are found this way, and so are resources, resource templates and prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio
from mcp import Client
from mcp_ext_search_primitives import PrimitivesServerSettings, ResourcesSettings
from mcp_ext_tools_search.client import read_pages
from mcp_ext_tools_search.types import WHITE_SPACE, Primitive, ServerSettings
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_hosts.json_values import as_object
from tools_search_hosts.messages import MAX_MESSAGE_BYTES
from tools_search_hosts.results import UNREAD

from tools_search_client.errors import (
    InvalidServerResultError,
    LocalError,
    ServerBusyError,
    ServerError,
    ServerRefusedError,
    require_count,
    require_kind,
)
from tools_search_client.found import Mode
from tools_search_client.servers.cache import CacheScope, ExpiringCache
from tools_search_client.servers.discovery_options import CompleteDiscoveryOptions
from tools_search_client.servers.listing import MAX_LIST_BYTES, Listing, complete_listing, size_of

_LEGACY_CRASH: Final = 0
"""The Python SDK's error code for an unexpected exception in an extension handler on a legacy connection."""

_UNSUPPORTED: Final = frozenset({METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY})
"""Codes that mean search is not supported; the draft requires falling back to listing."""

_BROKEN: Final = frozenset({INTERNAL_ERROR, _LEGACY_CRASH})
"""Codes that mean a search failed; the draft leaves the reaction open.

After a timeout, nothing is listed, because that would not make a slow server faster.
"""

_MAX_KEPT: Final = 256
"""Maximum answers of searches to keep. A larger one than the others could be is not kept, so that all of them together
take no more memory than one list can.
"""

_LISTING: Final = "list"
"""The cache key of the listing."""

_MAX_FAILURES: Final = 3
"""Consecutive failures after which the tools are listed for a while, however many there are."""

_CHEAP_LISTING: Final = 200
"""The most tools to list because of a single failed search."""

_SearchError: TypeAlias = InvalidServerResultError | ServerRefusedError
"""Errors after which a listing can replace a failed search."""


@dataclass(slots=True)
class _Kept:
    """The cached state of a list. It is replaced when the list changes, so late answers go into the old one."""

    answers: ExpiringCache[Answered] = field(default_factory=lambda: ExpiringCache[Answered](_MAX_KEPT))
    """Search answers by query and limit."""
    listings: ExpiringCache[Listing[Any]] = field(default_factory=lambda: ExpiringCache[Listing[Any]](1))
    left_out: int = 0
    fault: _SearchError | None = None
    """Why the last search failed."""
    failures: int = 0
    """Number of consecutive failures."""
    search_at: float = -math.inf
    """When the next search can be sent; until then, searches fail with the last error."""
    listed_until: float = -math.inf


@dataclass(frozen=True, slots=True)
class Answered:
    """One server's answer to a search: the items found, best first, or everything it lists."""

    mode: Mode
    items: tuple[Any, ...]
    fallback: str | None = None
    """Why it was listed although it advertises search."""
    is_unread: bool = False
    """Whether the server says that it has not read all contents yet."""


class Discovery:
    """Finds the tools, or other items, of one connected server.

    It never probes: a server is only searched if it advertises search, in either era and in either legacy location.
    Then a failed search determines what happens to the next ones:

        searched -> paused      it failed: for a while, longer after each failure in a row, the next ones fail alike
        searched, paused -> listed      it was refused as unsupported, or failed for the third time in a row
        paused, listed -> searched      the time is over, or the list changed

    Even after a single failure, the list is read if that is cheap. A busy server is paused for as long as it
    says, which does not count as a failure.

    Args:
        client: A connected client.
        primitive: The kind of item to find.
        settings: All of the server's search settings, as `ServerTools.settings`.
        options: Search options.
        deadline: Limits the time in its block, and raises the server's errors as a `ServerError`.
    """

    def __init__(
        self,
        client: Client,
        primitive: Primitive[Any],
        settings: PrimitivesServerSettings | None,
        options: CompleteDiscoveryOptions,
        deadline: Callable[[float], AbstractAsyncContextManager[anyio.CancelScope]],
    ) -> None:
        self.primitive: Final = primitive
        # For tools, the settings are those of the extension itself.
        self.settings: Final[ServerSettings | None] = (
            getattr(settings, primitive.setting, None) if primitive.setting else settings
        )
        """The server's settings for this search; `None` if it has none, or the client does not declare the
        extension.
        """
        self._client = client
        self._is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._options = options
        self._deadline = deadline
        self._kept = _Kept()
        self._listing_turn = anyio.Lock()
        self._reading: tuple[str, dict[str, Any]] | None = None
        """The authorization for which the list is being read, and the items read so far, by key."""

    @property
    def mode(self) -> Mode:
        """How the next search will be made, unless it fails."""
        is_listed = self.settings is None or anyio.current_time() < self._kept.listed_until
        return "list" if is_listed else "search"

    @property
    def listed_so_far(self) -> tuple[Any, ...]:
        """The items of the pages that have been read if the list is being read, for the current authorization."""
        authorization, items = self._reading or ("", {})
        return tuple(items.values()) if authorization == self._options.authorization() else ()

    @property
    def left_out(self) -> int:
        """Number of definitions left out of the last listing: invalid ones, and those that repeat a name."""
        return self._kept.left_out

    async def search_or_list(self, query: str, limit: int) -> Answered:
        """Return what the server finds, or else everything it lists; raises the same errors as `ServerTools.search`."""
        require_request(query, limit)
        if self.mode == "search":
            try:
                return await self._searched(query, limit)
            except (InvalidServerResultError, ServerRefusedError) as error:
                if not self._is_helped_by_listing(error):
                    raise
        listing = await self._listing()
        fault, fallback = self._kept.fault, None
        if fault is not None:
            ended = "returned an invalid result" if isinstance(fault, InvalidServerResultError) else "was refused"
            fallback = f"the search {ended}: {fault}"
            if isinstance(self.settings, ResourcesSettings) and self.settings.unlisted:
                fallback += "; items that the server does not list are missing"
        return Answered("list", listing.items, fallback)

    async def list(self) -> tuple[Any, ...]:
        """Return everything in the server's order, except invalid definitions (see `left_out`).

        Raises:
            ServerError: The server failed, or its listing has no end. If a later page failed, the error has the items
                of the earlier ones (`listed`).
        """
        return (await self._listing()).items

    def forget(self) -> None:
        """Clear the cache because the list changed; a refused search is tried again."""
        self._kept = _Kept()

    async def _searched(self, query: str, limit: int) -> Answered:
        """Return the server's answer, or raise the error, which affects the next search."""
        kept, partition = self._kept, self._options.authorization()
        if kept.fault is not None and anyio.current_time() < kept.search_at:
            raise kept.fault.with_traceback(None)  # else the traceback grows with each search
        found = kept.answers.get((query, limit), partition=partition)
        if found is None:
            sizes: list[int] = []

            def is_enough(pages: Sequence[Any]) -> bool:
                sizes[len(pages) - 1 :] = [size_of(pages[-1])]  # a search that starts over reads the first page again
                return sum(sizes) > MAX_MESSAGE_BYTES or len(self.primitive.by_key(*pages)) >= limit

            try:
                async with self._deadline(self._options.request_timeout):
                    pages = await read_pages(
                        self._client,
                        query,
                        limit=limit,
                        enough=is_enough,
                        patience=self._options.busy_patience,
                        primitive=self.primitive,
                    )
            except (InvalidServerResultError, ServerRefusedError) as error:
                self._note_failed_search(error)
                raise
            is_unread = any(as_object(page.meta).get(UNREAD) is True for page in pages)
            found = Answered("search", tuple(self.primitive.by_key(*pages).values())[:limit], is_unread=is_unread)
            ttl = min(page.ttl_ms for page in pages) / 1000
            scope: CacheScope = "private" if any(page.cache_scope == "private" for page in pages) else "public"
            is_whole = len(found.items) == limit or pages[-1].next_cursor is None
            if is_whole and sum(sizes) <= MAX_LIST_BYTES // _MAX_KEPT:  # else, a later page failed, or it is too large
                kept.answers.put((query, limit), found, ttl_seconds=ttl, scope=scope, partition=partition)
        self._kept.fault, self._kept.failures = None, 0  # not of `kept`: search works, even if the list has changed
        return found

    def _note_failed_search(self, error: _SearchError) -> None:
        if isinstance(error, ServerRefusedError) and error.code not in _UNSUPPORTED | _BROKEN:
            return  # it is about this query, and the next one can succeed
        kept, options, now = self._kept, self._options, anyio.current_time()
        kept.fault = error
        if isinstance(error, ServerBusyError):
            kept.search_at = now + min(error.retry_after, options.search_again_after)
            return
        kept.failures += 1
        kept.search_at = now + options.retry_after * 2 ** min(kept.failures - 1, _MAX_FAILURES)
        is_unsupported = isinstance(error, ServerRefusedError) and error.code in _UNSUPPORTED
        if is_unsupported or kept.failures >= _MAX_FAILURES:
            kept.listed_until = now + options.search_again_after

    def _is_helped_by_listing(self, error: _SearchError) -> bool:
        if isinstance(error, InvalidServerResultError) or error.code in _UNSUPPORTED:
            return True
        is_listed = self._kept.listings.get(_LISTING, partition=self._options.authorization()) is not None
        if isinstance(error, ServerBusyError):
            return is_listed  # so that no request is needed
        size = self.settings.catalog_size if self.settings else None
        is_cheap = is_listed or (size is not None and size <= _CHEAP_LISTING)
        return error.code in _BROKEN and (self.mode == "list" or is_cheap)

    async def _listing(self) -> Listing[Any]:
        partition, read = self._options.authorization(), dict[str, Any]()
        try:
            # One caller reads the list, and the others wait for it, each until its own deadline.
            async with self._deadline(self._options.request_timeout), self._listing_turn:
                # The state from before the listing, so that a list that changes meanwhile is read again.
                kept = self._kept
                listing = kept.listings.get(_LISTING, partition=partition)
                if listing is not None:
                    return listing
                self._reading = partition, read
                try:
                    listing = await complete_listing(self._client, self.primitive, read)
                finally:
                    self._reading = None
        except ServerError as error:
            error.listed = tuple(read.values())
            raise
        self._kept.left_out = listing.left_out
        ttl = self._options.listing_ttl or math.inf
        if listing.ttl_seconds is not None and self._is_modern:  # legacy servers do not state a TTL
            ttl = listing.ttl_seconds
        kept.listings.put(_LISTING, listing, ttl_seconds=ttl, scope=listing.scope, partition=partition)
        return listing


def require_request(query: str, limit: int) -> None:
    """Reject an invalid search before anything is sent.

    Raises:
        LocalError: The query is not text, blank, or not valid Unicode, or the limit is not a positive number.
    """
    require_kind("query", query, str, instead="a text that describes the need")
    if not query.strip(WHITE_SPACE):
        raise LocalError("the query is blank: describe the need in a few words")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise LocalError("the query is not valid Unicode: it contains an unpaired surrogate") from None
    require_count("limit", limit, instead="a whole number")
