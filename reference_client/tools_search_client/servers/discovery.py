"""One server: its tools found by search where it offers that, by listing and ranking here where not, and called.

Resources, templates of resources and prompts are found in the same way. They are ranked in the form of tools, and
carried next to it.

A listing comes from a server that may never stop: pages, tools and cursors are bounded.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

import anyio
from mcp import Client, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_search_primitives import (
    PROMPTS,
    RESOURCE_TEMPLATES,
    RESOURCES,
    PrimitiveSettings,
    PrimitivesServerSettings,
    ResourcesSettings,
)
from mcp_ext_search_primitives.client import primitives_settings
from mcp_ext_tools_search.client import hit_metadata, raw_request, read_pages
from mcp_ext_tools_search.client.listing import list_page
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
    CallToolResult,
    RequestParamsMeta,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake
from tools_search_ranking import default_ranker

from tools_search_client.errors import (
    HostError,
    InvalidServerResultError,
    ServerBusyError,
    ServerRefusedError,
    ServerUnavailableError,
)
from tools_search_client.found import Era, Found, FoundTool, Mode
from tools_search_client.json_values import require_json
from tools_search_client.servers.cache import CacheScope, ExpiringCache
from tools_search_client.servers.faults import server_faults

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")

_MAX_PAGES: Final = 1_000
_MAX_OFFERS: Final = 10_000
"""Prompts, resources or templates of one server beyond which a list counts as endless."""


class _Page(Protocol):
    """The usable part of one page of a list."""

    @property
    def result(self) -> Any: ...
    @property
    def left_out(self) -> int: ...


FetchPage: TypeAlias = Callable[[str | None], Awaitable[_Page]]
"""Asks for the page at a cursor, `None` for the first."""


@dataclass(frozen=True, slots=True)
class _ItemsPage:
    """A page of a list of other items than tools."""

    result: SearchResult
    left_out: int


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """Everything that a server lists of one kind, in its own order, each key once."""

    items: tuple[Item, ...]

    ttl_seconds: float | None
    """How long the server lets it be kept: the shortest of its pages; `None` where it does not say."""

    scope: CacheScope
    """`private` if any page is."""

    left_out: int = 0
    """How many definitions are missing, because the protocol forbids them."""


async def list_everything(
    fetch: FetchPage,
    *,
    max_pages: int = _MAX_PAGES,
    max_items: int = 100_000,
    primitive: Primitive[Any] = TOOLS,
) -> Listing[Any]:
    """Return all pages of a list, of `tools/list` unless `primitive` says otherwise, as one listing.

    An empty page is no end, and the first definition of a key is the one that counts. Definitions that the protocol
    forbids are left out and counted. Beyond so many pages or items, a listing counts as endless.

    Raises:
        InvalidServerResultError: A cursor came back that was used before, or the listing goes beyond its bounds.
    """
    pages: list[_Page] = []
    items: dict[str, Any] = {}

    async def read_page(cursor: str | None) -> str | None:
        pages.append(await fetch(cursor))
        result = pages[-1].result
        for key, item in _entries(primitive, result):
            items.setdefault(key, item)
        if result.next_cursor is not None and len(items) > max_items:
            raise InvalidServerResultError(f"{primitive.list_method} has no end after {len(items)} {primitive.member}")
        return result.next_cursor

    if problem := await follow_cursors(read_page, max_pages):
        raise InvalidServerResultError(f"{primitive.list_method} {problem}")
    results = [page.result for page in pages]
    return Listing(
        tuple(items.values()),
        min((result.ttl_ms / 1000 for result in results if "ttl_ms" in result.model_fields_set), default=None),
        "private" if any(result.cache_scope == "private" for result in results) else "public",
        sum(page.left_out for page in pages),
    )


class LocalIndex:
    """The tools of one listing, ready to be searched on this side with the ranking of the reference server."""

    def __init__(self, tools: Sequence[Tool], ranker: Ranker) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._index = floored(ranker)(list(self._tools.values()))

    def search(self, query: str, limit: int) -> tuple[FoundTool, ...]:
        """Return the best `limit` tools for `query`; nothing for a blank one."""
        return tuple(
            FoundTool(hit.name, "", self._tools[hit.name], HitMetadata(score=hit.score, matched=list(hit.matched)))
            for hit in self._index.search(query)[:limit]
        )


CALL_SECONDS: Final = 120.0
"""As long as a person waits; a gateway gives up earlier, so that it can say which of its servers did not answer."""

_MAX_EXTENSION: Final = 10
"""How many times as long as without it a call may take that reports progress."""

_LEGACY_CRASH: Final = 0
"""The code of an unexpected exception in an extension handler on legacy connections of the Python SDK."""

_UNSUPPORTED: Final = frozenset({METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY})
"""Codes that say that there is no search; the draft obliges to list after them."""

_BROKEN: Final = frozenset({INTERNAL_ERROR, _LEGACY_CRASH})
"""Codes that say that a search failed; the draft leaves open what follows.

