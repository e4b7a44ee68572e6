"""The bench for server checks in one cell: all lists of the server under test, more connections, and more fixtures."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final

import anyio
from tools_search_spec import Primitive

from tools_search_conformance import catalogs
from tools_search_conformance.model import (
    SERVER_PREFIX,
    Cell,
    Check,
    InapplicableError,
    LeftOutError,
    UnverifiableError,
    VerdictError,
    ViolationError,
    rule_of,
)
from tools_search_conformance.run.judging import Timeouts, Workbench
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import Registry
from tools_search_conformance.run.rows import is_base
from tools_search_conformance.target.list_bench import ROUNDS, ListBench, content_terms, once
from tools_search_conformance.target.pages import Listing, advertised_settings
from tools_search_conformance.target.primitives import EVERY_METHOD, OTHERS, TOOLS, keys_in, settings_for
from tools_search_conformance.target.server import Opening, Params, Server, busy_seconds
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import DECLARED, LEGACY, OLDER, UNDECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange

_JUDGES_OF_STATE: Final = frozenset(
    {"any-sequence", "declaration-per-request", "list-unchanged", "refusal-changes-nothing"}
)
_JUDGES_OF_HANDSHAKES: Final = frozenset({"undeclared-legacy-served"})
_TOLD_APART: Final = 8
"""Maximum outcomes per cell to retry on another connection."""
_REFUSALS: Final = frozenset({-32600, -32601, -32602, -32700, -32020, -32021, -32022})
"""Errors that say what is wrong with a request."""
_INTERNAL: Final = -32603
"""The error of a busy server; other codes are those of a state, such as that of a caller who is locked out."""
_KEPT: Final = 6
"""Maximum number of other fixtures' connections to keep open between checks."""
_NUMBERS: Final = count(1)
"""Numbers of processes that are used once."""
_PERIOD: Final = 1.5
"""Seconds after which a server that is too busy, or limits requests per second, may serve again."""


