"""The workbench for client checks in one cell: a driver, connections to scripted peers, and expectations."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from unicodedata import normalize

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import Primitive

from tools_search_conformance.clients.disguise import answer_as_of_tools
from tools_search_conformance.clients.driver import (
    AnyDriver,
    DriverError,
    NoDriverFeatureError,
    OneShotClient,
    Outcome,
    start_driver,
)
from tools_search_conformance.clients.endpoints import Endpoints
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import Script
from tools_search_conformance.model import CLIENT_PREFIX, Cell, Check, DriverFeature, UnverifiableError, ViolationError
from tools_search_conformance.run.judging import Timeouts, Workbench
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import Registry
from tools_search_conformance.target.primitives import OTHERS, TOOLS
from tools_search_conformance.wire.display import cut
from tools_search_conformance.wire.eras import LEGACY, Era, TransportName
from tools_search_conformance.wire.http import WAITING
from tools_search_conformance.wire.record import Exchange, Recorder

Case = TypeVar("Case")

ONE_PAGE: Final = (
    "the client requested only the first page; if it never reads another, the driver is to answer `unsupported` to "
    "`search_all`"
)
"""Why a check of later pages tests nothing."""
_SEARCHES: Final = frozenset({"search", "search_all"})
_OF_EVERY_METHOD: Final = frozenset({"connect", "close", "authorize", *_SEARCHES})
"""The driver's operations for searches other than for tools."""
_TRANSPORTS: Final = frozenset({"stdio", "http"})
_MAX_STARTS: Final = 40
_SUBSCRIBE_SECONDS: Final = 0.2
_SHORT_WORD: Final = 3
_CLOSE_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 1.0
"""How much of each operation's time does not count towards the check's limit: being slow is not an error."""
_SEARCH_SECONDS: Final = 10.0
"""Timeout in seconds for a begun search to reach its server."""
_ALL_SEARCHES_SECONDS: Final = 2.0
"""Timeout in seconds for it to reach all servers that are asked concurrently."""


class NotConnectedError(UnverifiableError):
    """The client reports that it cannot connect to a peer."""


