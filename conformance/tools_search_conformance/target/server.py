"""The server under test, as one cell's checks access it: connections, requests, and result pages.

It does not judge: what cannot be read is `unverified`, and the checks of a result's shape say what is wrong.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import anyio
from tools_search_spec import Primitive

from tools_search_conformance.model import Cell, UnverifiableError
from tools_search_conformance.run.judging import Timeouts
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.pages import Listing, Page, Walk, advertised_settings, complaint, read_page
from tools_search_conformance.target.primitives import TEMPLATES, TOOLS, settings_for
from tools_search_conformance.target.target import Target
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.connection import Connection, RefusedError, Transport
from tools_search_conformance.wire.eras import DECLARED, LEGACY
from tools_search_conformance.wire.http import retry_after
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder
from tools_search_conformance.wire.stdio import StdioTransport

Params = Mapping[str, Any]

_INTERNAL_ERROR: Final = -32603
_METHOD_NOT_FOUND: Final = -32601
_MAX_PAGES: Final = 300
"""More than the largest fixture needs in pages of one tool, even if each is followed by an empty page."""

_SLOW_MILLISECONDS: Final = 250
_AT_ONCE: Final = 8
"""Number of concurrent requests to a slow target."""
_TRIED_AT_ONCE: Final = 4
_SIDE_BY_SIDE: Final = 0.6
"""Searches count as served concurrently if they take at most this share of their sequential time."""
_TOO_MANY_REQUESTS: Final = 429
_PAUSE_SECONDS: Final = 0.5
"""The default pause in seconds after a refusal due to load."""
_BUSY_REPEATS: Final = 5
"""Number of retries for a search that the server was too busy for."""
_MAX_STARTS: Final = 60
_MAX_BYTES_HELD: Final = 80 * 1024 * 1024
"""Approximate limit in bytes on the memory for a target's answers in one check."""
_MAX_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
"""Approximate limit in bytes on the answers to concurrent searches."""
_LARGE_LIMIT: Final = 50
"""A limit that most servers accept as is; servers with a smaller maximum must clamp it."""
_MAX_EMPTY_PAGES: Final = 20
_LISTED_AGAIN: Final = 2
_MAX_LIST_PAGES: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How a bench's connections are opened."""

    catalog: str = "core"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Additional environment variables for the fixture."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    capabilities: Params = field(default_factory=lambda: DECLARED)
    revision: str = LEGACY


class ChangedError(UnverifiableError):
    """A list cursor was refused, as is allowed if the list has changed."""


def busy_seconds(exchange: Exchange) -> float | None:
    """Return how many seconds a server that is too busy for a search asks to wait; `None` for other answers."""
    error = exchange.error
    if error is None or error.code != _INTERNAL_ERROR or complaint(error.data, "BusyData"):
        return None
    return float(error.data["retryAfterMs"]) / 1000


def _pause(exchange: Exchange) -> float | None:
    """Return how many seconds to wait before retrying a search refused due to load; `None` for other answers."""
    if exchange.error is not None and exchange.answer.status == _TOO_MANY_REQUESTS:
        return retry_after(exchange.answer.headers, _PAUSE_SECONDS)
    return busy_seconds(exchange)


class Concurrency:
    """Limits a cell's concurrent requests about a list: one, or several for a slow target that can handle them."""

    def __init__(self, of_each: dict[Primitive, Concurrency] | None = None) -> None:
        self.slow = False
        self._limiter = anyio.CapacityLimiter(1)
        self._of_each = {} if of_each is None else of_each

    def of(self, primitive: Primitive) -> Concurrency:
        """Return the limits for another list of the cell: its search can be slow where that for tools is not."""
        return self._of_each.setdefault(primitive, Concurrency(self._of_each))

    @property
    def most(self) -> int:
        """The limit."""
        return int(self._limiter.total_tokens)

    @most.setter
    def most(self, number: int) -> None:
        self._limiter.total_tokens = number

    @property
    def turn(self) -> AbstractAsyncContextManager[None]:
        """Acquire a turn, and hold it for the block."""
        return self._limiter if self.slow else nullcontext()

    @contextmanager
    def one_by_one(self) -> Generator[None]:
        """Send one request at a time in the block, and afterwards too unless the block fails."""
        before, self.most = self.most, 1
        try:
            yield
        except BaseException:
            self.most = before
            raise


@dataclass
class _Shared:
    """The state shared by all uses of a connection."""

    connection: Connection | None = None
    connecting: anyio.Lock = field(default_factory=anyio.Lock)
    starts: int = 0
    last: Exchange | None = None