After a timeout nothing is listed: a slow server does not get faster by it.
"""

_LISTING: Final = "list"
"""Key of the one listing that is kept."""

_MAX_FAILURES: Final = 3
"""In a row; then the tools are listed for a while, however many they are."""

_CHEAP_LISTING: Final = 200
"""Tools that are listed for the sake of one search that failed."""


def stated(options: DataclassInstance) -> dict[str, Any]:
    """Return the members of options that are not left open, which is `None`."""
    of = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: value for name, value in of.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """How one server is searched; what is not given is as the configuration states it, else as it is by default."""

    ranker: Ranker | None = None
    """Ranks on this side what had to be listed."""

    listing_ttl: float | None = None
    """Seconds for which a listing is kept when the server does not say; 0 means until it announces a change."""

    request_timeout: float | None = None
    """Seconds for one search or listing as a whole, all pages; `math.inf` means without limit."""

    call_timeout: float | None = None
    """Seconds for one call of a tool, counted again from each progress report, ten times as many in all; `math.inf`
    means without limit."""

    retry_after: float | None = None
    """Seconds until the next search is sent after one that failed; twice as long after each in a row."""

    busy_patience: float | None = None
    """Seconds for which one search waits for a server that is too busy; then that is what the search comes to."""

    search_again_after: float | None = None
    """Seconds for which a server is listed that refuses to be searched, or fails again and again."""

    authorization: Callable[[], str] | None = None
    """Names the authorization of the moment; what a server calls private is only answered to the one that asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteDiscoveryOptions:
    """`DiscoveryOptions` that leave nothing open."""

    ranker: Ranker = field(default_factory=default_ranker)
    listing_ttl: float = 30.0
    request_timeout: float = 30.0
    call_timeout: float = CALL_SECONDS
    retry_after: float = 1.0
    busy_patience: float = 2.0
    search_again_after: float = 300.0
    authorization: Callable[[], str] = str


_SearchError: TypeAlias = InvalidServerResultError | ServerRefusedError
"""What a search that failed may be replaced by a listing after."""


@dataclass(slots=True)
class _Kept:
    """What is known of a list until it changes: an answer to an earlier question is put into an earlier one."""

    answers: ExpiringCache[tuple[Any, ...]] = field(default_factory=ExpiringCache[tuple[Any, ...]])
    """By query and limit."""
    listings: ExpiringCache[Listing[Any]] = field(default_factory=lambda: ExpiringCache[Listing[Any]](capacity=1))
    left_out: int = 0
    fault: _SearchError | None = None
    """Why the last search failed."""
    failures: int = 0
    """In a row."""
    search_at: float = -math.inf
    """When the next search may be sent; until then it fails as the last one did."""
    listed_until: float = -math.inf


@dataclass(frozen=True, slots=True)
class Answered:
    """What one server answers to a search: what it found, best first, or everything that it lists."""

    mode: Mode
    items: tuple[Any, ...]
    fallback: str | None = None
    """Why it was listed although it advertises the search."""


