"""The server under test as the checks of one cell reach it: connections, requests, and the pages that they bring.

It judges nothing: what cannot be read is `unverified`, and the checks of a result's shape say what is wrong with it.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from tools_search_spec import METHOD

from tools_search_conformance.model import Cell, UnverifiableError
from tools_search_conformance.run.judging import Timeouts
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.pages import (
    Listing,
    Page,
    Walk,
    advertised_settings,
    complaint,
    read_page,
)
from tools_search_conformance.target.target import Target
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.eras import DECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder
from tools_search_conformance.wire.stdio import StdioTransport

Params = Mapping[str, Any]

_INTERNAL_ERROR: Final = -32603
_BUSY_REPEATS: Final = 5
"""How often a search is sent again that the server was too busy for."""
_MOST_STARTS: Final = 60
_MOST_BYTES_HELD: Final = 96 * 1024 * 1024
"""How many bytes of memory a target's answers may take of one check, about."""
_LARGE_LIMIT: Final = 50
"""A limit that most servers take as it is; those with a smaller maximum have to clamp it."""
_MOST_EMPTY_PAGES: Final = 20
_MOST_LIST_PAGES: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How the connections of one bench are opened."""

    catalog: str = "core"
    """Name of the catalog that a fixture serves."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """More of the environment that the fixture is started in."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers of every request."""


def busy_seconds(exchange: Exchange) -> float | None:
    """Return how long a server that was too busy for a search asks to wait; `None` for any other answer."""
    error = exchange.error
    if error is None or error.code != _INTERNAL_ERROR or complaint(error.data, "BusyData"):
        return None
    return float(error.data["retryAfterMs"]) / 1000


