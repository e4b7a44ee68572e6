"""Finds and calls one server's tools: by search if the server supports it, otherwise by listing and local ranking.

Resources, resource templates and prompts are found the same way. They are ranked in the form of tools, which carry the
original items.

A server could list forever, so pages, tools and cursors are limited.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeAlias, TypeVar, cast

import anyio
from mcp import Client, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_search_primitives import (
    PROMPTS,
    RESOURCE_TEMPLATES,
    RESOURCES,
    PrimitivesServerSettings,
    ResourcesSettings,
)
from mcp_ext_search_primitives.client import primitives_settings
from mcp_ext_tools_search.client import hit_metadata, raw_request, read_pages
from mcp_ext_tools_search.client.listing import ListedPage, list_page
from mcp_ext_tools_search.client.search import without_wrong_members
from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import (
    EXTENSION_ID,
    TOOLS,
    WHITE_SPACE,
    HitMetadata,
    Primitive,
    SearchResult,
    ServerSettings,
)
from mcp_types import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    RequestParamsMeta,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import PydanticSerializationError, to_json
from tools_search_hosts.messages import MAX_MESSAGE_BYTES, mebibytes
from tools_search_ranking import default_ranker

from tools_search_client.errors import (
    HostError,
    InvalidServerResultError,
    LocalError,
    ServerBusyError,
    ServerError,
    ServerRefusedError,
    ServerUnavailableError,
    require_count,
    require_kind,
    require_times,
)
from tools_search_client.found import Era, Found, FoundTool, Mode
from tools_search_client.json_values import require_sendable
from tools_search_client.servers.cache import CacheScope, ExpiringCache
from tools_search_client.servers.faults import server_faults

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")

_MAX_PAGES: Final = 1_000
_MAX_OFFERS: Final = 10_000
"""Maximum prompts, resources or templates on one server; a longer list counts as endless."""

_MAX_LIST_BYTES: Final = 8 * MAX_MESSAGE_BYTES
"""Maximum size of all pages of a list: without it, a thousand pages could fill the host's memory."""


@dataclass(frozen=True, slots=True)
class _ItemsPage:
    """The `ListedPage` of a list of items other than tools."""

    result: SearchResult
    left_out: int


FetchPage: TypeAlias = Callable[[str | None], Awaitable[ListedPage | _ItemsPage]]
"""Requests the page at a cursor; `None` requests the first."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """A server's complete list of one kind of item, in its own order, each key once."""

    items: tuple[Item, ...]

    ttl_seconds: float | None
    """How long the server allows caching it: the shortest time of its pages; `None` if the server does not say."""

    scope: CacheScope
    """`private` if any page is."""

    left_out: int = 0
    """Number of definitions left out because they are invalid under the protocol, or repeat a key of their page."""


async def list_everything(
    fetch: FetchPage,
    *,
    max_pages: int = _MAX_PAGES,
    max_items: int = 100_000,
    max_bytes: int = _MAX_LIST_BYTES,
    primitive: Primitive[Any] = TOOLS,
    items: dict[str, Any] | None = None,
) -> Listing[Any]:
    """Return all pages of a list (`tools/list` by default) as one listing.

    An empty page does not end the list. If a key is repeated, the first definition is kept. Invalid definitions are
    left out and counted, and so are repetitions within a page; between pages, they are due to a change of the list. A
    list that exceeds the limits counts as endless.

    Args:
        fetch: Requests a page.
        max_pages: The limit on pages.
        max_items: The limit on items.
        max_bytes: The limit on the pages' size as JSON, without what is left out of them.
        primitive: The kind of item.
        items: Gets the items by key, page by page, so that the caller has them if a later page fails; none of a list
            that has no end.

    Raises:
        InvalidServerResultError: A cursor was repeated, or the list exceeds its limits.
    """
    pages: list[ListedPage | _ItemsPage] = []
    items = {} if items is None else items
    repeated = size = 0

    async def read_page(cursor: str | None) -> str | None:
        nonlocal repeated, size
        pages.append(await fetch(cursor))
        result = pages[-1].result
        own = primitive.by_key(result)
        repeated += len(getattr(result, to_snake(primitive.member))) - len(own)
        for key, item in own.items():
            items.setdefault(key, item)
        if result.next_cursor is not None and (count := len(items)) > max_items:
            items.clear()
            raise InvalidServerResultError(f"{primitive.list_method} has no end after {count} {primitive.member}")
        if result.next_cursor is not None and (size := size + _size(result)) > max_bytes:
            items.clear()
            raise InvalidServerResultError(f"{primitive.list_method} has more than {mebibytes(max_bytes)}")
        return result.next_cursor

    if problem := await follow_cursors(read_page, max_pages):
        items.clear()
        raise InvalidServerResultError(f"{primitive.list_method} {problem}")
    results = [page.result for page in pages]
    return Listing(
        tuple(items.values()),
        min((result.ttl_ms / 1000 for result in results if "ttl_ms" in result.model_fields_set), default=None),
        "private" if any(result.cache_scope == "private" for result in results) else "public",
        sum(page.left_out for page in pages) + repeated,
    )


