"""One cell's line to the target: connections opened when needed, requests, pages, listings. It judges nothing."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from tools_search_spec import METHOD

from tools_search_conformance.model import Cell, Effort, FixtureFeature, Profile
from tools_search_conformance.pages import Listing, Page, Walk, read_page
from tools_search_conformance.patience import Patience
from tools_search_conformance.shape import advertised, integer
from tools_search_conformance.target import Target
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.eras import DECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder
from tools_search_conformance.wire.stdio import StdioTransport

__all__ = ["Link", "Opening", "Params", "Setting"]

_PLENTY: Final = 50
"""A limit that most servers take as it is; those with a smaller maximum have to clamp it."""

Params = Mapping[str, Any]

_MOST_STARTS: Final = 40
_MOST_HELD: Final = 96 * 1024 * 1024
"""How many bytes of memory a target's answers may take of one check, about."""
_MOST_EMPTY: Final = 20
_MOST_LIST_PAGES: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a connection is opened to, and how."""

    catalog: str = "core"
    """Name of the catalogue that a fixture serves."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """More of the environment that the fixture is started in."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers of every request."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The circumstances of one cell."""

    cell: Cell
    profile: Profile
    effort: Effort = "default"
    seed: int = 0
    features: frozenset[FixtureFeature] = frozenset()
    """What the fixture can do beyond serving a catalogue."""
    seconds: float = 10
    """How long one request may take."""
    brief: bool = False
    """Whether the target is started once only, and of many like cases some are tried."""
    first: bool = True
    """Whether it is the first cell of a run."""


class Link:
    """All checks of a cell share one connection, which is opened again when it has ended."""

    def __init__(self, setting: Setting, target: Target, recorder: Recorder, opening: Opening | None = None) -> None:
        self.setting = setting
        self.recorder = recorder
        self._opening = opening or Opening()
        self._target = target
        self._connection: Connection | None = None
        self._starts = 0
        self.patience = Patience(setting.seconds, target.start_seconds)
        self._last: Exchange | None = None
        self.deaths: list[tuple[str, Exchange]] = []
        """How the target ended by itself during the current check, and the request that was the last one."""
        self.first_search: tuple[bool, Exchange] | None = None
        """Whether the first search of all left the listing as it was, and how the listing after it ended."""

    @property
    def cell(self) -> Cell:
        """Which transport and era."""
        return self.setting.cell

    @property
    def profile(self) -> Profile:
        """Whose catalogue the target serves."""
        return self.setting.profile

    async def connection(self) -> Connection:
        """Return the cell's connection, opened anew if it has ended.

        Raises:
            TargetError, RefusedError: the target cannot be reached, or no longer speaks this era.
        """
        if self._connection is not None:
            if (ended := self._connection.transport.ended) is None:
                return self._connection
            self._mourn(ended)
        return await self.connect(self._opening.catalog, DECLARED)

    def _mourn(self, ended: str) -> None:
        """Keep how the target ended by itself, once, with the last exchange before it."""
        if self._last is not None:
            self.deaths.append((ended, self._last))
            self._last = None

    async def connect(self, catalog: str, capabilities: Params) -> Connection:
        """Open a connection, in place of the one there was, to a fixture serving `catalog` or to a live server.

        Raises:
            TargetError, RefusedError: as `connection`.
        """
        await self.aclose()
        self._connection = await self._open(catalog, capabilities)
        return self._connection

    async def opening(self) -> tuple[Connection, Exchange]:
        """Return the connection and the exchange that opened it."""
        connection = await self.connection()
        assert connection.opening is not None  # noqa: S101 - set by open
        return connection, connection.opening

    @property
    def malformed(self) -> list[str]:
        """What arrived on the current connection and was no message, oldest first."""
        return self._connection.transport.malformed if self._connection else []

    @property
    def noise(self) -> list[str]:
        """What the target wrote to stdout on the current connection that was no attempt at a message, oldest first."""
        return self._connection.transport.noise if self._connection else []

    @property
    def strays(self) -> list[JsonObject]:
        """Responses on the current connection that no request was waiting for, oldest first."""
        return self._connection.transport.strays if self._connection else []

    async def hang_up(self, seconds: float) -> bool:
        """Close the stdin of the target and tell whether it ended by itself within `seconds` seconds; for stdio."""
        transport = (await self.connection()).transport
        return isinstance(transport, StdioTransport) and await transport.hang_up(seconds)

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def _open(self, catalog: str, capabilities: Params) -> Connection:
        if self.patience.gone is not None:
            raise TargetError(self.patience.gone)
        self._starts += 1
        if self._starts > _MOST_STARTS:
            raise TargetError("the target had to be started too often; see the wire log")
        try:
            connection = await self._opened(catalog, capabilities)
        except RefusedError as error:
            if error.exchange.replied:
                self.patience.started()
            else:
                self.patience.failed(str(error))
            raise
        except TargetError as error:
            self.patience.failed(str(error))
            raise
        self.patience.started()
        return connection

    async def _opened(self, catalog: str, capabilities: Params) -> Connection:
        fixture = catalog if self.profile == "fixture" else None
        transport = await self._target.connect(self.recorder.note, fixture, self._opening.env)
        connection = Connection(
            transport, self.cell.era, self.recorder, capabilities=capabilities, headers=self._opening.headers
        )
        try:
            await connection.open(self.patience.for_start())
        except BaseException:
            await connection.aclose()
            raise
        return connection

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
        """Send any request, dressed as `Connection.request` does, and return the exchange, whatever came of it.

        `seconds` shortens the wait for it.

        Raises:
            TargetError, RefusedError: as `connection`.
            UnverifiableError: what the target has sent already takes too much memory.
        """
        self._require_room()
        connection = await self.connection()
        patience = seconds or self.patience.for_request(method)
        exchange = await connection.request(
            method,
            params,
            seconds=patience,
            capabilities=capabilities,
            headers=headers,
            meta=meta,
            with_id=with_id,
        )
        if exchange.replied:
            self.patience.answered(method)
        elif seconds is None and connection.transport.ended is None:
            self.patience.waited(method)
        self._remember(connection, exchange)
        return exchange

    def _remember(self, connection: Connection, exchange: Exchange) -> None:
        self._last = exchange
        if (ended := connection.transport.ended) is not None:
            self._mourn(ended)

    async def notify(self, method: str, params: Params) -> Exchange:
        """Send a message without an id and return the exchange, which has no response."""
        connection = await self.connection()
        exchange = await connection.notify(method, params, seconds=self.setting.seconds)
        self._remember(connection, exchange)
        return exchange

    async def at_once(
        self, searches: Sequence[Params], *, seconds: float, ids: Sequence[str | int] = ()
    ) -> list[Exchange]:
        """Send searches with these params, the next before the last is answered; return the exchanges in this order.

        Each may take up to `seconds` seconds, and has one of `ids` where there are any.

        Raises:
            TargetError, RefusedError, UnverifiableError: as `ask`.
        """
        self._require_room()
        connection = await self.connection()
        exchanges: dict[int, Exchange] = {}

        async def search(place: int, params: Params, with_id: str | int | None) -> None:
            exchanges[place] = await connection.request(METHOD, params, seconds=seconds, with_id=with_id)
            self._remember(connection, exchanges[place])

        async with anyio.create_task_group() as tasks:
            for place, params in enumerate(searches):
                tasks.start_soon(search, place, params, ids[place] if ids else None)
        return [exchanges[place] for place in range(len(searches))]

    def _require_room(self) -> None:
        if self.recorder.held > _MOST_HELD:
            gc.collect()
        if self.recorder.held > _MOST_HELD:
            raise UnverifiableError(f"the target's answers take more than {_MOST_HELD // 1024**2} MiB of memory")

    async def search(self, params: Params, **dress: Any) -> Exchange:
        """Send `tools/search` with exactly these params, dressed as `ask` dresses it."""
        return await self.ask(METHOD, params, **dress)

    async def page(self, query: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return one page of a search that the draft allows.

        Raises:
            UnverifiableError: the search was refused or its result is not well-formed.
        """
        params: dict[str, Any] = {"query": query}
        if limit is not None:
            params["limit"] = limit
        if cursor is not None:
            params["cursor"] = cursor
        return read_page(await self.search(params), f"a search for {query!r}")

    async def walk(self, query: str, limit: int | None = None, *, most: int = 250) -> Walk:
        """Return the pages of one search, up to `most` of them or until a cursor comes again.

        An empty `nextCursor` ends it like none at all: that there is one is what cursor-nonempty is about.
        """
        pages, followed = [await self.page(query, limit=limit)], set[str]()
        while (cursor := pages[-1].next_cursor) and cursor not in followed and len(pages) < most:
            followed.add(cursor)
            pages.append(await self.page(query, limit=limit, cursor=cursor))
        return Walk(query, limit, tuple(pages), ended=not cursor, again=cursor in followed)

    async def first(self, query: str, *, limit: int | None = None) -> Page:
        """Return the first page of a search that holds a tool, or else its last one.

        Raises:
            UnverifiableError: as `page`.
        """
        page = await self.page(query, limit=limit)
        for _ in range(_MOST_EMPTY):
            if page.tools or not page.next_cursor:
                break
            page = await self.page(query, limit=limit, cursor=page.next_cursor)
        return page

    async def onward(self, query: str, cursor: str, *, most: int = 250) -> list[Page]:
        """Return the pages from `cursor` on, without a limit, up to `most` of them.

        Raises:
            UnverifiableError: as `page`.
        """
        pages = [await self.page(query, cursor=cursor)]
        while (following := pages[-1].next_cursor) and len(pages) < most:
            pages.append(await self.page(query, cursor=following))
        return pages

    async def plenty(self) -> int:
        """Return a limit that brings as much as the target says it returns at once, within reason."""
        most = integer((advertised(await self.connection()) or {}).get("maxLimit"))
        return min(most, _PLENTY) if most is not None and most > 0 else _PLENTY

    async def whole(self, query: str, limit: int | None = None) -> Walk:
        """Return all pages of one search, large ones unless `limit` is given.

        Raises:
            UnverifiableError: as `page`, or the pages do not end.
        """
        walk = await self.walk(query, limit or await self.plenty())
        if not walk.ended:
            pages = f"{len(walk.pages)} pages of a search for {query!r} are not all; see pages-end"
            raise UnverifiableError(pages, walk.last)
        return walk

    async def listing(self) -> Listing:
        """Return all that `tools/list` lists.

        Raises:
            UnverifiableError: it was refused, is not well-formed or does not end.
        """
        tools, cursor, seen = list[JsonObject](), None, None
        held: list[Exchange] = []
        for _ in range(_MOST_LIST_PAGES):
            page = read_page(await self.ask("tools/list", {} if cursor is None else {"cursor": cursor}), "tools/list")
            tools += page.tools
            held.append(page.exchange)
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(tools), page.exchange, seen, tuple(held))
            seen = seen or cursor
        raise UnverifiableError("tools/list does not end")
