"""One cell's line to the target: connections opened when needed, and requests. It judges nothing."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
from tools_search_spec import METHOD

from tools_search_conformance.model import Cell, Profile
from tools_search_conformance.run.setting import Opening, Setting
from tools_search_conformance.target.patience import Patience
from tools_search_conformance.target.shape import complaint
from tools_search_conformance.target.target import Target
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.eras import DECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder
from tools_search_conformance.wire.stdio import StdioTransport

__all__ = ["Link", "Params", "busy_seconds"]

Params = Mapping[str, Any]

_INTERNAL: Final = -32603
_BUSY_REPEATS: Final = 5
"""How often a search is sent again that a server was too busy for."""
_MOST_STARTS: Final = 60
_MOST_HELD: Final = 96 * 1024 * 1024
"""How many bytes of memory a target's answers may take of one check, about."""


def busy_seconds(exchange: Exchange) -> float | None:
    """Return how long a server that was too busy for a search wants to be left alone; `None` for any other answer."""
    if exchange.error is None or exchange.error.code != _INTERNAL or complaint(exchange.error.data, "BusyData"):
        return None
    return float(exchange.error.data["retryAfterMs"]) / 1000


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
        """Whose catalog the target serves."""
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
        """Send `tools/search` with exactly these params, dressed as `ask` dresses it, until the target is not too busy.

        Raises:
            TargetError, RefusedError, UnverifiableError: as `ask`.
            UnverifiableError: the target was too busy each time, or asks for more patience than a request gets.
        """
        exchange, waited = await self.ask(METHOD, params, **dress), 0.0
        for _ in range(_BUSY_REPEATS):
            if (wait := busy_seconds(exchange)) is None:
                return exchange
            if (waited := waited + wait) > self.setting.seconds:
                break
            await anyio.sleep(wait)
            exchange = await self.ask(METHOD, params, **dress)
        if busy_seconds(exchange) is None:
            return exchange
        raise UnverifiableError("the server says each time that it is too busy to search", exchange)