class ClientBench(Workbench):
    """One cell's workbench. The driver serves all of the cell's checks, and is restarted if it exits."""

    def __init__(
        self, options: Options, cell: Cell, tasks: TaskGroup, endpoints: Endpoints, recorder: Recorder
    ) -> None:
        """Take the task group for drivers, and the endpoints for peers."""
        super().__init__(options, cell, recorder)
        self.timeouts = Timeouts(options.timeout)
        self._tasks = tasks
        self._endpoints = endpoints
        self.done: set[tuple[str, bool]] = set()
        """The operations that the driver has performed, with one server and with several."""
        self._driver: AnyDriver | None = None
        self._starts = 0
        self._whole = self

    async def benches_for(self, check: Check) -> Sequence[Workbench]:
        """Return the benches for the methods that a check covers and the driver supports."""
        own: list[Workbench] = [self] if self.method in check.methods else []
        others = [primitive for primitive in OTHERS if primitive.method in check.methods]
        if others and "primitives" not in (await self.driver()).features:
            others = []
        others = [primitive for primitive in others if self._has_turn(check, primitive)]
        if not own and not others:
            await self.require_features("primitives")
        return [*own, *map(self.searching, others)]

    def searching(self, primitive: Primitive) -> ClientBench:
        """Return this bench for searches of another list."""
        other = copy(self)
        other.primitive = primitive
        other.done = set()
        return other

    async def driver(self) -> AnyDriver:
        """Return the cell's driver, restarted if it has exited; raises `DriverError` if it cannot be started."""
        if self._whole is not self:
            return await self._whole.driver()
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

    async def require_features(self, *features: DriverFeature | TransportName) -> None:
        """Continue only if the driver declares all these features; raises `NoDriverFeatureError`."""
        known = (await self.driver()).features
        for feature in features:
            if feature not in known:
                if self.options.one_shot:
                    raise NoDriverFeatureError(f"one-shot clients cannot be asked for this: `{feature}`")
                raise NoDriverFeatureError(f"the driver does not name `{feature}` among its features")

    async def where_named(self, feature: DriverFeature, part: Callable[[ClientBench], Awaitable[object]]) -> None:
        """Run the part of a check that needs a driver feature, if the driver has it."""
        if feature in (await self.driver()).features:
            with suppress(NoDriverFeatureError):
                await part(self)

    def expect(self, condition: bool, exchange: Exchange, message: str, *, case: str | None = None) -> None:
        """Test an expectation; for a one-shot client, the message also says what it was asked to do."""
        expected = self._driver.expected if isinstance(self._driver, OneShotClient) else None
        super().expect(condition, exchange, f"{message} ({expected})" if expected else message, case=case)

    @asynccontextmanager
    async def connected(
        self,
        script: Script | None = None,
        *,
        must_connect: bool = False,
        era: Era | None = None,
        address: str | None = None,
    ) -> AsyncGenerator[Session]:
        """Connect the client to a new peer that follows `script`, in the cell's era by default.

        With an `address`, the peer replaces the last one with the same address. If the client cannot connect, raises
        `ViolationError` if it `must_connect`, and otherwise `NotConnectedError`. Raises `NoDriverFeatureError` if the
        driver does not support connecting.
        """
        peers = {"peer": Peer(era or self.cell.era, script or Script(), self.recorder, self.primitive)}
        async with self._session("connect", peers, must_connect, address) as session:
            yield session

    @asynccontextmanager
    async def federated(self, scripts: Mapping[str, Script], *, must_connect: bool = False) -> AsyncGenerator[Session]:
        """Connect the client to a peer for each script, by name; otherwise like `connected`."""
        if self.primitive is not TOOLS:
            raise NoDriverFeatureError("a federation is about tools")
        await self.require_features("federation")
        peers = {name: Peer(self.cell.era, script, self.recorder, self.primitive) for name, script in scripts.items()}
        async with self._session("federate", peers, must_connect) as session:
            yield session

    @asynccontextmanager
    async def _session(
        self, op: str, peers: Mapping[str, Peer], must_connect: bool, address: str | None = None
    ) -> AsyncGenerator[Session]:
        """Have the client connect to peers, and disconnect when the block ends."""
        session = Session(self, await self.driver(), peers)
        async with AsyncExitStack() as stack:
            targets = {
                name: await stack.enter_async_context(self._endpoints.serving(peer, self.cell.transport, address))
                for name, peer in peers.items()
            }
            where = {"targets": targets} if op == "federate" else {"target": targets["peer"]}
            try:
                outcome = await session.ask(op, **where, era=next(iter(peers.values())).era)
                if outcome.ok is None:
                    error = ViolationError if must_connect and session.latest else NotConnectedError
                    raise error(f"the client did not connect: {outcome.describe()}", session.latest)
                yield session
            finally:
                with anyio.CancelScope(shield=True), suppress(DriverError):  # the next check starts another driver
                    await session.close()

    def share(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Return the cell's share of cases that do not depend on the transport and need a connection each.

        If the client is judged over both transports, each gets every second case; in a deep run, each gets all of them.
        """
        return cases[self._over_http :: 2] if self._takes_turns else cases

    def some(self, cases: Sequence[Case], most: int) -> Sequence[Case]:
        """Return all cases; for lists other than tools, at most `most` of them, different ones for each list."""
        if self.primitive is TOOLS or self.options.effort == "deep" or len(cases) <= most:
            return cases
        first, rest = cases[: most > 1], cases[most > 1 :]
        number = OTHERS.index(self.primitive)
        return [*first, *(rest[(number + len(OTHERS) * place) % len(rest)] for place in range(most - len(first)))]

    def _has_turn(self, check: Check, primitive: Primitive) -> bool:
        """Return whether this cell runs a check for a list other than tools.

        An implementation seldom breaks a rule for one list over one transport only, so each check runs over one of
        them, alternating between lists.
        """
        number = zlib.crc32(check.id.encode()) + OTHERS.index(primitive)
        return len(check.transports) == 1 or not self._takes_turns or number % 2 == self._over_http

    @property
    def share_of_examples(self) -> float:
        """The share of the usual number of generated cases for this list."""
        return 1 if self.primitive is TOOLS else 1 / 3

    @property
    def _over_http(self) -> bool:
        return self.cell.transport == "http"

    @property
    def _takes_turns(self) -> bool:
        """Whether the client is judged over both transports, and not in depth."""
        other = replace(self.cell, transport="stdio" if self._over_http else "http")
        both = self.options.transport == "auto" and bool(self.options.selection.wanted(other))
        able = self._driver is not None and self._driver.features >= _TRANSPORTS
        return both and able and self.options.effort != "deep"

    async def until(self, peer: Peer, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait up to `seconds` until the peer has received what `condition` requires; return whether it has."""
        with anyio.move_on_after(min(seconds, self.options.timeout)):
            await peer.until(condition)
        return condition()

    async def aclose(self) -> None:
        """Stop the driver, if any."""
        if self._driver is not None:
            await self._driver.aclose()
            self._driver = None


@dataclass(eq=False)
class Session:
    """The client's connection to one peer, or to several as a federation.

    Operations go through the driver. They raise `NoDriverFeatureError` if the driver does not support the operation,
    and `DriverError` if it exited or did not answer. Properties are evidence from the peers, and raise
    `UnverifiableError` if there is none, unless they can be `None`.
    """

    _bench: ClientBench
    _driver: AnyDriver
    peers: Mapping[str, Peer]
    _instead: str = field(default="", init=False)
    """What the last operation did instead of a search, as the end of a message."""

    async def search(self, query: str, limit: int | None = None) -> Outcome:
        """Have the client find tools for a need, at most `limit` if given."""
        return await self.ask("search", query=query, **({} if limit is None else {"limit": limit}))

    async def search_all(self, query: str) -> Outcome:
        """Have the client find every tool for a need."""
        return await self.ask("search_all", query=query)

    def searching(self, primitive: Primitive) -> Session:
        """Return this session for searches of another list that its peer serves."""
        return replace(self, _bench=self._bench.searching(primitive))

    async def find(self, query: str, limit: int | None) -> Outcome:
        """Have the client find every tool for a need, or at most `limit`."""
        return await (self.search_all(query) if limit is None else self.search(query, limit))

    async def find_and_call(self, query: str, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Have the client find every tool and call one; raises `NoDriverFeatureError` if a one-shot client does not."""
        if not self._bench.options.one_shot:
            await self.search_all(query)
            return await self.ask("call", name=name, arguments=arguments)
        outcome = await self.ask("find_and_call", query=query, name=name, arguments=arguments)
        if not self.peer.requests("tools/call"):
            raise NoDriverFeatureError("the client calls no tool in the scenario tools-search/call")
        return outcome

    async def do_everything(self, query: str) -> None:
        """Have the client do everything that its driver supports: search in every way, list and call.

        Then it searches again, after a list change and for another user.
        """
        some, every = ("search", {"query": query, "limit": 2}), ("search_all", {"query": query})
        name = self.peer.script.tools[0]["name"]
        if "concurrent" in self._driver.features:
            await self._ask_each(*(("begin", {"as": each, "query": query}) for each in ("one", "other")))
            await self._ask_each(*(("await", {"of": each}) for each in ("one", "other")))
        await self._ask_each(some, ("search", {"query": query}), every)
        await self._ask_each(("list_tools", {}), ("call", {"name": name, "arguments": {}}), some)
        with anyio.move_on_after(_SUBSCRIBE_SECONDS):
            await self.peer.subscribed.wait()
        await self.peer.notify_change()
        await self._ask_each(some, every)
        if "authorization" in self._driver.features:
            await self._ask_each(("authorize", {"as": "somebody"}), some, every)

    async def _ask_each(self, *asked: tuple[str, Mapping[str, Any]]) -> None:
        for op, members in asked:
            with suppress(NoDriverFeatureError):
                await self.ask(op, **members)

    async def begin(self, name: str, query: str) -> None:
        """Have the client begin a search, identified by `name`; return when the peers have received it and hold it.

        With several peers, waits a moment for those that the client asks concurrently. Raises `UnverifiableError` if
        the search reaches none.
        """
        alone = len(self.peers) == 1
        outcome = await self.ask("begin", query=query, **{"as": name})
        if outcome.ok is None and not alone:
            raise NoDriverFeatureError(f"the driver begins no search of several servers: {outcome.describe()}")
        if outcome.ok is not None:
            seconds = _SEARCH_SECONDS if alone else _ALL_SEARCHES_SECONDS
            async with anyio.create_task_group() as tasks:
                for peer in self.peers.values():
                    tasks.start_soon(self._bench.until, peer, lambda peer=peer: peer.holds(query), seconds)
        reached = outcome.ok is not None and any(peer.holds(query) for peer in self.peers.values())
        message = f"the search that was begun did not reach a server: the driver reports {outcome.describe()}"
        self._bench.require(reached, message, self.latest)

    async def cancel(self, name: str) -> None:
        """Have the client cancel the search that was begun under `name`, where another check judges how it does.

        Raises `NoDriverFeatureError` if the driver does not answer; it cannot be asked for anything else then.
        """
        try:
            await self.ask("cancel", of=name)
        except DriverError as error:
            self._bench.recorder.deaths.clear()
            raise NoDriverFeatureError(str(error)) from error

    async def ask(self, op: str, **members: Any) -> Outcome:
        """Have the client perform an operation."""
        timeouts, before, primitive = self._bench.timeouts, self.latest, self._bench.primitive
        if primitive is not TOOLS:
            if op not in _OF_EVERY_METHOD:
                raise NoDriverFeatureError(f"`{op}` is about tools")
            members |= {"of": primitive.member} if op in _SEARCHES else {}
        self._driver.seconds = timeouts.for_request(op)
        began = anyio.current_time()
        try:
            outcome = await self._driver.ask(op, **members)
            if primitive is not TOOLS and outcome.answer is not None:
                outcome = replace(outcome, answer=answer_as_of_tools(outcome.answer, primitive))
        except DriverError as error:
            if isinstance(error.__cause__, TimeoutError):
                timeouts.timed_out(op)
            if (exchange := self.latest) is not None:
                self._bench.recorder.deaths.append((str(error), exchange))
            raise
        timeouts.answered(op)
        WAITING.get()(min(anyio.current_time() - began, _SLOW_SECONDS))
        done, this = self._bench.done, (op, len(self.peers) > 1)
        if outcome.unsupported:
            # The driver might not support connecting in every era, but nothing else depends on the check.
            if this in done and op != "connect":
                raise UnverifiableError(f"the driver did `{op}` before, and now answers that it is unsupported")
            raise NoDriverFeatureError(f"the driver does not support `{op}`")
        done.add(this)
        self._instead = self._done_instead(op, outcome) if outcome.reported else ""
        searches = [exchange for peer in self.peers.values() for exchange in peer.searches]
        made = tuple(e for e in searches if before is None or e.number > before.number)
        if not outcome.reported and made and "query" in members:
            _require_its_query(members["query"], made)
        return replace(outcome, searches=made)

    def _done_instead(self, op: str, outcome: Outcome) -> str:
        if outcome.error is not None:
            return f"; the driver answered `{op}` with {outcome.describe()}"
        asked = op not in _SEARCHES or any(peer.searches or peer.listings for peer in self.peers.values())
        return "" if asked else "; the driver answered without any request to this server"

    async def close(self) -> None:
        """Have the client disconnect."""
        usual, self._driver.seconds = self._driver.seconds, min(self._driver.seconds, _CLOSE_SECONDS)
        await self._driver.ask("close")
        self._driver.seconds = usual

    def expect(self, condition: bool, message: str, at: Exchange | None = None, *, case: str | None = None) -> None:
        """Test an expectation against an exchange; by default, the last search."""
        self._bench.expect(condition, at or self.last_search, message, case=case)

    def expect_search(self, wanted: bool, message: str, *, case: str | None = None) -> None:
        """Expect that the client has searched, or has not; raises `ViolationError`."""
        sent = self.peer.searches
        message = message if sent else message + self._instead
        self._bench.expect(bool(sent) == wanted, sent[0] if sent else self.opening, message, case=case)

    def require_search(self) -> None:
        """Continue only if the client searched; raises `UnverifiableError`."""
        message = f"the client did not send {self._bench.method}, although it was offered{self._instead}"
        self._bench.require(bool(self.peer.searches), message, self.latest)

    def require_second_page(self) -> None:
        """Continue only if the client requested more than the first page; raises `UnverifiableError`."""
        self.require_search()
        read_on = len(self.peer.searches) > 1
        self._bench.require(read_on, ONE_PAGE + self._instead, self.latest)

    @property
    def peer(self) -> Peer:
        """The only peer."""
        (peer,) = self.peers.values()
        return peer

    @property
    def latest(self) -> Exchange | None:
        """The last exchange, if any."""
        last = [peer.exchanges[-1] for peer in self.peers.values() if peer.exchanges]
        return max(last, key=lambda exchange: exchange.number, default=None)

    @property
    def evidence(self) -> Exchange:
        """The last exchange with a response, or else the last exchange."""
        exchanges = [exchange for peer in self.peers.values() for exchange in peer.exchanges]
        if not exchanges:
            raise UnverifiableError("the client sent nothing")
        return max(exchanges, key=lambda exchange: (exchange.replied, exchange.number))

    @property
    def opening(self) -> Exchange:
        """The exchange that opened the connection to the peer; modern clients can omit `server/discover`."""
        peer = self.peer
        if peer.era == LEGACY:
            opened = peer.requests("initialize")
        else:
            opened = peer.requests("server/discover") or peer.exchanges
        for exchange in opened:
            if exchange.result is not None:
                return exchange
        raise UnverifiableError("the client did not open the connection in this era", self.latest)

    @property
    def last_search(self) -> Exchange:
        """The last search's exchange."""
        self.require_search()
        return self.peer.searches[-1]

    @property
    def last_request_for_tools(self) -> Exchange:
        """The exchange of the last page of `tools/list`, or else of a search, or else of the opening."""
        return (self.peer.listings or self.peer.searches or [self.opening])[-1]

    @property
    def followed(self) -> list[Any]:
        """The cursors in the searches, in order; `null` counts as none."""
        carried = (exchange.params.get("cursor") for exchange in self.peer.searches)
        return [cursor for cursor in carried if cursor is not None]


def _require_its_query(query: str, searches: Sequence[Exchange]) -> None:
    """Continue only if a one-shot client searched for `query`, or at least for some of its words."""
    wanted, sent = _words(query), str(searches[0].params.get("query"))
    if wanted and not any(wanted & _words(str(exchange.params.get("query"))) for exchange in searches):
        message = f"the client searched for {cut(sent, 80)!r} instead of {cut(query, 80)!r}"
        raise UnverifiableError(f"{message}, the `query` of MCP_CONFORMANCE_CONTEXT", searches[0])


def _words(text: str) -> set[str]:
    """Return a text's distinctive words."""
    return {word for word in re.findall(r"\w+", normalize("NFKC", text).casefold()) if len(word) > _SHORT_WORD}


CLIENT_CHECKS: Final = Registry[ClientBench](CLIENT_PREFIX, profiles=("fixture",))
"""Every client check; `tools_search_conformance.clients.checks` registers them all."""

client_check = CLIENT_CHECKS.check
