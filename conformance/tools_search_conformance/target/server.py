"""The server under test as the checks of one cell reach it: connections, requests, and the pages that they bring.

It judges nothing: what cannot be read is `unverified`, and the checks of a result's shape say what is wrong with it.
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
_SLOW_MILLISECONDS: Final = 250
_AT_ONCE: Final = 8
"""How many requests a slow target is sent at a time."""
_TRIED_AT_ONCE: Final = 4
_SIDE_BY_SIDE: Final = 0.6
"""What share of their time one after the other searches at once may take that are served side by side."""
_TOO_MANY_REQUESTS: Final = 429
_PAUSE_SECONDS: Final = 0.5
"""The pause where a refusal because of load does not say how long it should be."""
_BUSY_REPEATS: Final = 5
"""How often a search is sent again that the server was too busy for."""
_MAX_STARTS: Final = 60
_MAX_BYTES_HELD: Final = 80 * 1024 * 1024
"""How many bytes of memory a target's answers may take of one check, about."""
_MAX_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
"""How many bytes the answers to searches at once may take, about."""
_LARGE_LIMIT: Final = 50
"""A limit that most servers take as it is; those with a smaller maximum have to clamp it."""
_MAX_EMPTY_PAGES: Final = 20
_LISTED_AGAIN: Final = 2
_MAX_LIST_PAGES: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How the connections of one bench are opened."""

    catalog: str = "core"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """More of the environment that the fixture is started in."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    capabilities: Params = field(default_factory=lambda: DECLARED)
    revision: str = LEGACY


class ChangedError(UnverifiableError):
    """A cursor of a list was refused, as it may be when the list has changed."""


def busy_seconds(exchange: Exchange) -> float | None:
    """Return how long a server that was too busy for a search asks to wait; `None` for any other answer."""
    error = exchange.error
    if error is None or error.code != _INTERNAL_ERROR or complaint(error.data, "BusyData"):
        return None
    return float(error.data["retryAfterMs"]) / 1000


def _pause(exchange: Exchange) -> float | None:
    """Return how long to wait before a search refused because of load is sent again; `None` for any other answer."""
    if exchange.error is not None and exchange.answer.status == _TOO_MANY_REQUESTS:
        return retry_after(exchange.answer.headers, _PAUSE_SECONDS)
    return busy_seconds(exchange)