class Server:
    """A connection to the target, opened when needed and reopened when it has ended, and a list to search.

    Methods that use it raise `TargetError` if the target cannot be reached, `RefusedError` if it no longer supports
    this era, and `UnverifiableError` if there is no readable answer: a search was refused, its result is malformed, its
    pages do not end, the server was always too busy, or the answers take too much memory.
    """

    def __init__(
        self,
        options: Options,
        cell: Cell,
        target: Target,
        recorder: Recorder,
        opening: Opening | None = None,
        timeouts: Timeouts | None = None,
        concurrency: Concurrency | None = None,
    ) -> None:
        self.primitive = TOOLS
        """The primitive to search and list."""
        self.concurrency = (concurrency or Concurrency()).of(TOOLS)
        self.timeouts = timeouts or Timeouts(options.timeout, target.options.start_timeout)
        self.options = options
        self.cell = cell
        self.target = target
        self.recorder = recorder
        self._opening = opening or Opening()
        self._shared = _Shared()
        self.asked = set[str]()
        """The methods requested on this connection."""
        self.last_listing: Listing | None = None
        """The last listing, on any connection."""
        self.steady = False
        """Whether the list has been watched for a while since it last changed."""
        self.listing_seconds = 0.0
        """Duration in seconds of the slowest complete listing so far."""
        self._listed_by: Connection | None = None

    def searching(self, primitive: Primitive) -> Server:
        """Return the same connection for searching another list."""
        other = copy(self)
        other.primitive, other.last_listing, other._listed_by = primitive, None, None
        other.concurrency = self.concurrency.of(primitive)
        other.steady, other.listing_seconds = False, 0.0
        return other

    @property
    def method(self) -> str:
        """The search method."""
        return self.primitive.method

    @property
    def list_method(self) -> str:
        """The list method."""
        return self.primitive.list_method

    async def connection(self) -> Connection:
        """Return the connection, reopened if it has ended."""
        if self._shared.connection is not None and self._shared.connection.transport.ended is None:
            return self._shared.connection
        async with self._shared.connecting:  # several requests can find it ended
            if self._shared.connection is None or self._shared.connection.transport.ended is not None:
                await self._open_again()
        assert self._shared.connection is not None  # noqa: S101 - it was opened
        return self._shared.connection

    async def _open_again(self) -> None:
        if self._shared.connection is not None:
            self._note_death(self._shared.connection)
        await self.aclose()
        if self.timeouts.gone is not None:
            raise TargetError(self.timeouts.gone)
        self._shared.starts += 1
        if self._shared.starts > _MAX_STARTS:
            raise TargetError(f"the target had to be started more than {_MAX_STARTS} times; see the wire log")
        try:
            self._shared.connection = await self._connect()
            self.asked.clear()
        except (RefusedError, TargetError) as error:
            if isinstance(error, RefusedError) and error.exchange.replied:
                self.timeouts.answered(error.exchange.sent["method"])
            else:
                self.timeouts.start_failed(str(error))
            raise

    async def _connect(self) -> Connection:
        opening = self._opening
        fixture = opening.catalog if self.options.effective_profile == "fixture" else None
        transport = await self.target.connect(self.recorder.note, fixture, opening.env)
        own = opening.capabilities, opening.headers, opening.revision
        connection = Connection(transport, self.cell.era, self.recorder, *own)
        try:
            opened = await connection.open(self.timeouts.for_start())
        except BaseException:
            await connection.aclose()
            raise
        self.timeouts.answered(opened.sent["method"])
        return connection

    async def opening(self) -> tuple[Connection, Exchange]:
        """Return the connection and the exchange that opened it."""
        connection = await self.connection()
        assert connection.opening is not None  # noqa: S101 - set by open
        return connection, connection.opening

    @property
    def transport(self) -> Transport:
        """The open connection's transport, which keeps malformed messages, noise and stray responses."""
        assert self._shared.connection is not None  # noqa: S101 - a check looks there after a request
        return self._shared.connection.transport

    async def hang_up(self, seconds: float) -> bool:
        """Close the target's stdin, and return whether it exits within `seconds` seconds; stdio only."""
        transport = (await self.connection()).transport
        return isinstance(transport, StdioTransport) and await transport.hang_up(seconds)

    async def aclose(self) -> None:
        """Close the connection, if it is open."""
        if self._shared.connection is not None:
            await self._shared.connection.aclose()
            self._shared.connection = None

    async def ask(
        self, method: str, params: Params | None = None, *, seconds: float | None = None, **overrides: Any
    ) -> Exchange:
        """Send any request, with overrides as in `Connection.request`; `seconds` shortens the timeout."""
        async with self.concurrency.turn:
            self._require_room()
            connection = await self.connection()
            self.asked.add(method)
            # The other requests in progress might be answered first.
            usual = self.timeouts.for_request(method) + (self.concurrency.most - 1) * self.recorder.milliseconds / 1000
            exchange = await connection.request(method, params, seconds=seconds or usual, **overrides)
            self.concurrency.most = min(self.concurrency.most, self._most_at_once)
            if exchange.answer.is_rate_limited:
                self._keep_last(connection, exchange)
                raise UnverifiableError(f"{exchange.answer.fault}; lift the rate limit for this run", exchange)
            if exchange.replied:
                self.timeouts.answered(method)
            elif seconds is None and connection.transport.ended is None:
                self.timeouts.timed_out(method)
            return self._keep_last(connection, exchange)

    @property
    def _most_at_once(self) -> int:
        """The limit on concurrent searches: lower for large answers, to limit the memory for unread ones."""
        return max(1, _MAX_BYTES_AT_ONCE // max(1, self.recorder.largest[self.method]))

    async def notify(self, method: str, params: Params) -> Exchange:
        """Send a notification and return the exchange, which has no response."""
        connection = await self.connection()
        exchange = await connection.notify(method, params, seconds=self.options.timeout)
        return self._keep_last(connection, exchange)

    async def at_once(
        self,
        searches: Sequence[Params],
        *,
        seconds: float,
        ids: Sequence[str | int] = (),
        capabilities: Sequence[Params | None] = (),
    ) -> list[Exchange]:
        """Send searches with these params concurrently; return the exchanges in this order.

        Each can take up to `seconds` seconds, and uses one of `ids` if given.
        """
        self._require_room()
        connection = await self.connection()
        self.asked.add(self.method)
        exchanges: dict[int, Exchange] = {}

        async def search(place: int) -> None:
            own: dict[str, Any] = {"with_id": ids[place] if ids else None}
            own["capabilities"] = capabilities[place] if capabilities else None
            exchange = await connection.request(self.method, searches[place], seconds=seconds, **own)
            exchanges[place] = self._keep_last(connection, exchange)
            if self.recorder.held > _MAX_BYTES_HELD:
                tasks.cancel_scope.cancel()  # of the group that it is in

        most = max(2, self._most_at_once)
        for start in range(0, len(searches), most):
            async with anyio.create_task_group() as tasks:
                for place in range(len(searches))[start : start + most]:
                    tasks.start_soon(search, place)
            self._require_room()
        return [exchanges[place] for place in range(len(searches))]

    async def in_pieces(self, searches: Mapping[str, Params], amid: str) -> list[Exchange]:
        """Send searches as `Connection.request_in_pieces` does; return the exchanges."""
        connection = await self.connection()
        self.asked.add(self.method)
        seconds = self.timeouts.for_request(self.method)
        exchanges = await connection.request_in_pieces(self.method, searches, amid, seconds=seconds)
        return [self._keep_last(connection, exchange) for exchange in exchanges]

    async def search(self, params: Params, **overrides: Any) -> Exchange:
        """Send a search with exactly these params; retry while the server says that it is too busy."""
        most, waited, repeats = self.concurrency.most, 0.0, 0
        exchange = await self.ask(self.method, params, **overrides)
        while (wait := _pause(exchange)) is not None:
            if most > 1:  # because of the judge's other requests
                self.concurrency.most = min(self.concurrency.most, most // 2)
            else:
                waited, repeats = waited + wait, repeats + 1
            if repeats > _BUSY_REPEATS or waited > self.options.timeout:
                raise UnverifiableError(
                    "the server answered every attempt by saying that it is too busy to search", exchange
                )
            await anyio.sleep(wait)
            most = self.concurrency.most
            exchange = await self.ask(self.method, params, **overrides)
        return exchange

    async def search_amid(self, other: Server, params: Params) -> Exchange:
        """Return the answer to a search that is sent at once with, and between, two of the same by another client."""
        exchanges = list[Exchange]()

        async def search() -> None:
            exchanges.append(await self.search(params))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.search, params)
            tasks.start_soon(search)
            tasks.start_soon(other.search, params)
        return exchanges[0]

    async def find_concurrency(self, search: Exchange) -> None:
        """Determine whether a target that is slow to answer a search serves several concurrently."""
        if search.milliseconds < _SLOW_MILLISECONDS:
            return
        self.concurrency.slow, params = True, search.params
        alone = await self.search(params)
        usual, began = alone.milliseconds / 1000, time.monotonic()
        seconds = self.options.timeout + _TRIED_AT_ONCE * usual
        together = await self.at_once([params] * _TRIED_AT_ONCE, seconds=seconds)
        quick = time.monotonic() - began < _SIDE_BY_SIDE * _TRIED_AT_ONCE * usual
        if quick and all(exchange.result is not None for exchange in (alone, *together)):
            self.concurrency.most = min(_AT_ONCE, self._most_at_once)

    async def page(self, query: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return a page of a valid search."""
        given = {"query": query, "limit": limit, "cursor": cursor}
        params = {name: value for name, value in given.items() if value is not None}
        return read_page(await self.search(params), f"a search for {query!r}")

    async def walk(
        self,
        query: str,
        limit: int | None = None,
        *,
        most: int = _MAX_PAGES,
        first: Page | None = None,
        later: Sequence[int | None] = (),
        sought: str | None = None,
    ) -> Walk:
        """Return a search's pages, up to `most`, until a cursor is repeated, or up to the item with the key `sought`.

        You can pass the first page. `later` has the limits for the following pages, in turn, if different. An empty
        `nextCursor` that gets no page ends the walk as if there were none; the check pages-end judges that.
        """
        pages, followed, limits = [first or await self.page(query, limit=limit)], set[str](), cycle(later or [limit])
        while (cursor := pages[-1].next_cursor) is not None and cursor not in followed and len(pages) < most:
            if sought in pages[-1].keys:
                break
            followed.add(cursor)
            try:
                pages.append(await self.page(query, limit=next(limits), cursor=cursor))
            except UnverifiableError:
                if cursor:
                    raise
                return Walk(query, limit, tuple(pages), ended=True, again=False)
        return Walk(query, limit, tuple(pages), ended=cursor is None, again=cursor in followed)

    async def first(self, query: str, *, limit: int | None = None) -> Page:
        """Return the first page of a search that has an item, or else its last page."""
        page = await self.page(query, limit=limit)
        for _ in range(_MAX_EMPTY_PAGES):
            if page.items or not page.next_cursor:
                break
            page = await self.page(query, limit=limit, cursor=page.next_cursor)
        return page

    async def large_limit(self) -> int:
        """Return a limit for the largest page the target states, within reason."""
        most = integer((await self.settings()).get("maxLimit"))
        return min(most, _LARGE_LIMIT) if most is not None and most > 0 else _LARGE_LIMIT

    async def settings(self) -> JsonObject:
        """Return the advertised settings for this method; empty if there are none."""
        return settings_for(advertised_settings(await self.connection()), self.primitive) or {}

    async def whole(self, query: str, limit: int | None = None) -> Walk:
        """Return all pages of a search, large ones by default."""
        walk = await self.walk(query, limit or await self.large_limit())
        if not walk.ended:
            pages = f"a search for {query!r} did not end within {len(walk.pages)} pages; see pages-end"
            raise UnverifiableError(pages, walk.last)
        return walk

    async def listing(self) -> Listing:
        """Return the complete current listing; starts over if a change between pages invalidates the cursors."""
        began = time.monotonic()
        for _ in range(_LISTED_AGAIN):
            with suppress(ChangedError):
                listing = await self._listing()
                break
        else:
            listing = await self._listing()
        self.listing_seconds = max(self.listing_seconds, time.monotonic() - began)
        if self.last_listing is not None and not listing.same_as(self.last_listing):
            self.steady = False
        self.last_listing, self._listed_by = listing, self._shared.connection
        return listing

    async def _listing(self) -> Listing:
        method, items, cursor = self.list_method, list[JsonObject](), None
        for _ in range(_MAX_LIST_PAGES):
            exchange = await self.ask(method, {} if cursor is None else {"cursor": cursor})
            if cursor is not None and exchange.error is not None:
                raise ChangedError(f"a cursor of {method} got {exchange.describe()}", exchange)
            if self.primitive is TEMPLATES and exchange.error_code == _METHOD_NOT_FOUND:
                # A server without templates does not have to serve their list.
                return Listing((), exchange)
            page = read_page(exchange, method)
            items += page.items
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(items), page.exchange)
        raise UnverifiableError(f"{method} does not end within {_MAX_LIST_PAGES} pages")

    async def known_listing(self) -> Listing:
        """Return this connection's last listing, or list now if there is none."""
        await self.connection()
        known = self.last_listing if self._listed_by is self._shared.connection else None
        return known or await self.listing()

    def _keep_last(self, connection: Connection, exchange: Exchange) -> Exchange:
        self._shared.last = exchange
        self._note_death(connection)
        return exchange

    def _note_death(self, connection: Connection) -> None:
        """If the target exited, record once how, with the last exchange before it.

        Over HTTP, other connections to the same process might only notice much later, in another check.
        """
        if (ended := connection.transport.ended) is not None and self._shared.last is not None:
            self.recorder.note_death(ended, self._shared.last, of=connection.transport.url)
            self._shared.last = None

    def _require_room(self) -> None:
        if self.recorder.held > _MAX_BYTES_HELD:
            gc.collect()
        if self.recorder.held > _MAX_BYTES_HELD:
            raise UnverifiableError(f"the target's answers take more than {_MAX_BYTES_HELD // 1024**2} MiB of memory")
