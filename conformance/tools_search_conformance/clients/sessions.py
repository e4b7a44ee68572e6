"""What a client check does with a connection: operations that the driver is asked for, and what the peers heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio

from tools_search_conformance.clients.contract import DriverError, NoDriverFeatureError, Told
from tools_search_conformance.clients.driver import AnyDriver
from tools_search_conformance.clients.peer import Peer, params_of
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import as_object
from tools_search_conformance.wire.record import Exchange

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench

__all__ = ["FederationSession", "NotConnectedError", "Session"]

_ALL_ASKED_SECONDS: Final = 2.0
"""How long a search may take to reach all the servers that are asked at once."""


class NotConnectedError(UnverifiableError):
    """The client says that it cannot connect to a peer."""


class _Operations:
    """What a driver can be asked to do on what it has connected to."""

    def __init__(self, driver: AnyDriver, latest: Callable[[], Exchange | None], bench: ClientBench) -> None:
        self._driver = driver
        self._latest = latest
        self._bench = bench

    async def search(self, query: str, limit: int | None = None) -> Told:
        """Have the client find tools for a need, at most `limit` of them where there is one."""
        return await self.ask("search", query=query, **({} if limit is None else {"limit": limit}))

    async def search_all(self, query: str) -> Told:
        """Have the client find every tool for a need."""
        return await self.ask("search_all", query=query)

    async def list_tools(self) -> Told:
        """Have the client list all tools."""
        return await self.ask("list_tools")

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Told:
        """Have the client call a tool."""
        return await self.ask("call", name=name, arguments=dict(arguments))

    async def ask(self, op: str, **members: Any) -> Told:
        """Have the client do something.

        Raises:
            NoDriverFeatureError: it cannot.
            DriverError: the driver ended or did not answer.
        """
        patience = self._bench.patience
        self._driver.seconds = patience.for_request(op)
        try:
            told = await self._driver.ask(op, **members)
        except DriverError as error:
            if isinstance(error.__cause__, TimeoutError):
                patience.waited(op)
            if (exchange := self._latest()) is not None:
                self._bench.deaths.append((str(error), exchange))
            raise
        patience.answered(op)
        if told.unsupported:
            raise NoDriverFeatureError(f"the driver does not support `{op}`")
        return told


class Session(_Operations):
    """One connection of the client to one peer."""

    def __init__(self, driver: AnyDriver, peer: Peer, bench: ClientBench) -> None:
        super().__init__(driver, lambda: self.latest, bench)
        self.peer = peer

    async def begin(self, name: str, query: str) -> None:
        """Have the client begin a search that is known by `name`, and return when the peer has it and holds it back.

        Raises:
            NoDriverFeatureError: the driver cannot.
            UnverifiableError: the search does not come.
        """
        self._bench.needs(self._driver, "concurrent")
        told = await self.ask("begin", query=query, **{"as": name})
        came = told.ok is not None and await self.until(lambda: _has(self.peer, query))
        message = f"the search that was begun did not come to the server: the driver says {told.describe()}"
        self._bench.require(came, message, self.latest)

    async def until(self, condition: Callable[[], bool], seconds: float = 10) -> bool:
        """Wait until `condition` holds of what the peer has heard, for `seconds` at most; tell whether it does."""
        return await self._bench.until(self.peer, condition, seconds)

    async def outcome(self, name: str) -> Told:
        """Have the client wait for a search that was begun."""
        return await self.ask("await", of=name)

    async def cancel(self, name: str) -> Told:
        """Have the client cancel a search that was begun.

        Raises:
            NoDriverFeatureError: the driver cannot.
        """
        self._bench.needs(self._driver, "cancel")
        return await self.ask("cancel", of=name)

    @property
    def latest(self) -> Exchange | None:
        """The last exchange, if there is any."""
        return self.peer.exchanges[-1] if self.peer.exchanges else None

    @property
    def opening(self) -> Exchange:
        """The exchange that opened the connection.

        Raises:
            UnverifiableError: there was none in this era.
        """
        if (opening := self.peer.opening) is None:
            raise UnverifiableError("the client did not open the connection in this era", self.latest)
        return opening

    @property
    def evidence(self) -> Exchange:
        """The last exchange.

        Raises:
            UnverifiableError: there is none.
        """
        if (latest := self.latest) is None:
            raise UnverifiableError("the client sent nothing")
        return latest

    @property
    def last_search(self) -> Exchange:
        """The exchange of the last search.

        Raises:
            UnverifiableError: the client never searched.
        """
        if not self.peer.searches:
            raise UnverifiableError("the client did not send tools/search, although it was offered", self.latest)
        return self.peer.searches[-1]

    @property
    def followed(self) -> list[Any]:
        """The cursors that searches carried, in their order; a `null` is none."""
        carried = (params_of(exchange).get("cursor") for exchange in self.peer.searches)
        return [cursor for cursor in carried if cursor is not None]


def _has(peer: Peer, query: str) -> bool:
    """Tell whether a search for `query` waits at the peer."""
    return any((as_object(message.get("params")) or {}).get("query") == query for message in peer.waiting)


class FederationSession(_Operations):
    """One client connected to several peers, by name."""

    def __init__(self, driver: AnyDriver, peers: Mapping[str, Peer], bench: ClientBench) -> None:
        super().__init__(driver, lambda: self.latest, bench)
        self.peers = peers

    async def begin(self, name: str, query: str) -> None:
        """Have the client begin a search, and return when each peer that the client asks at once holds it back.

        Raises:
            NoDriverFeatureError: the driver cannot begin a search of several servers.
            UnverifiableError: the search comes to none of them.
        """
        told = await self.ask("begin", query=query, **{"as": name})
        if told.ok is None:
            raise NoDriverFeatureError(f"the driver begins no search of several servers: {told.describe()}")
        async with anyio.create_task_group() as tasks:
            for peer in self.peers.values():
                tasks.start_soon(self._bench.until, peer, lambda peer=peer: _has(peer, query), _ALL_ASKED_SECONDS)
        came = any(_has(peer, query) for peer in self.peers.values())
        self._bench.require(came, "the search that was begun came to none of the servers", self.latest)

    @property
    def latest(self) -> Exchange | None:
        """The last exchange with any of the peers."""
        return max(self._exchanges, key=lambda exchange: exchange.number, default=None)

    @property
    def evidence(self) -> Exchange:
        """The last exchange with a response, or the last one where none has any.

        Raises:
            UnverifiableError: the client spoke to none of the peers.
        """
        if not self._exchanges:
            raise UnverifiableError("the client spoke to none of the servers")
        return max(self._exchanges, key=lambda exchange: (exchange.replied, exchange.number))

    @property
    def _exchanges(self) -> list[Exchange]:
        return [exchange for peer in self.peers.values() for exchange in peer.exchanges]