class Concurrency:
    """How many requests of one cell may be under way at a time: one, or several of a slow target that bears them."""

    def __init__(self) -> None:
        self.slow = False
        self._limiter = anyio.CapacityLimiter(1)

    @property
    def most(self) -> int:
        """How many they are."""
        return int(self._limiter.total_tokens)

    @most.setter
    def most(self, number: int) -> None:
        self._limiter.total_tokens = number

    @property
    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for a turn, and hold it."""
        return self._limiter if self.slow else nullcontext()

    @contextmanager
    def one_by_one(self) -> Generator[None]:
        """Send one request at a time, and go on so unless what is done meanwhile fails."""
        before, self.most = self.most, 1
        try:
            yield
        except BaseException:
            self.most = before
            raise


@dataclass
class _Shared:
    """What all that one connection is used for has in common."""

    connection: Connection | None = None
    connecting: anyio.Lock = field(default_factory=anyio.Lock)
    starts: int = 0
    last: Exchange | None = None


class Server:
    """One connection to the target, opened when it is needed, and again when it has ended; and one list to search.

    All that needs it raises `TargetError` where the target cannot be reached, `RefusedError` where it no longer speaks
    this era, and `UnverifiableError` where no answer can be read: a search was refused, its result is not well-formed,
    its pages do not end, the server was too busy each time, or the answers so far take too much memory.
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
        """What is searched and listed."""
        self.concurrency = concurrency or Concurrency()
        self.timeouts = timeouts or Timeouts(options.timeout, target.start_seconds)
        self._options = options
        self._cell = cell
        self._target = target
        self._recorder = recorder
        self._opening = opening or Opening()
        self._shared = _Shared()
        self.asked = set[str]()
        """The methods that this connection was asked for."""
        self.last_listing: Listing | None = None
        """What was listed last, on whichever connection."""
        self.steady = False
        """Whether the list was watched for a while since it was seen to change."""
        self.listing_seconds = 0.0
        """How long a whole listing took, the slowest so far."""
        self._listed_by: Connection | None = None

    def searching(self, primitive: Primitive) -> Server:
        """Return the same connection as it is used to search another list."""
        other = copy(self)
        other.primitive, other.last_listing, other._listed_by = primitive, None, None
        other.steady, other.listing_seconds = False, 0.0
        return other

    @property
    def method(self) -> str:
        """The method that searches."""
        return self.primitive.method

    @property
    def list_method(self) -> str:
        """The method that lists."""
        return self.primitive.list_method

    async def connection(self) -> Connection:
        """Return the connection, opened again if it has ended."""
        if self._shared.connection is not None and self._shared.connection.transport.ended is None:
            return self._shared.connection
        async with self._shared.connecting:  # several requests may find it ended
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
            raise TargetError("the target had to be started too often; see the wire log")
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
        fixture = opening.catalog if self._options.effective_profile == "fixture" else None
        transport = await self._target.connect(self._recorder.note, fixture, opening.env)
        own = opening.capabilities, opening.headers, opening.revision
        connection = Connection(transport, self._cell.era, self._recorder, *own)
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
        """The transport of the connection that is open. It keeps broken messages, noise and stray responses."""
        assert self._shared.connection is not None  # noqa: S101 - a check looks there after a request
        return self._shared.connection.transport

    async def hang_up(self, seconds: float) -> bool:
        """Close the stdin of the target and return whether it ended by itself within `seconds` seconds; for stdio."""
        transport = (await self.connection()).transport
        return isinstance(transport, StdioTransport) and await transport.hang_up(seconds)

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        if self._shared.connection is not None:
            await self._shared.connection.aclose()
            self._shared.connection = None

    async def ask(
        self, method: str, params: Params | None = None, *, seconds: float | None = None, **overrides: Any
    ) -> Exchange:
        """Send any request, with overrides as in `Connection.request`; `seconds` shortens the wait for its exchange."""
        async with self.concurrency.turn:
            self._require_room()
            connection = await self.connection()
            self.asked.add(method)
            # The others that are under way may be answered before it.
            usual = self.timeouts.for_request(method) + (self.concurrency.most - 1) * self._recorder.milliseconds / 1000
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
        """How many searches may be under way: where answers are large, few are held in memory before they are read."""
        return max(1, _MAX_BYTES_AT_ONCE // max(1, self._recorder.largest[self.method]))

    async def notify(self, method: str, params: Params) -> Exchange:
        """Send a message without an id and return the exchange, which has no response."""
        connection = await self.connection()
        exchange = await connection.notify(method, params, seconds=self._options.timeout)
        return self._keep_last(connection, exchange)

    async def at_once(
        self, searches: Sequence[Params], *, seconds: float, ids: Sequence[str | int] = ()
    ) -> list[Exchange]:
        """Send searches with these params, the next before the last is answered; return the exchanges in this order.

        Each may take up to `seconds` seconds, and has one of `ids` where there are any.
        """
        self._require_room()
        connection = await self.connection()
        self.asked.add(self.method)
        exchanges: dict[int, Exchange] = {}

        async def search(place: int) -> None:
            with_id = ids[place] if ids else None
            exchange = await connection.request(self.method, searches[place], seconds=seconds, with_id=with_id)
            exchanges[place] = self._keep_last(connection, exchange)
            if self._recorder.held > _MAX_BYTES_HELD:
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
        """Send a search with exactly these params, again while the server says that it is too busy."""
        most, waited, repeats = self.concurrency.most, 0.0, 0
        exchange = await self.ask(self.method, params, **overrides)
        while (wait := _pause(exchange)) is not None:
            if most > 1:  # with other requests of the judge
                self.concurrency.most = min(self.concurrency.most, most // 2)
            else:
                waited, repeats = waited + wait, repeats + 1
            if repeats > _BUSY_REPEATS or waited > self._options.timeout:
                raise UnverifiableError("the server says each time that it is too busy to search", exchange)
            await anyio.sleep(wait)
            most = self.concurrency.most
            exchange = await self.ask(self.method, params, **overrides)
        return exchange

    async def find_concurrency(self, search: Exchange) -> None:
        """Find out of a target that took long to answer a search whether it answers several side by side."""
        if search.milliseconds < _SLOW_MILLISECONDS:
            return
        self.concurrency.slow, params = True, search.params
        alone = await self.search(params)
        usual, began = alone.milliseconds / 1000, time.monotonic()
        seconds = self._options.timeout + _TRIED_AT_ONCE * usual
        together = await self.at_once([params] * _TRIED_AT_ONCE, seconds=seconds)
        quick = time.monotonic() - began < _SIDE_BY_SIDE * _TRIED_AT_ONCE * usual
        if quick and all(exchange.result is not None for exchange in (alone, *together)):
            self.concurrency.most = min(_AT_ONCE, self._most_at_once)

    async def page(self, query: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return one page of a search that the draft allows."""
        given = {"query": query, "limit": limit, "cursor": cursor}
        params = {name: value for name, value in given.items() if value is not None}
        return read_page(await self.search(params), f"a search for {query!r}")

    async def walk(
        self,
        query: str,
        limit: int | None = None,
        *,
        most: int = 250,
        first: Page | None = None,
        later: Sequence[int | None] = (),
    ) -> Walk:
        """Return the pages of one search, up to `most` of them or until a cursor comes again.

        The first page may be known; `later` has the limits of those after it, in turn, where they are others. An empty
        `nextCursor` ends it as if there were none; pages-end and cursor-nonempty judge that.
        """
        pages, followed, limits = [first or await self.page(query, limit=limit)], set[str](), cycle(later or [limit])
        while (cursor := pages[-1].next_cursor) and cursor not in followed and len(pages) < most:
            followed.add(cursor)
            pages.append(await self.page(query, limit=next(limits), cursor=cursor))
        return Walk(query, limit, tuple(pages), ended=not cursor, again=cursor in followed)

    async def first(self, query: str, *, limit: int | None = None) -> Page:
        """Return the first page of a search that holds an item, or else its last one."""
        page = await self.page(query, limit=limit)
        for _ in range(_MAX_EMPTY_PAGES):
            if page.items or not page.next_cursor:
                break
            page = await self.page(query, limit=limit, cursor=page.next_cursor)
        return page

    async def large_limit(self) -> int:
        """Return a limit that brings as much as the target says it returns at once, within reason."""
        most = integer((await self.settings()).get("maxLimit"))
        return min(most, _LARGE_LIMIT) if most is not None and most > 0 else _LARGE_LIMIT

    async def settings(self) -> JsonObject:
        """Return the settings for this method as they were advertised, empty ones where there are none."""
        return settings_for(advertised_settings(await self.connection()), self.primitive) or {}

    async def whole(self, query: str, limit: int | None = None) -> Walk:
        """Return all pages of one search, large ones unless `limit` is given."""
        walk = await self.walk(query, limit or await self.large_limit())
        if not walk.ended:
            pages = f"{len(walk.pages)} pages of a search for {query!r} are not all; see pages-end"
            raise UnverifiableError(pages, walk.last)
        return walk

    async def listing(self) -> Listing:
        """Return all that the list holds now, listed again where a change between its pages ends their cursors."""
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
                raise ChangedError(f"a cursor of {method} was answered by {exchange.describe()}", exchange)
            unlisted = exchange.error is not None and exchange.error.code == _METHOD_NOT_FOUND
            if self.primitive is TEMPLATES and unlisted:  # a server without templates need not serve their list
                return Listing((), exchange)
            page = read_page(exchange, method)
            items += page.items
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(items), page.exchange)
        raise UnverifiableError(f"{method} does not end")

    async def known_listing(self) -> Listing:
        """Return what this connection listed last; it is asked where there is nothing yet."""
        await self.connection()
        known = self.last_listing if self._listed_by is self._shared.connection else None
        return known or await self.listing()

    def _keep_last(self, connection: Connection, exchange: Exchange) -> Exchange:
        self._shared.last = exchange
        self._note_death(connection)
        return exchange

    def _note_death(self, connection: Connection) -> None:
        """Keep how the target ended by itself, if it did, once, with the last exchange before it.

        Over HTTP other connections to the same process may find that out much later, in another check.
        """
        if (ended := connection.transport.ended) is not None and self._shared.last is not None:
            self._recorder.note_death(ended, self._shared.last, of=connection.transport.url)
            self._shared.last = None

    def _require_room(self) -> None:
        if self._recorder.held > _MAX_BYTES_HELD:
            gc.collect()
        if self._recorder.held > _MAX_BYTES_HELD:
            raise UnverifiableError(f"the target's answers take more than {_MAX_BYTES_HELD // 1024**2} MiB of memory")
