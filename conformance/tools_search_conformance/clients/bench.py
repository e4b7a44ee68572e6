"""What the body of a client check works with, in one cell: a driver, peers to connect it to, and expectations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import anyio

from tools_search_conformance.clients.contract import DriverError, NoDriverFeatureError, Told
from tools_search_conformance.clients.driver import AnyDriver
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import Script
from tools_search_conformance.clients.sessions import FederationSession, NotConnectedError, Session
from tools_search_conformance.clients.stage import Stage
from tools_search_conformance.model import Cell, DriverFeature, Profile
from tools_search_conformance.run.setting import Setting
from tools_search_conformance.target.expectations import Expectations
from tools_search_conformance.target.patience import Patience
from tools_search_conformance.verdict import ViolationError
from tools_search_conformance.wire.eras import Era
from tools_search_conformance.wire.record import Exchange, Recorder

__all__ = ["ClientBench"]

_MOST_STARTS: Final = 40
_CLOSE_SECONDS: Final = 5.0

StartDriver = Callable[[Callable[[str], None]], Awaitable[AnyDriver]]
"""Starts another driver; what it is given learns of every line."""


class ClientBench(Expectations):
    """One cell's workbench. The driver serves all checks of the cell and is started again when it has ended."""

    profile: Profile = "fixture"

    def __init__(self, setting: Setting, start: StartDriver, stage: Stage, recorder: Recorder) -> None:
        super().__init__()
        self.setting = setting
        self.recorder = recorder
        self.deaths: list[tuple[str, Exchange]] = []
        """How the driver ended during the current check, and the exchange that was the last one."""
        self._start = start
        self._stage = stage
        self.patience = Patience(setting.seconds)
        self._driver: AnyDriver | None = None
        self._starts = 0

    @property
    def cell(self) -> Cell:
        """Which transport and era."""
        return self.setting.cell

    async def driver(self) -> AnyDriver:
        """Return the cell's driver, started anew if it has ended.

        Raises:
            DriverError: it cannot be started.
        """
        if self._driver is None or self._driver.ended is not None:
            await self.aclose()
            self._starts += 1
            if self._starts > _MOST_STARTS:
                raise DriverError("the driver had to be started too often; see the wire log")
            if self.patience.gone is not None:
                raise DriverError(self.patience.gone)
            try:
                self._driver = await self._start(self.recorder.note)
            except DriverError as error:
                self.patience.failed(str(error))
                raise
        return self._driver

    @asynccontextmanager
    async def connected(
        self,
        script: Script | None = None,
        *,
        opens: bool = False,
        era: Era | None = None,
        address: str | None = None,
    ) -> AsyncGenerator[Session]:
        """Connect the client to a new peer; where `opens`, that it can do so is what the check is about.

        The peer is of the cell's era, unless there is an `era`; it stands where the last one of that `address` stood.

        Raises:
            ViolationError, NotConnectedError: the client says that it cannot connect.
            NoDriverFeatureError: the driver cannot.
        """
        driver = await self.driver()
        peer = Peer(era or self.cell.era, script or Script(), self.recorder)
        async with self._stage.standing(peer, self.cell.transport, address) as target:
            session = Session(driver, peer, self)
            try:
                _require_connection(await session.ask("connect", target=target, era=peer.era), session, opens)
                yield session
            finally:
                await self._close(driver)

    @asynccontextmanager
    async def federated(
        self, scripts: Mapping[str, Script], *, opens: bool = False
    ) -> AsyncGenerator[FederationSession]:
        """Connect the client to one peer for each script; where `opens`, that it can do so is what the check is about.

        Raises:
            ViolationError, NotConnectedError: the client says that it cannot connect.
            NoDriverFeatureError: the driver cannot.
        """
        driver = await self.driver()
        self.needs(driver, "federation")
        peers = {name: Peer(self.cell.era, script, self.recorder) for name, script in scripts.items()}
        async with AsyncExitStack() as stack:
            targets = {
                name: await stack.enter_async_context(self._stage.standing(peer, self.cell.transport))
                for name, peer in peers.items()
            }
            session = FederationSession(driver, peers, self)
            try:
                _require_connection(await session.ask("federate", targets=targets, era=self.cell.era), session, opens)
                yield session
            finally:
                await self._close(driver)

    async def until(self, peer: Peer, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition` holds of what the peer has heard, for `seconds` at most; tell whether it does."""
        with anyio.move_on_after(min(seconds, self.setting.seconds)):
            await peer.until(condition)
        return condition()

    async def aclose(self) -> None:
        """Let the driver go, if there is one."""
        if self._driver is not None:
            await self._driver.aclose()
            self._driver = None

    def needs(self, driver: AnyDriver, feature: DriverFeature) -> None:
        """Go on only where the driver can do what is needed.

        Raises:
            NoDriverFeatureError: it does not say so.
        """
        if feature not in driver.features:
            raise NoDriverFeatureError(f"the driver does not name `{feature}` among its features")

    async def _close(self, driver: AnyDriver) -> None:
        """Have the client leave; a driver that cannot even do that is started anew for the next check."""
        with anyio.CancelScope(shield=True):
            patience, driver.seconds = driver.seconds, min(driver.seconds, _CLOSE_SECONDS)
            with suppress(DriverError):
                await driver.ask("close")
            driver.seconds = patience


def _require_connection(told: Told, session: Session | FederationSession, is_the_point: bool) -> None:
    """Go on only where the client has connected; where it `is_the_point` of the check, not to have is a violation."""
    if told.ok is None:
        error = ViolationError if is_the_point and session.latest else NotConnectedError
        raise error(f"the client did not connect: {told.describe()}", session.latest)