def _size(page: BaseModel) -> int:
    try:
        return len(to_json(page))
    except PydanticSerializationError:  # an unpaired surrogate, which a server in this process can return
        return len(repr(page))


class LocalIndex:
    """A listing's tools, indexed for local search with the reference server's ranking."""

    def __init__(self, tools: Sequence[Tool], ranker: Ranker) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._index = floored(ranker)(list(self._tools.values()))

    def search(self, query: str, limit: int) -> tuple[FoundTool, ...]:
        """Return the best `limit` tools for `query`; a blank query finds nothing."""
        return tuple(
            FoundTool(hit.name, "", self._tools[hit.name], HitMetadata(score=hit.score, matched=list(hit.matched)))
            for hit in self._index.search(query)[:limit]
        )


_MAX_EXTENSION: Final = 10
"""Factor by which reporting progress can extend a call's total time."""

_LEGACY_CRASH: Final = 0
"""The Python SDK's error code for an unexpected exception in an extension handler on a legacy connection."""

_UNSUPPORTED: Final = frozenset({METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY})
"""Codes that mean search is not supported; the draft requires falling back to listing."""

_BROKEN: Final = frozenset({INTERNAL_ERROR, _LEGACY_CRASH})
"""Codes that mean a search failed; the draft leaves the reaction open.

After a timeout, nothing is listed, because that would not make a slow server faster.
"""

_LISTING: Final = "list"
"""The cache key of the listing."""

_MAX_FAILURES: Final = 3
"""Consecutive failures after which the tools are listed for a while, however many there are."""

_CHEAP_LISTING: Final = 200
"""The most tools to list because of a single failed search."""

SECONDS: Final = Field(gt=0, allow_inf_nan=False, description="a number of seconds above 0")
"""How a configuration states a time."""