class Discovery:
    """How the tools, or other items, of one connected server are found.

    It never probes: a server is searched because it advertised that, in either era and in either legacy place. Where it
    did, a failed search decides about the next one:

        searched -> paused      it failed: for a while, longer after each failure in a row, the next ones fail alike
        searched, paused -> listed      it was refused as unsupported, or failed for the third time in a row
        paused, listed -> searched      the time is over, or the list changed

    After one failure, the list is read all the same where that is cheap. A server that is too busy is paused for as
    long as it said, and that does not count as a failure.

    Args:
        client: Connected.
        primitive: What is found.
        options: How to search.
        deadline: Bounds what the server does in its block, and raises its faults as a `ServerError`.
    """

    def __init__(
        self,
        client: Client,
        primitive: Primitive[Any],
        options: CompleteDiscoveryOptions,
        deadline: Callable[[float], AbstractAsyncContextManager[anyio.CancelScope]],
    ) -> None:
        self.primitive: Final = primitive
        whole = primitives_settings(client) if _is_declared(client) else None
        own: ServerSettings | PrimitiveSettings | None = whole
        if whole is not None and primitive.setting:
            own = whole.prompts if primitive is PROMPTS else whole.resources
        self.settings: Final = own
        """What the server says of this search; `None` where it offers none, or the client does not declare it."""
        self._client = client
        self._options = options
        self._deadline = deadline
        self._kept = _Kept()
        self._listing_turn = anyio.Lock()

    @property
    def mode(self) -> Mode:
        """How the next search will be made, unless it fails."""
        is_listed = self.settings is None or anyio.current_time() < self._kept.listed_until
        return "list" if is_listed else "search"

    @property
    def left_out(self) -> int:
        """How many definitions the listing that was read last is without, because the protocol forbids them."""
        return self._kept.left_out

    async def search_or_list(self, query: str, limit: int) -> Answered:
        """Return what the server finds, or else everything that it has; raises what `ServerTools.search` does."""
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
            ended = "gave an invalid result" if isinstance(fault, InvalidServerResultError) else "was refused"
            fallback = f"the search {ended}: {fault}"
            if isinstance(self.settings, ResourcesSettings) and self.settings.unlisted:
                fallback += "; what the server does not list is missing"
        return Answered("list", listing.items, fallback)

    async def list(self) -> tuple[Any, ...]:
        """Return everything, in the server's order, but for invalid definitions (see `left_out`).

        Raises:
            ServerError: The server failed, or its listing has no end.
        """
        return (await self._listing()).items

    def forget(self) -> None:
        """Drop everything that was kept, because the list changed; a refused search is tried again."""
        self._kept = _Kept()

    async def _searched(self, query: str, limit: int) -> tuple[Any, ...]:
        """Return the answer of the server, or raise why there is none; that decides about the next search."""
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
                        enough=lambda pages: len(self._items_of(pages)) >= limit,
                        patience=self._options.busy_patience,
                        primitive=self.primitive,
                    )
            except (InvalidServerResultError, ServerRefusedError) as error:
                self._note_failed_search(error)
                raise
            found = tuple(self._items_of(pages).values())[:limit]
            ttl = min(page.ttl_ms for page in pages) / 1000
            scope: CacheScope = "private" if any(page.cache_scope == "private" for page in pages) else "public"
            is_whole = len(found) == limit or pages[-1].next_cursor is None
            if is_whole:  # else a later page failed, and may not next time
                kept.answers.put((query, limit), found, ttl_seconds=ttl, scope=scope, partition=partition)
        self._kept.fault, self._kept.failures = None, 0
        return found

    def _items_of(self, pages: Sequence[SearchResult]) -> dict[str, Any]:
        """Return what was found by key, each once."""
        found: dict[str, Any] = {}
        for page in pages:
            for key, item in _entries(self.primitive, page):
                found.setdefault(key, item)
        return found

    def _note_failed_search(self, error: _SearchError) -> None:
        if isinstance(error, ServerRefusedError) and error.code not in _UNSUPPORTED | _BROKEN:
            return
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
            return is_listed  # so that nothing has to be sent for it
        size = self.settings.catalog_size if self.settings else None
        is_cheap = is_listed or (size is not None and size <= _CHEAP_LISTING)
        return error.code in _BROKEN and (self.mode == "list" or is_cheap)

    async def _listing(self) -> Listing[Any]:
        partition = self._options.authorization()
        async with self._deadline(self._options.request_timeout), self._listing_turn:
            kept = self._kept
            listing = kept.listings.get(_LISTING, partition=partition)
            if listing is not None:
                return listing
            listing = await self._listed()
        self._kept.left_out = listing.left_out
        ttl = self._options.listing_ttl or math.inf
        is_modern = self._client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if listing.ttl_seconds is not None and is_modern:  # a legacy server states no time
            ttl = listing.ttl_seconds
        kept.listings.put(_LISTING, listing, ttl_seconds=ttl, scope=listing.scope, partition=partition)
        return listing

    async def _listed(self) -> Listing[Any]:
        primitive, capabilities = self.primitive, self._client.server_capabilities
        if primitive is TOOLS:
            try:
                return await list_everything(partial(list_page, self._client))
            except MCPError as error:
                # One that has prompts or resources alone need not know of tools.
                if error.code != METHOD_NOT_FOUND or capabilities.tools is not None:
                    raise
                return Listing((), None, "public")
        if (capabilities.prompts if primitive is PROMPTS else capabilities.resources) is None:
            return Listing((), None, "public")
        try:
            fetch = partial(_list_items, self._client, primitive)
            return await list_everything(fetch, max_items=_MAX_OFFERS, primitive=primitive)
        except MCPError as error:
            # Templates are optional, and there is no capability that says so.
            if primitive is not RESOURCE_TEMPLATES or error.code != METHOD_NOT_FOUND:
                raise
            return Listing((), None, "public")