class Server:
    """One connection to the target, opened when it is needed, and again when it has ended."""

    def __init__(
        self,
        options: Options,
        cell: Cell,
        target: Target,
        recorder: Recorder,
        *,
        opening: Opening | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.timeouts = timeouts or Timeouts(options.timeout, target.start_seconds)
        self._options = options
        self._cell = cell
        self._target = target
        self._recorder = recorder
        self._opening = opening or Opening()
        self._connection: Connection | None = None
        self._starts = 0
        self._last: Exchange | None = None

    async def connection(self) -> Connection:
        """Return the connection, opened again if it has ended.

        Raises:
            TargetError, RefusedError: The target cannot be reached, or no longer speaks this era.
        """
        if self._connection is not None:
            if self._connection.transport.ended is None:
                return self._connection
            self._note_death(self._connection)
        return await self.connect(self._opening.catalog, DECLARED)

    async def connect(self, catalog: str, capabilities: Params) -> Connection:
        """Open a connection, in place of the one there was, to a fixture serving `catalog` or to a live server.

        Raises:
            TargetError, RefusedError: As `connection`.
        """
        await self.aclose()
        if self.timeouts.gone is not None:
            raise TargetError(self.timeouts.gone)
        self._starts += 1
        if self._starts > _MOST_STARTS:
            raise TargetError("the target had to be started too often; see the wire log")
        try:
            self._connection = await self._open(catalog, capabilities)
        except (RefusedError, TargetError) as error:
            if isinstance(error, RefusedError) and error.exchange.replied:
                self.timeouts.started()
            else:
                self.timeouts.start_failed(str(error))
            raise
        self.timeouts.started()
        return self._connection

    async def _open(self, catalog: str, capabilities: Params) -> Connection:
        fixture = catalog if self._options.effective_profile == "fixture" else None
        transport = await self._target.connect(self._recorder.note, fixture, self._opening.env)
        headers = self._opening.headers
        connection = Connection(transport, self._cell.era, self._recorder, capabilities=capabilities, headers=headers)
        try:
            await connection.open(self.timeouts.for_start())
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def opening(self) -> tuple[Connection, Exchange]:
        """Return the connection and the exchange that opened it."""
        connection = await self.connection()
        assert connection.opening is not None  # noqa: S101 - set by open
        return connection, connection.opening

    @property
    def malformed(self) -> list[str]:
        """Broken messages on the current connection, oldest first."""
        return self._connection.transport.malformed if self._connection else []

    @property
    def noise(self) -> list[str]:
        """Text on stdout of the current connection that was no attempt at a message, oldest first."""
        return self._connection.transport.noise if self._connection else []

    @property
    def strays(self) -> list[JsonObject]:
        """Responses on the current connection that no request was waiting for, oldest first."""
        return self._connection.transport.strays if self._connection else []

    async def hang_up(self, seconds: float) -> bool:
        """Close the stdin of the target and return whether it ended by itself within `seconds` seconds; for stdio."""
        transport = (await self.connection()).transport
        return isinstance(transport, StdioTransport) and await transport.hang_up(seconds)

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def ask(
        self,
        method: str,
        params: Params | None = None,
        *,
        capabilities: Params | None = None,
        headers: Mapping[str, str | None] | None = None,
        meta: Mapping[str, Any] | None = None,
        with_id: str | int | None = None,
        seconds: float | None = None,
    ) -> Exchange:
        """Send any request, with overrides as in `Connection.request`, and return the exchange.

        `seconds` shortens the wait for it.

        Raises:
            TargetError, RefusedError: As `connection`.
            UnverifiableError: The answers so far take too much memory.
        """
        self._require_room()
        connection = await self.connection()
        exchange = await connection.request(
            method,
            params,
            seconds=seconds or self.timeouts.for_request(method),
            capabilities=capabilities,
            headers=headers,
            meta=meta,
            with_id=with_id,
        )
        if exchange.replied:
            self.timeouts.answered(method)
        elif seconds is None and connection.transport.ended is None:
            self.timeouts.timed_out(method)
        self._note_last(connection, exchange)
        return exchange

    async def notify(self, method: str, params: Params) -> Exchange:
        """Send a message without an id and return the exchange, which has no response."""
        connection = await self.connection()
        exchange = await connection.notify(method, params, seconds=self._options.timeout)
        self._note_last(connection, exchange)
        return exchange

    async def at_once(
        self, searches: Sequence[Params], *, seconds: float, ids: Sequence[str | int] = ()
    ) -> list[Exchange]:
        """Send searches with these params, the next before the last is answered; return the exchanges in this order.

        Each may take up to `seconds` seconds, and has one of `ids` where there are any.

        Raises:
            TargetError, RefusedError, UnverifiableError: As `ask`.
        """
        self._require_room()
        connection = await self.connection()
        exchanges: dict[int, Exchange] = {}

        async def search(place: int, params: Params) -> None:
            with_id = ids[place] if ids else None
            exchanges[place] = await connection.request(METHOD, params, seconds=seconds, with_id=with_id)
            self._note_last(connection, exchanges[place])

        async with anyio.create_task_group() as tasks:
            for place, params in enumerate(searches):
                tasks.start_soon(search, place, params)
        return [exchanges[place] for place in range(len(searches))]

    async def search(self, params: Params, **overrides: Any) -> Exchange:
        """Send `tools/search` with exactly these params, again while the server says that it is too busy.

        Raises:
            TargetError, RefusedError, UnverifiableError: As `ask`.
            UnverifiableError: The server was too busy each time, or asks for a longer wait than a request may take.
        """
        waited = 0.0
        exchange = await self.ask(METHOD, params, **overrides)
        for _ in range(_BUSY_REPEATS):
            if (wait := busy_seconds(exchange)) is None:
                return exchange
            if (waited := waited + wait) > self._options.timeout:
                break
            await anyio.sleep(wait)
            exchange = await self.ask(METHOD, params, **overrides)
        if busy_seconds(exchange) is None:
            return exchange
        raise UnverifiableError("the server says each time that it is too busy to search", exchange)

    async def page(self, query: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return one page of a search that the draft allows.

        Raises:
            UnverifiableError: The search was refused or its result is not well-formed.
        """
        given = {"query": query, "limit": limit, "cursor": cursor}
        params = {name: value for name, value in given.items() if value is not None}
        return read_page(await self.search(params), f"a search for {query!r}")

    async def walk(self, query: str, limit: int | None = None, *, most: int = 250) -> Walk:
        """Return the pages of one search, up to `most` of them or until a cursor comes again.

        An empty `nextCursor` ends it as if there were none; that there is one is for cursor-nonempty to judge.
        """
        pages, followed = [await self.page(query, limit=limit)], set[str]()
        while (cursor := pages[-1].next_cursor) and cursor not in followed and len(pages) < most:
            followed.add(cursor)
            pages.append(await self.page(query, limit=limit, cursor=cursor))
        return Walk(query, limit, tuple(pages), ended=not cursor, again=cursor in followed)

    async def first(self, query: str, *, limit: int | None = None) -> Page:
        """Return the first page of a search that holds a tool, or else its last one.

        Raises:
            UnverifiableError: As `page`.
        """
        page = await self.page(query, limit=limit)
        for _ in range(_MOST_EMPTY_PAGES):
            if page.tools or not page.next_cursor:
                break
            page = await self.page(query, limit=limit, cursor=page.next_cursor)
        return page

    async def large_limit(self) -> int:
        """Return a limit that brings as much as the target says it returns at once, within reason."""
        most = integer((advertised_settings(await self.connection()) or {}).get("maxLimit"))
        return min(most, _LARGE_LIMIT) if most is not None and most > 0 else _LARGE_LIMIT

    async def whole(self, query: str, limit: int | None = None) -> Walk:
        """Return all pages of one search, large ones unless `limit` is given.

        Raises:
            UnverifiableError: As `page`, or the pages do not end.
        """
        walk = await self.walk(query, limit or await self.large_limit())
        if not walk.ended:
            pages = f"{len(walk.pages)} pages of a search for {query!r} are not all; see pages-end"
            raise UnverifiableError(pages, walk.last)
        return walk

    async def listing(self) -> Listing:
        """Return all that `tools/list` lists.

        Raises:
            UnverifiableError: It was refused, is not well-formed or does not end.
        """
        tools, cursor, seen = list[JsonObject](), None, None
        exchanges: list[Exchange] = []
        for _ in range(_MOST_LIST_PAGES):
            page = read_page(await self.ask("tools/list", {} if cursor is None else {"cursor": cursor}), "tools/list")
            tools += page.tools
            exchanges.append(page.exchange)
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(tools), page.exchange, seen, tuple(exchanges))
            seen = seen or cursor
        raise UnverifiableError("tools/list does not end")

    def _note_last(self, connection: Connection, exchange: Exchange) -> None:
        self._last = exchange
        self._note_death(connection)

    def _note_death(self, connection: Connection) -> None:
        """Keep how the target ended by itself, if it did, once, with the last exchange before it."""
        if (ended := connection.transport.ended) is not None and self._last is not None:
            self._recorder.deaths.append((ended, self._last))
            self._last = None

    def _require_room(self) -> None:
        if self._recorder.held > _MOST_BYTES_HELD:
            gc.collect()
        if self._recorder.held > _MOST_BYTES_HELD:
            raise UnverifiableError(f"the target's answers take more than {_MOST_BYTES_HELD // 1024**2} MiB of memory")