def stated(options: DataclassInstance) -> dict[str, Any]:
    """Return the options that are set, that is, not `None`."""
    of = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: value for name, value in of.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """The times of `DiscoveryOptions`, with their defaults. The annotations apply to a configuration."""

    listing_ttl: Annotated[float, Field(ge=0, allow_inf_nan=False, description="a number of seconds from 0 on")] = 30.0
    request_timeout: Annotated[float, SECONDS] = 30.0

    call_timeout: Annotated[float, SECONDS] = 120.0
    """As long as a person waits. A gateway times out earlier, so that it can report which server did not answer."""

    retry_after: Annotated[float, SECONDS] = 1.0
    busy_patience: Annotated[float, SECONDS] = 2.0
    search_again_after: Annotated[float, SECONDS] = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """Search options for one server. Options left out default to the configuration, then to the built-in defaults."""

    ranker: Ranker | None = None
    """Ranks listed tools locally."""

    listing_ttl: float | None = None
    """How many seconds to cache a listing if the server does not say; 0 means until the server announces a change."""

    request_timeout: float | None = None
    """Timeout in seconds for one search or listing, including all pages; `math.inf` means no limit."""

    call_timeout: float | None = None
    """Timeout in seconds for one tool call. Each progress report restarts it, up to ten times this in total; `math.inf`
    means no limit.
    """

    retry_after: float | None = None
    """Seconds to wait after a failed search before the next one; doubled after each consecutive failure."""

    busy_patience: float | None = None
    """How many seconds a search waits for a busy server before it fails with that error."""

    search_again_after: float | None = None
    """How many seconds to list a server that refuses searches or keeps failing."""

    authorization: Callable[[], str] | None = None
    """Returns the name of the current authorization. Answers that a server marks private are only reused for it."""

    def __post_init__(self) -> None:
        require_times(self, "request_timeout", "call_timeout")
        require_times(self, "listing_ttl", "retry_after", "busy_patience", "search_again_after", or_zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteDiscoveryOptions(ServerTimes):
    """`DiscoveryOptions` with every option set."""

    ranker: Ranker = field(default_factory=default_ranker)
    authorization: Callable[[], str] = str


_SearchError: TypeAlias = InvalidServerResultError | ServerRefusedError
"""Errors after which a listing can replace a failed search."""


@dataclass(slots=True)
class _Kept:
    """The cached state of a list. It is replaced when the list changes, so late answers go into the old one."""

    answers: ExpiringCache[tuple[Any, ...]] = field(default_factory=ExpiringCache[tuple[Any, ...]])
    """Search answers by query and limit."""
    listings: ExpiringCache[Listing[Any]] = field(default_factory=lambda: ExpiringCache[Listing[Any]](capacity=1))
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
                return Answered("search", await self._searched(query, limit))
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

    async def _searched(self, query: str, limit: int) -> tuple[Any, ...]:
        """Return the server's answer, or raise the error, which affects the next search."""
        kept, partition = self._kept, self._options.authorization()
        if kept.fault is not None and anyio.current_time() < kept.search_at:
            raise kept.fault
        found = kept.answers.get((query, limit), partition=partition)
        if found is None:
            try:
                async with self._deadline(self._options.request_timeout):
                    pages = await read_pages(
                        self._client,
                        query,
                        limit=limit,
                        enough=lambda pages: len(self.primitive.by_key(*pages)) >= limit,
                        patience=self._options.busy_patience,
                        primitive=self.primitive,
                    )
            except (InvalidServerResultError, ServerRefusedError) as error:
                self._note_failed_search(error)
                raise
            found = tuple(self.primitive.by_key(*pages).values())[:limit]
            ttl = min(page.ttl_ms for page in pages) / 1000
            scope: CacheScope = "private" if any(page.cache_scope == "private" for page in pages) else "public"
            is_whole = len(found) == limit or pages[-1].next_cursor is None
            if is_whole:  # otherwise a later page failed, and might succeed next time
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
                    listing = await self._listed(read)
                finally:
                    self._reading = None
        except ServerError as error:
            error.listed = tuple(read.values())
            raise
        self._kept.left_out = listing.left_out
        ttl = self._options.listing_ttl or math.inf
        is_modern = self._client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if listing.ttl_seconds is not None and is_modern:  # legacy servers do not state a TTL
            ttl = listing.ttl_seconds
        kept.listings.put(_LISTING, listing, ttl_seconds=ttl, scope=listing.scope, partition=partition)
        return listing

    async def _listed(self, read: dict[str, Any]) -> Listing[Any]:
        primitive, capabilities = self.primitive, self._client.server_capabilities
        is_optional = primitive is RESOURCE_TEMPLATES  # which have no capability of their own
        try:
            if primitive is TOOLS:
                is_optional = capabilities.tools is None  # a server without tools may not know `tools/list`
                return await list_everything(partial(list_page, self._client), items=read)
            if (capabilities.prompts if primitive is PROMPTS else capabilities.resources) is not None:
                fetch = partial(_list_items, self._client, primitive)
                return await list_everything(fetch, max_items=_MAX_OFFERS, primitive=primitive, items=read)
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND or not is_optional:
                raise
        return Listing((), None, "public")


async def _list_items(client: Client, primitive: Primitive[Any], cursor: str | None) -> _ItemsPage:
    """Request a page of a list, and leave out invalid items.

    Raises:
        InvalidServerResultError: The result is not a page.
        MCPError: The server refused or is gone.
    """
    page = await raw_request(client, primitive.list_method, {} if cursor is None else {"cursor": cursor}, seconds=None)
    listed, following = page.get(primitive.member), page.get("nextCursor")
    if not isinstance(listed, list) or not isinstance(following, str | None):
        member = "nextCursor" if isinstance(listed, list) else primitive.member
        raise InvalidServerResultError(f"{primitive.list_method} has a wrong {member!r}")
    entries, valid = cast("list[Any]", listed), list[Any]()
    for entry in entries:
        try:
            valid.append(primitive.item.model_validate(entry, by_name=False))
        except ValidationError:
            continue
    usable: dict[str, Any] = {primitive.member: valid} | ({} if following is None else {"nextCursor": following})
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        usable |= {name: page[name] for name in ("ttlMs", "cacheScope") if name in page}
    return _ItemsPage(without_wrong_members(primitive.result, usable), len(entries) - len(valid))


class ServerTools:
    """One connected server's tools and other items.

    Args:
        client: A connected client that declares the extension (`extensions=[TOOLS_SEARCH]`); if it does not, tools are
            listed. `open_server` takes care of both.
        options: Search options.
        ended: Returns why the connection ended, for error messages; empty if unknown.
    """

    def __init__(
        self, client: Client, options: DiscoveryOptions | None = None, *, ended: Callable[[], str] = str
    ) -> None:
        self._ended = ended
        self._options = CompleteDiscoveryOptions(**stated(options) if options else {})
        self.client: Final = client
        """The connection, for everything other than finding tools."""
        # Read them now, because a client discards them when its connection ends, before reports are written.
        self.settings: Final[PrimitivesServerSettings | None] = (
            primitives_settings(client) if _is_declared(client) else None
        )
        """The server's search settings; `None` if it has none, or the client does not declare the extension."""
        self.protocol_version: Final = client.protocol_version
        self.info: Final = client.server_info
        self.instructions: Final = client.instructions
        self.era: Final[Era] = "modern" if client.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"
        """The connection's protocol era."""
        self._discoveries = {
            primitive.method: Discovery(client, primitive, self.settings, self._options, self._deadline)
            for primitive in (TOOLS, RESOURCES, RESOURCE_TEMPLATES, PROMPTS)
        }
        self._index: tuple[tuple[Tool, ...], LocalIndex] | None = None
        """The tools of the last ranked listing, and their index."""
        self._calls: set[anyio.CancelScope] = set()
        """The deadlines of the calls in progress."""
        self._waits_for_person = 0
        self.host_fault: HostError | None = None
        """The last exception from a host callback; the server was only sent its name."""

    @property
    def mode(self) -> Mode:
        """How the next search for tools will be made, unless it fails."""
        return self.discovery().mode

    @property
    def left_out(self) -> int:
        """Number of tools left out of the last listing: invalid definitions, and those that repeat a name."""
        return self.discovery().left_out

    def discovery(self, primitive: Primitive[Any] = TOOLS) -> Discovery:
        """Return the `Discovery` for tools or other items."""
        return self._discoveries[primitive.method]

    async def search(self, query: str, *, limit: int = 10) -> Found:
        """Return up to `limit` tools that fit `query`, best first.

        Raises:
            LocalError: The query is blank or not valid Unicode, or `limit` is not positive.
            ServerError: The server failed in a way that listing cannot help with, or the listing failed too. After a
                single failed search, the tools are listed if that is cheap; otherwise the error is raised. A server
                that stays busy (`ServerBusyError`) is not listed, and not searched before the time it stated.
        """
        answer = await self.discovery().search_or_list(query, limit)
        if answer.mode == "search":
            found = (
                FoundTool(tool.name, "", tool, hit_metadata(tool) or HitMetadata(), "search") for tool in answer.items
            )
            return Found(tuple(found), "search")
        # The cached listing is the same object until it is read again.
        if self._index is None or self._index[0] is not answer.items:
            self._index = (answer.items, LocalIndex(answer.items, self._options.ranker))
        return Found(self._index[1].search(query, limit), "list", answer.fallback)

    async def list(self) -> tuple[Tool, ...]:
        """Return all tools in the server's order, except those with invalid definitions (see `left_out`).

        Raises:
            ServerError: The server failed, or its list is endless. If a later page failed, the error has the tools of
                the earlier ones (`listed`).
        """
        return await self.discovery().list()

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> CallToolResult:
        """Call a tool that a search or listing on this connection returned; this does not list the tools.

        Raises:
            LocalError: The name, arguments or `meta` cannot be sent as JSON.
            ServerError: The server failed. A failing tool, or a result with no valid part, gives a result with
                `is_error`, not an exception. With a client from `open_server`, a partly invalid result keeps its valid
                parts, with a text in place of the others.
        """
        given = {"name": name, "arguments": arguments, "_meta": meta}
        require_sendable(CallToolRequestParams, f"the call of {name!r}", **given)
        report = progress
        seconds = self._options.call_timeout
        latest = anyio.current_time() + seconds * _MAX_EXTENSION
        async with self.patience() as scope:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = max(scope.deadline, min(anyio.current_time() + seconds, latest))
                if report is not None:
                    await report(progress, total, message)

            try:
                return await self.client.call_tool(name, arguments, progress_callback=progressed, meta=meta)
            except RuntimeError as error:
                # The SDK's error for structured content that violates the tool's output schema.
                raise InvalidServerResultError(f"{error}; the call might have taken effect") from error

    @asynccontextmanager
    async def patience(self) -> AsyncGenerator[anyio.CancelScope]:
        """Limit the block, in which the server does something for the user such as a call, to `call_timeout`.

        Raises:
            ServerError: The server failed in the block.
            HostError: The server gave up because a host callback raised.
        """
        try:
            async with self._deadline(math.inf if self._waits_for_person else self._options.call_timeout) as scope:
                self._calls.add(scope)
                try:
                    yield scope
                finally:
                    self._calls.discard(scope)
        except ServerRefusedError as error:
            # The server was told which part of the host failed; an error that does not repeat it has another reason.
            fault, self.host_fault = self.host_fault, None
            if fault is None or fault.part not in str(error):
                raise
            raise fault from fault.__cause__

    @contextmanager
    def waiting_for_person(self) -> Generator[None]:
        """Suspend call timeouts in the block, in which a host callback asks a person on the server's behalf."""
        self._waits_for_person += 1
        for scope in self._calls:
            scope.deadline = math.inf
        try:
            yield
        finally:
            self._waits_for_person -= 1
            if not self._waits_for_person:  # nobody is asked any more, so every call has its whole timeout again
                for scope in self._calls:
                    scope.deadline = anyio.current_time() + self._options.call_timeout

    def forget(self, setting: str | None = None) -> None:
        """Clear the caches because the server's lists changed; a refused search is tried again.

        Args:
            setting: Which lists changed: `resources`, `prompts`, or tools if empty; all by default.
        """
        for discovery in self._discoveries.values():
            if setting is None or discovery.primitive.setting == setting:
                discovery.forget()

    def ending(self) -> ServerUnavailableError:
        """Return the error for an ended connection, with the reason if known."""
        how = self._ended()
        return ServerUnavailableError(f"the connection ended: {how}" if how else "the connection ended")

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncGenerator[anyio.CancelScope]:
        with server_faults(self._ended), anyio.fail_after(seconds) as scope:
            try:
                _ = self.client.session
            except RuntimeError as error:  # the SDK's error for a closed client
                raise self.ending() from error
            yield scope


def _is_declared(client: Client) -> bool:
    """Return whether a client declares the extension, without which it must not search (draft: Client Declaration)."""
    declared = client.session._extensions  # pyright: ignore[reportPrivateUsage] - a session has no public way
    return declared is not None and EXTENSION_ID in declared


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
