"""The workbench of a client check in one cell: a driver, connections to scripted peers, and expectations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from tools_search_conformance.clients.driver import AnyDriver, DriverError, NoDriverFeatureError, Outcome, start_driver
from tools_search_conformance.clients.endpoints import Endpoints
from tools_search_conformance.clients.peer import Peer, params_of
from tools_search_conformance.clients.script import Script
from tools_search_conformance.model import CLIENT_PREFIX, Cell, DriverFeature, UnverifiableError, ViolationError
from tools_search_conformance.run.judging import Timeouts, Workbench
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import Registry
from tools_search_conformance.wire.eras import Era
from tools_search_conformance.wire.record import Exchange, Recorder

_MAX_STARTS: Final = 40
_CLOSE_SECONDS: Final = 5.0
_SEARCH_SECONDS: Final = 10.0
"""How long a search that was begun may take to reach its server."""
_ALL_SEARCHES_SECONDS: Final = 2.0
"""How long it may take to reach all servers that are asked at once."""


class NotConnectedError(UnverifiableError):
    """The client reports that it cannot connect to a peer."""


class ClientBench(Workbench):
    """One cell's workbench. The driver serves all checks of the cell, and is started again when it has ended."""

    def __init__(
        self, options: Options, cell: Cell, tasks: TaskGroup, endpoints: Endpoints, recorder: Recorder
    ) -> None:
        """Take the group that drivers run in, and where peers are served."""
        super().__init__(options, cell, recorder)
        self.timeouts = Timeouts(options.timeout)
        self._tasks = tasks
        self._endpoints = endpoints
        self._driver: AnyDriver | None = None
        self._starts = 0

    async def driver(self) -> AnyDriver:
        """Return the cell's driver, started again if it has ended.

        Raises:
            DriverError: it cannot be started.
        """
        if self._driver is None or self._driver.ended is not None:
            await self.aclose()
            self._starts += 1
            if self._starts > _MAX_STARTS:
                raise DriverError("the driver had to be started too often; see the wire log")
            if self.timeouts.gone is not None:
                raise DriverError(self.timeouts.gone)
            try:
                self._driver = await start_driver(self.options, self._tasks, self.recorder.note)
            except DriverError as error:
                self.timeouts.start_failed(str(error))
                raise
        return self._driver

    async def require_features(self, *features: DriverFeature) -> None:
        """Continue only where the driver can do what is needed.

        Raises:
            NoDriverFeatureError: it does not name one of the features.
        """
        known = (await self.driver()).features
        for feature in features:
            if feature not in known:
                raise NoDriverFeatureError(f"the driver does not name `{feature}` among its features")

    @asynccontextmanager
    async def connected(
        self,
        script: Script | None = None,
        *,
        must_connect: bool = False,
        era: Era | None = None,
        address: str | None = None,
    ) -> AsyncGenerator[Session]:
        """Connect the client to a new peer, of the cell's era unless there is an `era`.

        Args:
            script: How the peer behaves.
            must_connect: Whether the check is about being able to connect.
            era: Era of the peer.
            address: Where the peer is found: in the place of the last peer with the same one.

        Raises:
            ViolationError, NotConnectedError: the client reports that it cannot connect.
            NoDriverFeatureError: the driver cannot.
        """
        driver = await self.driver()
        peer = Peer(era or self.cell.era, script or Script(), self.recorder)
        async with self._endpoints.serving(peer, self.cell.transport, address) as target:
            session = Session(self, driver, {"peer": peer})
            async with self._open(session, must_connect, "connect", target=target, era=peer.era):
                yield session

    @asynccontextmanager
    async def federated(self, scripts: Mapping[str, Script], *, must_connect: bool = False) -> AsyncGenerator[Session]:
        """Connect the client to one peer for each script, by its name; all else is as with `connected`."""
        await self.require_features("federation")
        driver = await self.driver()
        peers = {name: Peer(self.cell.era, script, self.recorder) for name, script in scripts.items()}
        async with AsyncExitStack() as stack:
            targets = {
                name: await stack.enter_async_context(self._endpoints.serving(peer, self.cell.transport))
                for name, peer in peers.items()
            }
            session = Session(self, driver, peers)
            async with self._open(session, must_connect, "federate", targets=targets, era=self.cell.era):
                yield session

    async def until(self, peer: Peer, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition` holds of what the peer has received, for `seconds` at most; return whether it does."""
        with anyio.move_on_after(min(seconds, self.options.timeout)):
            await peer.until(condition)
        return condition()

    async def aclose(self) -> None:
        """End the driver, if there is one."""
        if self._driver is not None:
            await self._driver.aclose()
            self._driver = None

    @asynccontextmanager
    async def _open(self, session: Session, must_connect: bool, op: str, **members: Any) -> AsyncGenerator[None]:
        """Have the client connect, and leave when the block ends."""
        try:
            outcome = await session.ask(op, **members)
            if outcome.ok is None:
                error = ViolationError if must_connect and session.latest else NotConnectedError
                raise error(f"the client did not connect: {outcome.describe()}", session.latest)
            yield
        finally:
            with anyio.CancelScope(shield=True), suppress(DriverError):  # the next check starts another driver
                await session.close(_CLOSE_SECONDS)


class Session:
    """One connection of the client: to one peer, or to several as a federation.

    Its operations go through the driver. They raise `NoDriverFeatureError` where the driver has no such operation, and
    `DriverError` where it ended or did not answer. What the properties return is evidence from the peers; those that
    say so raise `UnverifiableError` where there is none.
    """

    def __init__(self, bench: ClientBench, driver: AnyDriver, peers: Mapping[str, Peer]) -> None:
        self.peers = peers
        self._bench = bench
        self._driver = driver

    async def search(self, query: str, limit: int | None = None) -> Outcome:
        """Have the client find tools for a need, at most `limit` if there is one."""
        return await self.ask("search", query=query, **({} if limit is None else {"limit": limit}))

    async def search_all(self, query: str) -> Outcome:
        """Have the client find every tool for a need."""
        return await self.ask("search_all", query=query)

    async def list_tools(self) -> Outcome:
        """Have the client list all tools."""
        return await self.ask("list_tools")

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Have the client call a tool."""
        return await self.ask("call", name=name, arguments=dict(arguments))

    async def begin(self, name: str, query: str) -> None:
        """Have the client begin a search, known by `name`, and return when the peers have it and hold it back.

        Of several peers, those are waited for a moment that the client asks at once.

        Raises:
            UnverifiableError: the search reaches no peer.
        """
        alone = len(self.peers) == 1
        outcome = await self.ask("begin", query=query, **{"as": name})
        if outcome.ok is None and not alone:
            raise NoDriverFeatureError(f"the driver begins no search of several servers: {outcome.describe()}")
        seconds = _SEARCH_SECONDS if alone else _ALL_SEARCHES_SECONDS
        if outcome.ok is not None:
            async with anyio.create_task_group() as tasks:
                for peer in self.peers.values():
                    tasks.start_soon(self._bench.until, peer, lambda peer=peer: peer.holds(query), seconds)
        reached = outcome.ok is not None and any(peer.holds(query) for peer in self.peers.values())
        message = f"the search that was begun did not reach a server: the driver reports {outcome.describe()}"
        self._bench.require(reached, message, self.latest)

    async def outcome(self, name: str) -> Outcome:
        """Have the client wait for a search that was begun."""
        return await self.ask("await", of=name)

    async def cancel(self, name: str) -> Outcome:
        """Have the client cancel a search that was begun."""
        return await self.ask("cancel", of=name)

    async def ask(self, op: str, **members: Any) -> Outcome:
        """Have the client do something."""
        timeouts = self._bench.timeouts
        self._driver.seconds = timeouts.for_request(op)
        try:
            outcome = await self._driver.ask(op, **members)
        except DriverError as error:
            if isinstance(error.__cause__, TimeoutError):
                timeouts.timed_out(op)
            if (exchange := self.latest) is not None:
                self._bench.recorder.deaths.append((str(error), exchange))
            raise
        timeouts.answered(op)
        if outcome.unsupported:
            raise NoDriverFeatureError(f"the driver does not support `{op}`")
        return outcome

    async def close(self, seconds: float) -> None:
        """Have the client leave, within `seconds`."""
        usual, self._driver.seconds = self._driver.seconds, min(self._driver.seconds, seconds)
        await self._driver.ask("close")
        self._driver.seconds = usual

    def require_search(self) -> None:
        """Continue only where the client searched.

        Raises:
            UnverifiableError: it did not.
        """
        self._bench.require(bool(self.peer.searches), "the client did not send tools/search", self.latest)

    def require_second_page(self) -> None:
        """Continue only where the client requested more than the first page.

        Raises:
            UnverifiableError: it did not.
        """
        read_on = len(self.peer.searches) > 1
        self._bench.require(read_on, "the client did not read on from the first page", self.latest)

    @property
    def peer(self) -> Peer:
        """The only peer."""
        (peer,) = self.peers.values()
        return peer

    @property
    def latest(self) -> Exchange | None:
        """The last exchange, if there is any."""
        return max(self._exchanges, key=lambda exchange: exchange.number, default=None)

    @property
    def evidence(self) -> Exchange:
        """The last exchange with a response, or the last one where none has any.

        Raises:
            UnverifiableError: there is none.
        """
        if not self._exchanges:
            raise UnverifiableError("the client sent nothing")
        return max(self._exchanges, key=lambda exchange: (exchange.replied, exchange.number))

    @property
    def opening(self) -> Exchange:
        """The exchange that opened the connection to the peer.

        Raises:
            UnverifiableError: there was none in this era.
        """
        if (opening := self.peer.opening) is None:
            raise UnverifiableError("the client did not open the connection in this era", self.latest)
        return opening

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
    def last_request_for_tools(self) -> Exchange:
        """The last page of `tools/list`, or else of a search, or else the opening.

        Raises:
            UnverifiableError: there was no opening in this era.
        """
        return (self.peer.listings or self.peer.searches or [self.opening])[-1]

    @property
    def followed(self) -> list[Any]:
        """The cursors of the searches, in their order; a `null` counts as none."""
        carried = (params_of(exchange).get("cursor") for exchange in self.peer.searches)
        return [cursor for cursor in carried if cursor is not None]

    @property
    def _exchanges(self) -> list[Exchange]:
        return [exchange for peer in self.peers.values() for exchange in peer.exchanges]


CLIENT_CHECKS: Final = Registry[ClientBench](CLIENT_PREFIX, profiles=("fixture",))
"""Every check of clients; `tools_search_conformance.clients.checks` declares them all."""

client_check = CLIENT_CHECKS.check