async def _list_items(client: Client, primitive: Primitive[Any], cursor: str | None) -> _ItemsPage:
    """Ask for a page of a list, and leave out what is invalid of it.

    Raises:
        InvalidServerResultError: It is no page.
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


def _entries(primitive: Primitive[Any], result: BaseModel) -> Iterator[tuple[str, Any]]:
    for item in getattr(result, to_snake(primitive.member)):
        yield getattr(item, to_snake(primitive.key)), item


class ServerTools:
    """The tools of one connected server, and what else it has.

    Args:
        client: Connected, and declaring the extension (`extensions=[TOOLS_SEARCH]`), without which tools are listed;
            `open_server` sees to both.
        options: How to search.
        ended: Returns why the connection ended, for the errors that say so; empty where that is not known.
    """

    def __init__(
        self, client: Client, options: DiscoveryOptions | None = None, *, ended: Callable[[], str] = str
    ) -> None:
        self._ended = ended
        self._options = CompleteDiscoveryOptions(**stated(options) if options else {})
        self.client: Final = client
        """The connection, for everything that is not about finding tools."""
        # Read now, since a client forgets them when its connection ends, and reports are written after that.
        self.settings: Final[PrimitivesServerSettings | None] = (
            primitives_settings(client) if _is_declared(client) else None
        )
        """What the server says of its search; `None` where it offers none, or the client does not declare it."""
        self.protocol_version: Final = client.protocol_version
        self.info: Final = client.server_info
        self.instructions: Final = client.instructions
        self.era: Final[Era] = "modern" if client.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"
        """The family of revisions that the connection speaks."""
        self._discoveries = {
            primitive.method: Discovery(client, primitive, self._options, self._deadline)
            for primitive in (TOOLS, RESOURCES, RESOURCE_TEMPLATES, PROMPTS)
        }
        self._index: tuple[tuple[Tool, ...], LocalIndex] | None = None
        """The tools of the listing that was ranked last, and their index."""
        self._calls: set[anyio.CancelScope] = set()
        """The deadlines of the calls that are under way."""
        self._waits_for_person = 0
        self.host_fault: HostError | None = None
        """What a callback of the host raised last; the server was given its name."""

    @property
    def mode(self) -> Mode:
        """How the next search for tools will be made, unless it fails."""
        return self.discovery().mode

    @property
    def left_out(self) -> int:
        """How many tools the listing that was read last is without, because the protocol forbids their definitions."""
        return self.discovery().left_out

    def discovery(self, primitive: Primitive[Any] = TOOLS) -> Discovery:
        """Return what finds tools, or other items."""
        return self._discoveries[primitive.method]

    async def search(self, query: str, *, limit: int = 10) -> Found:
        """Return the tools that fit `query`, best first, at most `limit` of them.

        Raises:
            ValueError: The query is blank or no Unicode text, or `limit` is not positive.
            ServerError: The server failed in a way that listing does not help, or the listing failed as well. After one
                search that failed the tools are listed where that is cheap; where it is not, the failure is raised. A
                server that stays too busy (`ServerBusyError`) is not listed, nor searched before it said.
        """
        found = await self.search_or_list(query, limit=limit)
        if found.listed is None:
            return found
        if self._index is None or self._index[0] is not found.listed:
            self._index = (found.listed, LocalIndex(found.listed, self._options.ranker))
        return replace(found, tools=self._index[1].search(query, limit), listed=None)

    async def search_or_list(self, query: str, *, limit: int = 10) -> Found:
        """Search as `search` does, but leave the ranking of what had to be listed to the caller (`Found.listed`)."""
        answer = await self.discovery().search_or_list(query, limit)
        if answer.mode == "list":
            return Found((), "list", answer.fallback, answer.items)
        tools = (FoundTool(tool.name, "", tool, hit_metadata(tool) or HitMetadata(), "search") for tool in answer.items)
        return Found(tuple(tools), "search")

    async def list(self) -> tuple[Tool, ...]:
        """Return every tool, in the server's order, but for those whose definition is invalid (see `left_out`).

        Raises:
            ServerError: The server failed, or its listing has no end.
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
        """Call a tool that a search or a listing of this connection returned; nothing is listed for it.

        Raises:
            LocalError: Name, arguments or `meta` cannot be sent as JSON.
            ServerError: The server failed. A tool that fails is a result with `is_error`, not an exception; so is a
                result of which nothing can be read. One that the protocol forbids in part keeps the rest, with a text
                for what is left out, where the client was made by `open_server`.
        """
        require_json([name, arguments, meta], f"the call of {name!r}")
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
                # The SDK's word for structured content that breaks the tool's own output schema.
                raise InvalidServerResultError(f"{error}; the call may have taken effect") from error

    @asynccontextmanager
    async def patience(self) -> AsyncGenerator[anyio.CancelScope]:
        """Bound what the server does for the user, such as a call, by `call_timeout`.

        Raises:
            ServerError: What went wrong inside the block, as far as the server did it.
            HostError: The server gave up because a callback of the host raised.
        """
        try:
            async with self._deadline(math.inf if self._waits_for_person else self._options.call_timeout) as scope:
                self._calls.add(scope)
                try:
                    yield scope
                finally:
                    self._calls.discard(scope)
        except ServerRefusedError as error:
            fault, self.host_fault = self.host_fault, None
            if fault is None or fault.part not in str(error):
                raise
            raise fault from fault.__cause__

    @contextmanager
    def waiting_for_person(self) -> Generator[None]:
        """Give up no call inside the block, in which a callback of the host asks a person for the server."""
        self._waits_for_person += 1
        for scope in self._calls:
            scope.deadline = math.inf
        try:
            yield
        finally:
            self._waits_for_person -= 1
            if not self._waits_for_person:
                for scope in self._calls:
                    scope.deadline = anyio.current_time() + self._options.call_timeout

    def forget(self, setting: str | None = None) -> None:
        """Drop everything that was kept, because the server's lists changed; a refused search is tried again.

        Args:
            setting: Which have changed: `resources`, `prompts`, or tools where it is empty; all unless given.
        """
        for one in self._discoveries.values():
            if setting is None or one.primitive.setting == setting:
                one.forget()

    def ending(self) -> ServerUnavailableError:
        """Return the error of a connection that has ended, which says how, as far as that is known."""
        how = self._ended()
        return ServerUnavailableError(f"the connection ended: {how}" if how else "the connection ended")

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncGenerator[anyio.CancelScope]:
        with server_faults(self._ended), anyio.fail_after(seconds) as scope:
            try:
                _ = self.client.session
            except RuntimeError as error:  # the SDK's word for a client that was left
                raise self.ending() from error
            yield scope


def _is_declared(client: Client) -> bool:
    """Return whether a client declares the extension, without which it may not search (draft: Client Declaration)."""
    declared = client.session._extensions  # pyright: ignore[reportPrivateUsage] - a session has no other word for it
    return declared is not None and EXTENSION_ID in declared


def require_request(query: str, limit: int) -> None:
    """Refuse a search that no server could answer, before anything is sent.

    Raises:
        ValueError: The query is blank or no Unicode text, or the limit is not positive.
    """
    if not query.strip(WHITE_SPACE):
        raise ValueError("the query is blank: say in a few words what is needed")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise ValueError("the query is no Unicode text: it holds half a character") from None
    if limit < 1:
        raise ValueError("the limit must be at least 1")


async def list_as_found(tools: ServerTools) -> Found:
    """Return every tool of a server as an answer, in the server's order."""
    return Found(tuple(FoundTool(tool.name, "", tool) for tool in await tools.list()), "list")