class Bench(ListBench):
    """One cell's workbench. Methods that can start another server raise `LeftOutError` if a brief run does not."""

    def __init__(self, server: Server, *, first_cell: bool = True, first_of_target: bool = True) -> None:
        super().__init__(server)
        self.first_cell = first_cell
        self.first_of_target = first_of_target
        """Whether no other cell of this target is judged before this one."""
        self.first_search: tuple[str | None, Exchange] | None = None
        """How the list differs after the very first searches by any method, and the last exchange of that listing."""
        self.listed_first: tuple[Listing, Listing] | None = None
        """Two listings from before the first searches."""
        self.early_death: tuple[str, Exchange] | None = None
        """How the target ended before any check, perhaps at its first search, and the exchange before that."""
        self.has_served = False
        """Whether a search has returned a result; served-where-advertised or `find_others` finds out."""
        self.serves_first_alone = False
        """Whether a search on a second connection has returned no result."""
        self.first_answer: Exchange | None = None
        """For other methods than `tools/search`: the answer to the first search with a result, or to the last one."""
        self.unread = ""
        """Why there is no such answer."""
        self._fixtures: dict[str, Bench] = {}
        self.faults_of_state: list[ViolationError] = []
        """Violations that an earlier request caused."""
        self.faults_of_load: list[ViolationError] = []
        """Errors to searches that were served when they were sent again."""
        self._told_apart = 0
        self._every: dict[str, Bench] = {self.method: self}
        """The benches on this one's connections, by method."""

    @property
    def offered(self) -> list[Bench]:
        """The benches for the other methods that the server advertises, once `find_others` has found them."""
        return [bench for bench in self._every.values() if bench.primitive is not TOOLS]

    @property
    def serves_catalog(self) -> bool:
        """Whether the list is the fixture's catalog. A server's own list can be too short for many rules."""
        if self.primitive is TOOLS:
            return True
        listed, member = self.server.last_listing, self.primitive.member
        given = catalogs.items("core", member) if self.profile == "fixture" else []
        return listed is not None and bool(given) and {*listed.by_key} == {item[self.primitive.key] for item in given}

    @property
    def others_served(self) -> list[Bench]:
        """The benches for the other served methods, including the one for tools."""
        benches = [bench for bench in self._every.values() if bench.primitive is TOOLS or bench.has_served]
        return [bench for bench in benches if bench.primitive is not self.primitive]

    @property
    def performances(self) -> int:
        """How often a check can run: once for each of its methods."""
        return len(self._every)

    def searching(self, primitive: Primitive) -> Bench:
        """Return this bench for another list: on the same connections, with queries that suit that list.

        It starts no servers: checks that need other catalogs or processes use tools.
        """
        if primitive.method not in self._every:
            other = self._every[primitive.method] = copy(self)
            other.turn_to(primitive)
            other.has_served, other.first_search, other.listed_first = False, None, None
            other._told_apart, other.faults_of_load = 0, []
        return self._every[primitive.method]

    @property
    def _of_tools(self) -> Bench:
        return self.searching(TOOLS)

    async def find_others(self) -> None:
        """Find out which other searches the settings advertise, and whether the server serves them.

        Sends nothing to a server that advertises none.
        """
        settings = advertised_settings(await self.server.connection())
        others = [self.searching(each) for each in OTHERS if settings_for(settings, each) is not None]
        for other in others:
            await other.list_twice()
        for other in others:
            await other._find_served()

    async def list_twice(self) -> None:
        """Keep two listings from before the first searches."""
        with suppress(UnverifiableError):  # the checks find listings that fail
            self.listed_first = await self.server.known_listing(), await self.server.listing()

    async def note_first_search(self) -> None:
        """Record whether the list is the same as before the first searches."""
        if self.listed_first is None:
            return
        with suppress(UnverifiableError):
            (one, two), after = self.listed_first, await self.server.listing()
            kept = two.compared_to(one)(two, after) or not two.same_as(one)
            if not kept and after.same_as(two):
                kept = not await self.keeps_order(after)
            self.first_search = None if kept else after.difference_from(two), after.exchange.in_brief()

    async def _find_served(self) -> None:
        try:
            words = Vocabulary((await self.server.known_listing()).items, self.primitive.key)
            for query in (words.key_query, *words.broad(1), NONSENSE):
                self.first_answer = await self.server.search({"query": query})
                self.has_served = self.first_answer.result is not None
                if self.has_served:
                    break
        except UnverifiableError as error:
            self.unread = error.message

    async def benches_for(self, check: Check) -> Sequence[Workbench]:
        """Return the benches for those of a check's methods that the server offers and that are this cell's turn."""
        own: list[Workbench] = [self] if self.method in check.methods else []
        others = [bench for bench in self.offered if bench._is_to_judge(check)]
        if not own and not others and any(b.has_served and b.method in check.methods for b in self.offered):
            raise LeftOutError("this is judged in another cell; --effort deep judges it in each")
        return [*own, *others]

    def counts_unverified(self, verdict: UnverifiableError) -> bool:
        """Return whether a rule that could not be exercised counts as open: a server's own list can be too short."""
        return self.serves_catalog or verdict.consequence_of is not None

    async def run(self, check: Check) -> None:
        """Run the body of a check for this method."""
        await self._perform(partial(check.run, self))

    def _is_to_judge(self, check: Check) -> bool:
        """Return whether it is this cell's turn to run a check for this method.

        Each check runs in full for a method over one of the transports, in the first era spoken there, and briefly
        where as much as possible differs: over the other transport and in the other era, if there are both.
        """
        options: Options = self._of_tools.options
        self.options: Options = options
        if self.method not in check.methods or not self.has_served:
            return False
        spoken = {"stdio": options.argv, "http": options.http_argv or options.url}
        transports = [name for name in check.transports if spoken[name]]
        other_transport = self.cell.transport != transport_of(check, self.method, transports)
        other_era = not self.first_of_target and len(check.eras) > 1
        if options.effort != "deep" and (other_transport or other_era):
            self.options = replace(options, effort="quick", brief=True)
            several_eras = len(check.eras) > 1 and len(options.eras) > 1
            is_opposite = other_transport == (len(transports) > 1) and other_era == several_eras
            return is_opposite and not options.effective_brief
        return True

    async def _perform(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run a check's body, and repeat it if the list changed meanwhile.

        A finding counts only if the list is still the one that the check compared with.
        """
        for _ in range(ROUNDS):
            basis = self.server.last_listing
            try:
                return await self._with_state_told_apart(body)
            except ViolationError:
                if (compared := self.server.last_listing) is None or await self.lists_steadily(compared):
                    raise
            except UnverifiableError:
                # The server might no longer have a tool of a listing that was read long ago.
                compared = self.server.last_listing
                if compared is None or compared is not basis or await self.lists(compared):
                    raise
            self.forget_choices()
        raise self.changing()

    async def _with_state_told_apart(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run a check's body. If an earlier request caused its finding, keep that for any-sequence.

        Which search gets an error because of what another client declared is for undeclared-legacy-served, and which
        one gets an error only now and then is for busy-refusal.
        """
        try:
            await body()
        except (ViolationError, UnverifiableError) as verdict:
            if await self._is_declared_by_others(verdict):
                await self.server.aclose()  # so that later checks begin with a handshake
                rule = "undeclared-legacy-served"
                message = f"what the latest client declared decides whether a search is served; see {rule}"
                raise UnverifiableError(message, verdict.exchange, consequence_of=rule) from verdict
            if (late := await self._fault_of_load(verdict)) is not None:
                self.faults_of_load.append(late)
                message = f"{late.message}; see busy-refusal"
                raise UnverifiableError(message, verdict.exchange, consequence_of="busy-refusal") from verdict
            fault = None if verdict in self.faults_of_state else await self._fault_of_state(verdict)
            if fault is None:
                raise
            self.faults_of_state.append(fault)
            self.forget_choices()
            await self.server.aclose()  # so that later checks get a server without that state
            message = f"{fault.message}; see any-sequence"
            raise UnverifiableError(message, verdict.exchange, consequence_of="any-sequence") from verdict

    async def _fault_of_load(self, verdict: VerdictError) -> ViolationError | None:
        """Return the fault if the decisive search got an error that says nothing of it, but not a little later."""
        exchange = verdict.exchange
        if exchange is None or exchange.error is None or self._of_tools.serves_first_alone:
            return None
        if verdict.catalog is not None and rule_of(self.recorder.check) != "any-sequence":
            return None  # another connection may get an error each time
        if exchange.error.code != _INTERNAL or exchange.method != self.method or busy_seconds(exchange) is not None:
            return None
        judges = (_JUDGES_OF_STATE | _JUDGES_OF_HANDSHAKES | {"busy-refusal"}) - {"any-sequence"}
        if not self._is_to_tell_apart("busy-refusal", judges):
            return None
        with suppress(RefusedError, TargetError):
            await anyio.sleep(_PERIOD)
            again = await self._send_again(exchange)
            if again.result is not None or again.error_code in _REFUSALS:
                message = f"{verdict.message}; but the same search got {again.describe()} {_PERIOD} s later"
                return ViolationError(message, exchange, verdict.case)
        return None

    async def _fault_of_state(self, verdict: VerdictError) -> ViolationError | None:
        """Return the fault if the decisive search, without a cursor, fails again here but not on a new connection."""
        exchange = verdict.exchange
        if exchange is None or verdict.catalog is not None or not exchange.replied:
            return None  # findings name a catalog if their connection was new
        if exchange.method != self.method or "cursor" in exchange.params or busy_seconds(exchange) is not None:
            return None
        if exchange.error is None and (isinstance(verdict, UnverifiableError) or is_base(self.recorder.check)):
            return None  # an SDK's memory can decide what the base protocol refuses, without any search
        if not self._may_tell_apart("any-sequence", _JUDGES_OF_STATE | _JUDGES_OF_HANDSHAKES):
            return None
        try:
            if _outcome(await self._send_again(exchange)) != _outcome(exchange):
                return None
            async with self._of_tools.fresh(own_process=True) as other:
                alone = await other.searching(self.primitive)._send_again(exchange)
        except (VerdictError, RefusedError, TargetError):
            return None
        if not alone.replied or _outcome(alone) == _outcome(exchange):
            return None
        if isinstance(verdict, UnverifiableError) and alone.result is None:
            return None
        if (compared := self.server.last_listing) is not None and not await self.lists_steadily(compared):
            self.server.last_listing = compared  # for `_perform`, which repeats the check
            return None
        first = f"as the first search on another connection, the same request got {alone.describe()}"
        message = f"{verdict.message}; but {first}, so an earlier request changed the answer"
        fault = ViolationError(message, exchange, verdict.case)
        fault.steps = tuple(self.recorder.leading_to(exchange))
        return fault

    async def _is_declared_by_others(self, verdict: VerdictError) -> bool:
        """Return whether the decisive search of a legacy client fails or not as other clients declare the extension."""
        exchange = verdict.exchange
        if self.cell.era != LEGACY or self.cell.transport != "http" or exchange is None or exchange.error is None:
            return False  # on stdio, a process has one client
        if not exchange.method.endswith("/search") or "cursor" in exchange.params:
            return False
        if not self._may_tell_apart("undeclared-legacy-served", _JUDGES_OF_HANDSHAKES):
            return False
        served: list[bool] = []
        with suppress(VerdictError, RefusedError, TargetError):
            for capabilities in (DECLARED, UNDECLARED):
                async with self._of_tools.fresh(capabilities=capabilities):
                    served.append((await self._send_again(exchange)).result is not None)
        return served == [True, False]

    def _may_tell_apart(self, rule: str, judges: Collection[str]) -> bool:
        """Return whether the outcome of a check other than the `judges` may be tried again for the check of `rule`."""
        startable = self._of_tools.can_start("core") and self._told_apart < _TOLD_APART
        if not startable or not self._is_to_tell_apart(rule, judges):
            return False
        self._told_apart += 1
        return True

    def _is_to_tell_apart(self, rule: str, judges: Collection[str]) -> bool:
        wanted = any(check.rule == rule for check in self.options.selection.wanted(self.cell))
        return wanted and rule_of(self.recorder.check) not in judges

    async def _send_again(self, exchange: Exchange) -> Exchange:
        connection = await self.server.connection()
        number = exchange.sent["id"]
        message = {**exchange.sent, "id": connection.next_id() if isinstance(number, int) else number}
        return await connection.resend(message, exchange.headers, seconds=self.options.timeout)

    @asynccontextmanager
    async def fresh(
        self, *, catalog: str = "core", capabilities: Params = DECLARED, own_process: bool = False
    ) -> AsyncGenerator[Bench]:
        """Yield a bench like this one on a new connection to a fixture that serves `catalog`.

        With `own_process`, that is a process without earlier requests over HTTP too, if the suite starts it and the
        run is not brief.
        """
        self._require_start(catalog)
        env = self._own_process(f"own {next(_NUMBERS)}") if own_process else {}
        other = self._bench(Opening(catalog=catalog, capabilities=capabilities, env=env), self.server.timeouts)
        async with aclosing(other), self._opened(other, catalog) as opened:
            yield opened

    def older(self, revision: str = OLDER) -> AbstractAsyncContextManager[Bench]:
        """Yield a bench on a connection that requests an older legacy revision, the same for every check.

        Its client declares the extension where an SDK of that revision can send it.
        """
        declared = {"experimental": DECLARED["extensions"]}
        return self._kept(Opening(revision=revision, capabilities=declared), f"older: {revision}")

    @asynccontextmanager
    async def of_legacy_client(self) -> AsyncGenerator[Bench]:
        """Yield a bench like `fresh` for a legacy client; over HTTP, of the same process."""
        self._require_start("core")
        other = self._bench(Opening(), self.server.timeouts, replace(self.cell, era=LEGACY))
        async with aclosing(other), self._opened(other, "core") as opened:
            yield opened

    def undeclaring(self) -> AbstractAsyncContextManager[Bench]:
        """Yield a bench like `fresh` with its own process, for a client without a declaration, to every check."""
        return self._kept(Opening(capabilities=UNDECLARED, env=self._own_process("undeclaring")), "undeclaring")

    @asynccontextmanager
    async def another(self, *, unasked: Collection[str] = ()) -> AsyncGenerator[Bench]:
        """Yield a bench on another connection to the usual fixture, which has not been asked for the methods `unasked`.

        On stdio, where each connection is a start, checks of a fixture share it until one of them ends early. Over
        HTTP, they share a process that has not been asked for a listing.
        """
        known = self._fixtures.get("another")
        if known is not None and not known.server.asked.isdisjoint(unasked):
            await self._fixtures.pop("another").aclose()
        opening = Opening(env=self._own_process("another") if unasked else {})
        kept = self.profile == "fixture" if self.cell.transport == "stdio" else bool(unasked)
        async with self._kept(opening, "another") if kept else self.fresh() as other:
            yield other

    @asynccontextmanager
    async def serving(self, catalog: str) -> AsyncGenerator[Bench]:
        """Yield a bench on the fixture that serves `catalog`; the same for every check of this cell."""
        async with self._opened(await self.fixture(catalog, Opening(catalog=catalog)), catalog) as other:
            yield other

    @asynccontextmanager
    async def _kept(self, opening: Opening, name: str) -> AsyncGenerator[Bench]:
        """Yield the bench `name`, and keep it until a check that uses it ends early."""
        self._of_tools._require_start("core")
        other = self._used(name, opening, self.server.timeouts)
        try:
            async with self._opened(other, "core") as opened:
                yield opened
        except BaseException:
            await self._fixtures.pop(name).aclose()
            raise

    @asynccontextmanager
    async def _opened(self, other: Bench, catalog: str) -> AsyncGenerator[Bench]:
        """Yield another connected bench for the same list. Its findings name `catalog`."""
        if self._of_tools.serves_first_alone:
            rule = "served-where-advertised"
            raise UnverifiableError("the server serves no search on another connection", consequence_of=rule)
        try:
            await other.server.connection()
        except RefusedError as error:
            raise UnverifiableError(f"a second connection was refused: {error}", error.exchange) from error
        try:
            yield other.searching(self.primitive)
        except VerdictError as verdict:
            verdict.catalog = verdict.catalog or catalog
            raise

    def _own_process(self, name: str) -> dict[str, str]:
        """Return the environment of a process for all with this name. On stdio, each bench has its own process."""
        shared = self.cell.transport == "stdio" or self._shares_starts
        return {} if shared else {"TOOLS_SEARCH_START": name}

    async def fixture(self, name: str, opening: Opening) -> Bench:
        """Return the bench `name`, opened with `opening` on first use and kept until this bench closes.

        Checks that need the same fixture share it, because starting one takes longest.
        """
        self._of_tools._require_start(name)
        other = self._used(name, opening)
        await other.server.connection()
        return other.searching(self.primitive)

    def _used(self, name: str, opening: Opening, timeouts: Timeouts | None = None) -> Bench:
        other = self._fixtures.pop(name, None) or self._bench(opening, timeouts)
        self._fixtures[name] = other  # the last one now, for `close_unused`
        return other

    async def close_unused(self) -> None:
        """Close the fixtures that were used longest ago, to limit how many of a server's processes run at once."""
        for name in [*self._fixtures][:-_KEPT]:
            await self._fixtures.pop(name).aclose()

    def _bench(self, opening: Opening, timeouts: Timeouts | None = None, cell: Cell | None = None) -> Bench:
        kept = self.server.target, self.recorder, opening, timeouts, self.server.concurrency
        return Bench(Server(self.options, cell or self.cell, *kept))

    async def where_reloaded(self, part: Callable[[Bench], Awaitable[object]]) -> None:
        """Run the part of a check that changes a catalog, if the fixture can be reloaded.

        Nothing in it counts as unverified, because change-seen judges whether a change shows.
        """
        if "reload" in self.options.fixture_features and not self.options.effective_brief:
            with suppress(InapplicableError, UnverifiableError):
                await part(self)

    def place(self, catalog: str, document: JsonObject) -> None:
        """Replace the catalog file of that name where fixtures find it."""
        self.server.target.place(catalog, document)

    async def aclose(self) -> None:
        """Close the connection and every fixture concurrently, since a process can take a second."""
        fixtures, self._fixtures = self._fixtures, {}
        async with anyio.create_task_group() as closing:
            for other in fixtures.values():
                closing.start_soon(other.aclose)
            await self.server.aclose()

    def can_start(self, catalog: str) -> bool:
        """Return whether `fresh` may start the target. A brief run starts it once, unless it is running over HTTP."""
        return not self._shares_starts or (self.cell.transport == "http" and catalog == "core")

    @property
    def _shares_starts(self) -> bool:
        return self.options.effective_brief or self.primitive is not TOOLS

    def may_serve(self, catalog: str) -> bool:
        """Return whether it is this cell's turn to start the target with another catalog than the usual one."""
        return self.profile == "fixture" and self.can_start(catalog) and self.has_turn(0)

    @property
    def starts_freely(self) -> bool:
        """Whether another connection does not start the server, or no other cell of the run avoids such starts."""
        free = self.cell.transport == "http" or not self.options.http_argv
        return free and self.can_start("core")

    def _require_start(self, catalog: str) -> None:
        if not self.can_start(catalog):
            raise LeftOutError("it takes another start of the server; --effort default runs it")


def transport_of(check: Check, method: str, transports: Sequence[str]) -> str:
    """Return over which of `transports` a check runs for a method other than `tools/search`.

    Its methods take turns, so that with two transports and several methods each check runs over both.
    """
    number, place = zlib.crc32(check.id.encode()), check.methods.index(method)
    return transports[(number + place) % len(transports)]


def _outcome(exchange: Exchange) -> tuple[str, list[Any]]:
    return exchange.describe(), keys_in(exchange)


@once
async def queries_beyond(bench: Bench) -> list[str]:
    """Return queries with terms of the other lists that the server searches, and of content.

    Their results may come from another index, which may lack properties of the usual one. A brief run sends none.
    """
    if bench.options.effective_brief:
        return []
    own, queries = (await bench.vocabulary()).frequency, list[str]()
    for other in bench.others_served:
        with suppress(UnverifiableError):
            queries += [word for word in (await other.vocabulary()).broad() if word not in own][:1]
    pairs = await content_terms(bench)
    return [*queries, *(" ".join(pair) for pair in pairs[:1]), *(inside for _, inside in pairs[1:])]


SERVER_CHECKS: Final = Registry[Bench](SERVER_PREFIX, methods=EVERY_METHOD)
"""All server checks; `tools_search_conformance.checks` declares them.

Other searches have the same rules as the one for tools, so a check is run for each, unless it names its methods."""

server_check = SERVER_CHECKS.check
